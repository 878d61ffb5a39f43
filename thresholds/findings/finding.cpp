// Decides the words that programs and people match on: names of states, the verdict line, the command to run next.
#include "thresholds/findings/finding.hpp"

#include <utility>

#include "base/host_list.hpp"
#include "base/text.hpp"

namespace shakedown {

Culprit culprit(const RankFacts& facts, std::optional<double> value) {
  return {facts.rank, facts.host, facts.uuid, facts.pci, value, facts.local_rank, facts.serial};
}

Culprit host_culprit(const std::string& host) {
  Culprit result;
  result.host = host;
  return result;
}

std::string text(const Culprit& culprit) {
  std::string words;
  const auto add = [&](const std::string& word) { words += (words.empty() || word.empty() ? "" : " ") + word; };
  if (culprit.rank) add("rank " + std::to_string(*culprit.rank));
  add(culprit.host);
  add(culprit.uuid.value_or(""));
  add(culprit.pci.value_or(""));
  return words;
}

std::string on_host(const std::string& host, const std::string& command) {
  return "ssh " + host_in_command(host) + " " + command;
}

std::string gpu_in_command(const RankFacts& facts) {
  for (const auto& id : {facts.uuid, facts.pci}) {
    if (id && is_plain(*id, ".-_:/")) return *id;
  }
  return std::to_string(facts.local_rank);
}

std::string measure_command(std::string_view key, int ranks) {
  const std::string family = family_of(key);
  const std::string launcher = ranks > 1 ? "mpirun -np " + std::to_string(ranks) + " " : "";
  const std::string bench = launcher + "build/bench/bench_" + family;
  return family == key ? bench : bench + " --benchmark_filter='^" + std::string(key) + "(/|$)'";
}

bool Limit::is_missed_by(double measured) const {
  if (kind == LimitKind::min) return measured < value;
  if (kind == LimitKind::max) return measured > value;
  return kind == LimitKind::equals && measured != value;
}

double Limit::shortfall(double measured) const {
  return kind == LimitKind::max ? measured / value - 1 : 1 - measured / value;
}

void set(Finding& finding, Status status, std::string detail, std::string next) {
  finding.status = status;
  finding.detail = std::move(detail);
  finding.next = std::move(next);
}

void set_software_missing(Finding& finding, const std::string& why, int ranks) {
  set(finding, Status::inconclusive, "not measured because of software, not the machine: " + why,
      "install that software, then measure again: " + measure_command(finding.key, ranks));
}

void name_offenders(Finding& finding, std::vector<Culprit> offenders) {
  finding.offender_count = offenders.size();
  if (offenders.size() > max_offenders) offenders.resize(max_offenders);
  if (!finding.worst && !offenders.empty()) finding.worst = offenders.front();
  finding.offenders = std::move(offenders);
}

}  // namespace shakedown
