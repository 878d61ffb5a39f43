#include "tests/fleet/noise.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>
#include <set>
#include <stdexcept>

namespace shakedown::fleet {

namespace {

[[noreturn]] void refuse(const std::filesystem::path& file, const YAML::Mark& mark, const std::string& why) {
  throw std::runtime_error(file.string() + ":" + std::to_string(mark.line + 1) + ": " + why);
}

/// Reads one file of a description into a Noise that an included file may have filled already.
class Reader {
 public:
  Reader(std::filesystem::path file, Noise& noise) : file_(std::move(file)), noise_(noise) {}

  void read(int depth = 0) {
    const YAML::Node root = load();
    allow(root,
          {"include", "kinds", "tails", "hiccups", "groups", "drift", "other_algorithm", "resample", "telemetry"});
    if (const auto other = root["include"]) {
      if (depth > 3) refuse(file_, other.Mark(), "include: too deep");
      Reader(file_.parent_path() / other.as<std::string>(), noise_).read(depth + 1);
    }
    for (const auto& kind : root["kinds"]) spread(kind.second, noise_.spread[index(kind.first)], 1);
    if (root["tails"]) spread(root["tails"], noise_.tails, 5);
    if (const auto hiccups = root["hiccups"]) {
      allow(hiccups, {"odds", "slower"});
      noise_.hiccup_odds = number(hiccups["odds"], 0, 1);
      noise_.hiccup_slower = number(hiccups["slower"], 0, 0.9);
    }
    for (const auto& group : root["groups"]) add_group(group);
    for (const auto& kind : root["drift"]) noise_.drift[index(kind.first)] = number(kind.second, -0.5, 0.5);
    if (root["other_algorithm"]) noise_.other_algorithm = number(root["other_algorithm"], 0, 1);
    if (root["resample"]) noise_.resample = number(root["resample"], 0, 10);
    if (root["telemetry"]) noise_.telemetry = root["telemetry"].as<bool>();
  }

 private:
  YAML::Node load() const try { return YAML::LoadFile(file_.string()); } catch (const YAML::Exception& error) {
    refuse(file_, error.mark, error.msg);
  }

  void allow(const YAML::Node& map, const std::set<std::string>& keys) const {
    if (!map.IsMap()) refuse(file_, map.Mark(), "a map is expected");
    std::set<std::string> seen;
    for (const auto& entry : map) {
      const auto key = entry.first.as<std::string>();
      if (!keys.contains(key)) refuse(file_, entry.first.Mark(), "unknown key \"" + key + "\"");
      if (!seen.insert(key).second) refuse(file_, entry.first.Mark(), "\"" + key + "\" stands twice");
    }
  }

  double number(const YAML::Node& node, double least, double most) const {
    double value = 0;
    if (!node || !YAML::convert<double>::decode(node, value) || !(value >= least && value <= most)) {
      refuse(file_, node ? node.Mark() : YAML::Mark{},
             "a number from " + std::to_string(least) + " to " + std::to_string(most) + " is expected");
    }
    return value;
  }

  std::size_t index(const YAML::Node& name) const {
    const auto found = std::find(kind_names.begin(), kind_names.end(), name.as<std::string>());
    if (found == kind_names.end()) refuse(file_, name.Mark(), "unknown kind \"" + name.as<std::string>() + "\"");
    return static_cast<std::size_t>(found - kind_names.begin());
  }

  void spread(const YAML::Node& node, Spread& into, double most) const {
    allow(node, {"launch", "chip", "row"});
    if (node["launch"]) into.launch = number(node["launch"], 0, most);
    if (node["chip"]) into.chip = number(node["chip"], 0, most);
    if (node["row"]) into.row = number(node["row"], 0, most);
  }

  void add_group(const YAML::Node& node) {
    allow(node, {"of", "part", "kind", "factor"});
    if (!node["of"] || !node["kind"]) refuse(file_, node.Mark(), "a group needs of and kind");
    Group group{node["of"].as<std::string>(), number(node["part"], 0, 1), static_cast<Kind>(index(node["kind"])),
                number(node["factor"], 0.1, 2)};
    if (!std::set<std::string>{"rack", "host", "lot", "second_socket"}.contains(group.of)) {
      refuse(file_, node["of"].Mark(), "of: rack, host, lot or second_socket is expected");
    }
    noise_.groups.push_back(std::move(group));
  }

  std::filesystem::path file_;
  Noise& noise_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::uint64_t mixed(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

bool starts(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }
bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// The metrics whose values by rank a kind's residuals are read from, with the sign that makes good positive.
std::vector<std::pair<std::string, Kind>> read_from(const std::string& key, bool capped) {
  const auto kind = kind_of(key);
  if (kind == Kind::gemm && capped) return {{"tflops_per_ghz", kind}, {"sm_mhz", Kind::clock}};
  if (kind == Kind::gemm) return {{"tflops_per_ghz", kind}};
  if (kind == Kind::latency) return {{"latency_us", kind}};
  if (kind == Kind::compute) return {{"compute_ms", kind}};
  if (kind == Kind::collective || kind == Kind::message || kind == Kind::graph) return {{"busbw_gb_per_s", kind}};
  return {{starts(key, "p2p") || starts(key, "pcie") ? "copy_gb_per_s" : "hbm_gb_per_s", kind}};
}

}  // namespace

Noise read_noise(const std::filesystem::path& file) {
  Noise noise;
  Reader(file, noise).read();
  return noise;
}

Kind kind_of(std::string_view key) {
  if (starts(key, "gemm")) return Kind::gemm;
  if (starts(key, "hbm")) return Kind::hbm;
  if (starts(key, "memtest")) return Kind::memtest;
  if (starts(key, "pcie")) return has(key, "active:one") ? Kind::pcie : Kind::pcie_shared;
  if (starts(key, "p2p")) return has(key, "op:latency") ? Kind::latency : Kind::copy;
  if (starts(key, "lora_step")) return Kind::compute;
  if (has(key, "launch:graph")) return Kind::graph;
  const auto bytes = key.find("bytes:");
  return std::stod(std::string(key.substr(bytes + 6))) < (1 << 20) ? Kind::message : Kind::collective;
}

Residuals stored_residuals(const std::filesystem::path& folder) {
  struct Value {
    std::string gpu;
    double log;
  };
  static const std::set<std::string> made_here{"gemm", "hbm",       "memtest",   "pcie",
                                               "p2p",  "lora_step", "allreduce", "collectives"};
  ByKind<std::vector<Value>> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    if (!made_here.contains(entry.path().stem().string())) continue;
    auto document = nlohmann::json::parse(std::ifstream(entry.path()));
    if (!document.contains("benchmarks")) continue;
    fill_in(document);
    const auto& ranks = document["context"]["shakedown"]["ranks"];
    for (const auto& row : document["benchmarks"]) {
      if (row.contains("error_occurred") || !row.contains("by_rank")) continue;
      const std::string key = row["name"];
      // Here the ranks differ by their places in a chain, or by when they came.
      if (has(key, "op:broadcast") || has(key, "op:reduce/") || has(key, "timing:single")) continue;
      const bool capped = row.contains("throttle") && row["throttle"].contains("sw_power_cap");
      for (const auto& [metric, kind] : read_from(key, capped)) {
        std::vector<double> logs;
        std::vector<std::string> gpus;
        const auto values = row["by_rank"].value(metric, nlohmann::json::array());
        for (std::size_t r = 0; r < values.size(); ++r) {
          if (!values[r].is_number()) continue;
          logs.push_back(std::log(values[r].get<double>()) * (kind == Kind::latency || kind == Kind::compute ? -1 : 1));
          gpus.push_back(ranks[r].value("uuid", ""));
        }
        if (logs.size() < 2) continue;
        const auto middle = median(logs), few = static_cast<double>(logs.size());
        // The median of few takes a part of their spread with it.
        for (std::size_t i = 0; i < logs.size(); ++i) {
          all[static_cast<std::size_t>(kind)].push_back({gpus[i], (logs[i] - middle) * std::sqrt(few / (few - 1))});
        }
      }
    }
  }
  Residuals residuals;
  for (std::size_t kind = 0; kind < all.size(); ++kind) {
    std::map<std::string, std::pair<double, int>> sums;
    for (const auto& value : all[kind]) {
      sums[value.gpu].first += value.log;
      sums[value.gpu].second += 1;
    }
    for (const auto& value : all[kind]) {
      residuals[kind].push_back(value.log - sums[value.gpu].first / sums[value.gpu].second);
    }
  }
  return residuals;
}

Dice Dice::at(std::uint64_t n) const { return Dice(mixed(state_ ^ mixed(n))); }

Dice Dice::at(std::string_view text) const {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return at(hash);
}

double Dice::uniform() const { return (static_cast<double>(mixed(state_) >> 11) + 0.5) * 0x1p-53; }

double Dice::normal() const {
  return std::sqrt(-2 * std::log(at(1).uniform())) * std::cos(2 * std::numbers::pi * at(2).uniform());
}

double Dice::student(double degrees) const {
  if (degrees == 0) return normal();
  // The upper quartile of t with 1 to 5 degrees of freedom; of a normal it is 0.6745.
  constexpr std::array<double, 5> quartile{1.0, 0.8165, 0.7649, 0.7407, 0.7267};
  const auto k = static_cast<std::size_t>(std::clamp(degrees, 1.0, 5.0));
  double squares = 0;
  for (std::size_t i = 0; i < k; ++i) squares += std::pow(at(10 + i).normal(), 2);
  return normal() / std::sqrt(squares / static_cast<double>(k)) * 0.6745 / quartile[k - 1];
}

}  // namespace shakedown::fleet
