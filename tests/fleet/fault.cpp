#include "tests/fleet/fault.hpp"

#include <map>
#include <sstream>
#include <stdexcept>

namespace shakedown::fleet {

namespace {

struct Keys {
  std::set<std::string> needed, known;
};

const std::map<std::string, Keys>& kinds() {
  static const std::map<std::string, Keys> all{{"gpu", {{"rank", "percent"}, {"in"}}},
                                               {"host", {{"host", "percent"}, {"in"}}},
                                               {"fleet", {{"percent"}, {"in"}}},
                                               {"link", {{"src", "dst", "fraction"}, {"host"}}},
                                               {"ports", {{"rank", "fraction"}, {"seen"}}},
                                               {"pcie", {{"rank"}, {"seen"}}},
                                               {"clock", {{"rank", "percent"}, {"reason"}}},
                                               {"heat", {{"rank", "percent"}, {}}},
                                               {"power_limit", {{"rank", "watts"}, {}}},
                                               {"allreduce", {{"fraction"}, {}}},
                                               {"network", {{"fraction"}, {}}},
                                               {"late", {{"rank", "us"}, {}}},
                                               {"data", {{"rank"}, {"in"}}},
                                               {"sdc", {{"rank"}, {"in"}}},
                                               {"errors", {{"rank", "what"}, {}}},
                                               {"missing", {{"host"}, {}}},
                                               {"absent", {{"host"}, {}}}};
  return all;
}

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw std::runtime_error("--fault=" + std::string(text) + ": " + why);
}

double number(std::string_view text, const std::string& key, const std::string& value, double least, double most) {
  std::istringstream words(value);
  double result = 0;
  if (!(words >> result) || !words.eof() || !(result >= least && result <= most)) {
    refuse(text, key + "=" + value + " is not a number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return result;
}

}  // namespace

Fault parse_fault(std::string_view text) {
  const auto colon = text.find(':');
  Fault fault;
  fault.kind = std::string(text.substr(0, colon));
  const auto found = kinds().find(fault.kind);
  if (found == kinds().end()) refuse(text, "unknown kind; see tests/fleet/fault.hpp");
  auto needed = found->second.needed;
  std::istringstream words(colon == std::string_view::npos ? "" : std::string(text.substr(colon + 1)));
  for (std::string word; std::getline(words, word, ',');) {
    const auto equals = word.find('=');
    const auto key = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (needed.erase(key) == 0 && !found->second.known.contains(key)) refuse(text, "unknown key \"" + key + "\"");
    const auto whole = [&] { return static_cast<int>(number(text, key, value, -1, 1e6)); };
    if (key == "rank") fault.rank = whole();
    if (key == "host") fault.host = whole();
    if (key == "src") fault.src = whole();
    if (key == "dst") fault.dst = whole();
    if (key == "percent") fault.percent = number(text, key, value, 0, 90);
    if (key == "fraction") fault.fraction = number(text, key, value, 0.01, 1);
    if (key == "us") fault.us = number(text, key, value, 0, 1e7);
    if (key == "watts") fault.watts = number(text, key, value, 100, 2000);
    if (key == "seen") fault.seen = whole() != 0;
    if (key == "in") fault.in = value;
    if (key == "reason") fault.reason = value;
    if (key == "what") fault.what = value;
  }
  if (!needed.empty()) refuse(text, "needs " + *needed.begin() + "=...");
  if (fault.kind == "link" && fault.host < 0) fault.host = 0;
  if ((fault.kind == "data" || fault.kind == "sdc") && fault.in.empty()) fault.in = "gemm/dtype:bf16/m:8192/n:8192";
  if (fault.kind == "heat") fault.reason = "hw_thermal";
  return fault;
}

}  // namespace shakedown::fleet
