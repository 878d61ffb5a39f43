#include "node/slurm.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace shakedown {

namespace {

/// Returns a field of "NodeName=gpu1 Arch=x86_64 ... State=IDLE+DRAIN ... Reason=bad fan [root@2026-11-22T10:00:00]".
/// Fields are separated by spaces; a reason may contain spaces and ends before its author in brackets.
std::string field(std::string_view line, std::string_view name, std::string_view end = " ") {
  const auto key = " " + std::string(name) + "=";
  const auto at = line.find(key);
  if (at == std::string_view::npos) return "";
  const auto rest = line.substr(at + key.size());
  return std::string(rest.substr(0, rest.find(end)));
}

/// Returns the number of GPUs in a list of resources: "gpu:h200:8(S:0-1),nvme:1", "gpu:8", "(null)".
double gpus_of(const std::string& gres) {
  double count = 0;
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
    if (entry.starts_with("gpu:")) count += std::atof(entry.substr(entry.rfind(':') + 1).c_str());
    entry.clear();
  }
  return count;
}

bool is_drained(const std::string& state) {
  constexpr std::array words = {"DRAIN", "DOWN", "FAIL", "NOT_RESPONDING", "INVALID"};
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return state.find(word) != std::string::npos; });
}

}  // namespace

Facts slurm_facts(std::string_view answer, std::string_view node, std::optional<double> gpus) {
  const auto start = "NodeName=" + std::string(node) + " ";
  auto at = answer.starts_with(start) ? 0 : answer.find("\n" + start);
  if (at == std::string_view::npos) {
    const auto said = std::string(answer.substr(0, answer.find('\n')));
    return {{"slurm_answers", number_fact(0, answer.find("NodeName=") != std::string_view::npos || said.empty()
                                                 ? "no word of node " + std::string(node)
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
  const double promised = gpus_of(field(line, "Gres"));
  const auto difference = [&](double more) {
    if (!gpus) return number_fact(std::nullopt, "the GPUs of this host are unknown");
    const auto text = [](double number) { return std::to_string(static_cast<int>(number)); };
    return number_fact(std::max(0.0, more),
                       more > 0 ? "Slurm has " + text(promised) + ", the PCI bus " + text(*gpus) : "");
  };
  facts["slurm_gpus_missing"] = difference(promised - gpus.value_or(0));
  facts["slurm_gpus_unlisted"] = difference(gpus.value_or(0) - promised);
  return facts;
}

}  // namespace shakedown
