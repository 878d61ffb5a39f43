// Makes texts for programs and users: names of states, the verdict line, the next command.
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

void classify(Finding& finding, Code code, std::size_t times) {
  finding.code = code;
  switch (code) {
    case Code::not_measured:
    case Code::waiver:
    case Code::software_missing:
    case Code::no_reference: finding.sure = std::nullopt; return;
    case Code::limit:
    case Code::scatter:
    case Code::untrue:
    case Code::peers:
    case Code::in_doubt:
    case Code::population:
    case Code::clock:
    case Code::crosscheck:
    case Code::reference_gpus:
    case Code::baseline:
    case Code::scaling:
    case Code::pairs:
    case Code::series: finding.sure = times > 1 ? Sure::twice : Sure::once; return;
    default: finding.sure = Sure::event;
  }
}

Key machine_key(Code code) { return Key("machine/" + std::string(name(code))); }

void set_software_missing(Finding& finding, const std::string& why, int ranks) {
  classify(finding, Code::software_missing);
  set(finding, Status::inconclusive, "not measured because of missing software: " + why,
      "install that software, then measure again: " + measure_command(finding.key, ranks));
}

Part part_of(const Culprit& culprit) {
  if (!culprit.rank) return host_part(culprit.host);
  const std::string rank = "rank " + std::to_string(*culprit.rank);
  return {PartKind::gpu, culprit.uuid ? *culprit.uuid : culprit.pci.value_or(rank), culprit.host};
}

void name_offenders(Finding& finding, std::vector<Culprit> offenders) {
  finding.offender_count = offenders.size();
  if (offenders.size() > max_named_offenders) offenders.resize(max_named_offenders);
  if (!finding.worst && !offenders.empty()) {
    finding.worst = offenders.front();
    finding.part = part_of(*finding.worst);
  }
  finding.offenders = std::move(offenders);
}

}  // namespace shakedown
