#include "node/slurm.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/text.hpp"

namespace shakedown {

namespace {

/// Returns a field of the line "NodeName=gpu1 Arch=x86_64 ... State=IDLE+DRAIN ... Reason=bad fan
/// [root@2026-11-22T10:00:00]". Fields are separated by blanks. A reason may contain blanks; it ends before its author
/// in brackets.
std::string field(std::string_view line, std::string_view name, std::string_view end = " ") {
  const auto key = " " + std::string(name) + "=";
  const auto at = line.find(key);
  if (at == std::string_view::npos) return "";
  const auto rest = line.substr(at + key.size());
  return std::string(rest.substr(0, rest.find(end)));
}

/// The GPUs of a node according to Slurm.
struct ListedGpus {
  double whole = 0;
  bool has_slices = false;  // true if MIG instances are listed; the number of their GPUs is unknown
};

/// True for the name of a MIG instance, as gres.conf takes it from NVML: "1g.10gb", "2g.20gb.me".
bool is_slice(const std::string& type) {
  const auto digits = type.find_first_not_of("0123456789");
  return digits != std::string::npos && digits > 0 && type.compare(digits, 2, "g.") == 0;
}

/// Counts the GPUs in a list of resources: "gpu:h200:8(S:0-1),nvme:1", "gpu:8", "(null)".
ListedGpus gpus_of(const std::string& gres) {
  ListedGpus listed;
  int depth = 0;
  std::string entry;
  for (const char c : gres + ",") {
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (depth > 0 || c == ')') continue;
    if (c != ',') {
      entry += c;
      continue;
    }
    const auto colon = entry.rfind(':');
    if (entry.starts_with("gpu:") && colon > 4 && is_slice(entry.substr(4, colon - 4))) {
      listed.has_slices = true;
    } else if (entry.starts_with("gpu:")) {
      listed.whole += std::atof(entry.substr(colon + 1).c_str());
    }
    entry.clear();
  }
  return listed;
}

/// True if Slurm gives no jobs to a node in this state, such as "IDLE+DRAIN" or "DOWN*". False for POWERED_DOWN,
/// because Slurm switches such a node on for the next job.
bool is_drained(const std::string& state) {
  constexpr std::array words = {"DRAIN",   "DRAINED", "DRAINING",       "DOWN",    "FAIL",
                                "FAILING", "FUTURE",  "NOT_RESPONDING", "INVALID", "INVALID_REG"};
  for (auto part : split(state, '+')) {
    part.erase(part.find_last_not_of("*~#!%$@^-") + 1);
    if (std::find(words.begin(), words.end(), part) != words.end()) return true;
  }
  return false;
}

}  // namespace

Facts slurm_facts(std::string_view answer, std::string_view node, std::optional<double> gpus) {
  const auto start = "NodeName=" + std::string(node) + " ";
  auto at = answer.starts_with(start) ? 0 : answer.find("\n" + start);
  if (at == std::string_view::npos) {
    const auto said = std::string(answer.substr(0, answer.find('\n')));
    return {{"slurm_answers", number_fact(0, answer.find("NodeName=") != std::string_view::npos || said.empty()
                                                 ? "Slurm does not know the node " + std::string(node)
                                                 : said)}};
  }
  const auto rest = answer.substr(at == 0 ? 0 : at + 1);
  const auto line = rest.substr(0, rest.find('\n'));
  const auto state = field(line, "State");
  auto reason = field(line, "Reason", " [");
  const bool drained = is_drained(state);
  Facts facts{
      {"slurm_answers", number_fact(1)},
      {"slurm_state", text_fact(state)},
      {"slurm_drained", number_fact(drained ? 1 : 0, drained ? state + (reason.empty() ? "" : ": " + reason) : "")}};
  const auto [promised, has_slices] = gpus_of(field(line, "Gres"));
  const auto difference = [&, whole = promised](double more) {
    if (!gpus) return number_fact(std::nullopt, "the GPUs of this host are unknown");
    const auto text = [](double number) { return std::to_string(static_cast<int>(number)); };
    return number_fact(std::max(0.0, more),
                       more > 0 ? "Slurm has " + text(whole) + ", the PCI bus " + text(*gpus) : "");
  };
  facts["slurm_gpus_missing"] = difference(promised - gpus.value_or(0));
  facts["slurm_gpus_unlisted"] = has_slices ? number_fact(0) : difference(gpus.value_or(0) - promised);
  return facts;
}

}  // namespace shakedown
