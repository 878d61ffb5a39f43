// Judges a machine in stages, whose order is fixed.
#include "thresholds/judge/judge.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "thresholds/catalogue/families.hpp"
#include "thresholds/culprits/consequences.hpp"
#include "thresholds/culprits/fabric.hpp"
#include "thresholds/culprits/fabric_findings.hpp"
#include "thresholds/culprits/software.hpp"
#include "thresholds/culprits/suspects.hpp"
#include "thresholds/rules/applicability.hpp"
#include "thresholds/rules/crashed.hpp"
#include "thresholds/rules/crosscheck.hpp"
#include "thresholds/rules/fabric_rates.hpp"
#include "thresholds/rules/gpu_errors.hpp"
#include "thresholds/rules/leaked_memory.hpp"
#include "thresholds/rules/machine.hpp"
#include "thresholds/rules/port_errors.hpp"
#include "thresholds/rules/reference_gpus.hpp"
#include "thresholds/rules/start.hpp"
#include "thresholds/rules/transport.hpp"
#include "thresholds/rules/validity.hpp"
#include "thresholds/units/missed_limits.hpp"
#include "thresholds/units/peers.hpp"

namespace shakedown {
namespace {

void append(Verdict& verdict, std::vector<Finding> more) {
  std::move(more.begin(), more.end(), std::back_inserter(verdict.findings));
}

// Returns the findings that pass the test `wanted`.
std::vector<Finding> chosen(const std::vector<Finding>& findings, const auto& wanted) {
  std::vector<Finding> some;
  std::copy_if(findings.begin(), findings.end(), std::back_inserter(some), wanted);
  return some;
}

// Returns "176 of 185 good (h200-sxm); the verdict counts 9 more findings: 9 by peers". The numbers add up to those of
// the verdict.
std::string rules_said(const Verdict& verdict, const Profile* profile) {
  if (profile == nullptr) return "no profile for this machine";
  std::size_t kept = 0, all = 0, others = 0;
  std::map<Judgement, std::size_t> by;
  for (const Finding& finding : verdict.findings) {
    if (!finding.counts()) continue;
    ++(finding.judgement == Judgement::rule ? all : by[finding.judgement]);
    if (finding.judgement == Judgement::rule && finding.good()) ++kept;
  }
  std::vector<std::string> words;
  for (const auto& [judgement, count] : by) {
    others += count;
    words.push_back(std::to_string(count) + " by " + std::string(name(judgement)));
  }
  return std::to_string(kept) + " of " + std::to_string(all) + " good (" + profile->name + ")" +
         (others == 0 ? "" : "; the verdict counts " + plural(others, "more finding") + ": " + joined(words));
}

// Returns "58 of 60 benchmarks".
std::string good_of(const std::vector<Finding>& findings) {
  const auto good = std::count_if(findings.begin(), findings.end(), [](const Finding& f) { return f.good(); });
  return std::to_string(good) + " of " + std::to_string(findings.size()) + " benchmarks";
}

// Returns a note if it is unknown whether NCCL used NVLink, because the meaning of the figures depends on it.
std::optional<std::string> note_on_transport(const std::vector<Results>& files) {
  for (const Results& file : files) {
    const bool used =
        std::any_of(file.rows.begin(), file.rows.end(), [](const Row& row) { return is_collective(row.key.family()); });
    if (file.context.nccl.transport || !used || file.context.world_size == 1 || file.context.backend != Backend::cuda)
      continue;
    const auto level = file.context.environment.find("NCCL_DEBUG");
    return file.file.filename().string() + ", so it is unknown whether NCCL used NVLink" +
           (level == file.context.environment.end()
                ? ""
                : ": NCCL_DEBUG=" + level->second + " hides the log of NCCL; unset it, or set INFO");
  }
  return std::nullopt;
}

std::vector<Node> nodes_of(const std::vector<Results>& results) {
  std::vector<Node> nodes;
  std::map<std::string, std::size_t> index;
  for (const Results& file : results) {
    std::map<std::string, int> here;
    for (const RankFacts& rank : file.context.ranks) {
      const auto [found, fresh] = index.emplace(rank.host, nodes.size());
      if (fresh) nodes.push_back({rank.host, 0});
      Node& node = nodes[found->second];
      node.ranks = std::max(node.ranks, ++here[rank.host]);
    }
  }
  return nodes;
}

// True if pre-flight or the whole gate was requested, which decides whether a node may get jobs.
bool decides_fitness(const Verdict& verdict) {
  if (verdict.filter) return false;
  if (!verdict.is_gate) return verdict.asked == FamilySet{{"preflight"}};
  return std::ranges::all_of(gate_families(), [&](const auto& family) { return verdict.asked.contains(family); });
}

State state_of(const Verdict& verdict) {
  bool failed = false, missing = false, broke_off = false, inconclusive = false, no_reference = false, unknown = false;
  for (const Finding& finding : verdict.findings) {
    if (!finding.counts()) continue;
    failed = failed || finding.status == Status::fail || finding.status == Status::invalid;
    if (finding.status == Status::missing) {
      // If the bus could not be read, this is not a fault of GPUs that may be on it.
      (finding.key == "machine/backend" ? unknown : missing) = true;
    }
    broke_off = broke_off || (finding.key == "machine/complete" && !finding.good());
    inconclusive = inconclusive || finding.status == Status::inconclusive;
    no_reference = no_reference || finding.status == Status::no_reference;
  }
  if ((broke_off && !failed) || verdict.total == 0) return State::incomplete;
  if (verdict.backend == Backend::virtual_gpu) return State::virtual_run;
  if (failed || missing) return State::fail;
  if (unknown) return State::incomplete;
  if (no_reference) return State::no_reference;
  if (inconclusive) return State::inconclusive;
  const bool on_gpus = verdict.backend != Backend::host;
  if (!verdict.is_partial()) return on_gpus ? State::pass : State::host_only;
  if (!decides_fitness(verdict)) return State::partial;
  return on_gpus ? State::fit : State::host_only;
}

int exit_code_of(State state) {
  switch (state) {
    case State::pass:
    case State::fit:
    case State::host_only: return 0;
    case State::fail: return 1;
    case State::incomplete:
    case State::inconclusive:
    case State::no_reference:
    case State::virtual_run:
    case State::partial: return 3;
  }
  return 1;
}

// Returns a note if the driver or a flag omitted throttle reasons, because heat and power are then not judged.
std::optional<std::string> note_on_throttling(const std::vector<Results>& files) {
  bool read = false;
  for (const Results& file : files) {
    read = read || file.context.telemetry.value_or("").starts_with("every ");
    for (const Row& row : file.rows) {
      if (row.metrics.contains("throttled")) return std::nullopt;
    }
  }
  if (!read) return std::nullopt;
  return "no row has throttle reasons although sensors were read, so heat and power were not judged";
}

Verdict start(const std::vector<Results>& files, const JudgeOptions& options) {
  Verdict verdict;
  verdict.backend = files.front().context.backend;
  verdict.devices = devices_of(files);
  verdict.asked = options.families;
  verdict.nodes = nodes_of(files);
  std::set<std::string> run_ids;
  for (const Results& file : files) {
    if (file.context.backend == Backend::virtual_gpu) verdict.backend = Backend::virtual_gpu;
    if (!verdict.filter) verdict.filter = file.context.asked.filter;
    verdict.is_gate = verdict.is_gate || file.context.tier == Tier::gate;
    verdict.ranks = std::max(verdict.ranks, file.context.world_size);
    verdict.hosts = std::max(verdict.hosts, file.context.hosts);
    run_ids.insert(file.context.run_id);
    if (!file.sha256.empty()) verdict.results.push_back({file.file.filename().string(), file.sha256});
    const std::string& started = file.context.started;
    if (!started.empty() && (verdict.started.empty() || started < verdict.started)) verdict.started = started;
  }
  verdict.run_ids.assign(run_ids.begin(), run_ids.end());
  if (run_ids.size() > 1 && options.mixed_runs) verdict.notes.push_back("files of different runs (--mixed-runs)");
  for (auto& note : {note_on_transport(files), note_on_throttling(files)}) {
    if (note) verdict.notes.push_back(*note);
  }
  return verdict;
}

// Judges by limits: limits on the run, on GPU errors, and of the profile.
void judge_by_limits(const Measured& measured, const Selection& selection, const UnitTable& table,
                     const JudgeOptions& options, Verdict& verdict) {
  const auto gpus_per_host = selection.profile == nullptr ? std::nullopt : selection.profile->gpus_per_host;
  append(verdict, judge_machine(measured.files, options, gpus_per_host));
  if (auto finding = judge_crashed(measured.files)) verdict.findings.push_back(std::move(*finding));
  append(verdict, judge_start(measured.files));
  append(verdict, judge_gpu_errors(measured.files, options.families));
  append(verdict, judge_leaked_memory(measured.files, options.families));
  append(verdict, judge_port_errors(measured.files, options.families));
  if (auto finding = judge_network(measured)) verdict.findings.push_back(std::move(*finding));
  if (selection.profile != nullptr) {
    verdict.profile = selection.profile->name;
    if (auto finding = judge_transport(measured.files, *selection.profile)) verdict.findings.push_back(*finding);
    for (const Results& file : measured.files) {
      const bool is_allreduce = !file.rows.empty() && file.rows.front().key.family() == "allreduce";
      if (!is_allreduce) continue;
      if (auto note = note_on_nvls(file, *selection.profile)) verdict.notes.push_back(std::move(*note));
      break;
    }
  }
  if (!selection.reason.empty()) {
    Finding finding;
    classify(finding, Code::no_reference);
    finding.key = Key("machine/profile");
    finding.status = Status::no_reference;
    finding.detail = selection.reason;
    finding.next = "add thresholds/<profile>.yaml for this kind of machine, or choose one with --thresholds=FILE";
    verdict.findings.push_back(finding);
  }
  RuleFindings rules =
      judge_rules(measured, selection.profile, options.families, verdict.findings,
                  judge_validity(measured.benchmarks, selection.profile, options.families), compared_families(table));
  append(verdict, std::move(rules.findings));
  verdict.unjudged = std::move(rules.unjudged);
  verdict.known_families = rules.known_families;
  verdict.families = rules.families;
  verdict.judged_families = rules.judged_families;
}

// Returns the rate of all NICs of one host in GB/s: from the site file, else as pre-flight read it.
std::optional<double> nics_of_one_host(const Measured& measured, const Profile* profile) {
  const auto as_read = fabric_as_read(measured);
  if (profile == nullptr || !profile->peak.contains("nics")) {
    return as_read ? std::optional(as_read->host_gb_per_s()) : std::nullopt;
  }
  return profile->peak.at("nics") * profile->peak.at("nic_gbit") / 8;
}

// Judges by the baseline. A different configuration makes the verdict INCONCLUSIVE; everything else is judged as usual.
void judge_by_baseline(const Measured& measured, const References& references, const FamilySet& families,
                       Verdict& verdict) {
  BaselinePair pair(measured, *references.baseline);
  const auto& differ = pair.differences;
  if (!differ.empty() && !references.change.allow_different) {
    Finding finding;
    classify(finding, Code::baseline);
    finding.key = machine_key(Code::baseline);
    finding.judgement = Judgement::baseline;
    const std::size_t more = differ.size() - 1;
    set(finding, Status::inconclusive,
        "not compared: " + differ.front() + (more == 0 ? "" : ", and " + plural(more, "other difference")),
        std::string(on_differences));
    verdict.summaries.push_back({Judgement::baseline, finding.detail});
    verdict.findings.push_back(std::move(finding));
    return;
  }
  RegressionOptions options = references.change;
  options.families = families;
  const Regression regression = judge_regression(std::move(pair), options);
  auto findings = findings_of(regression, measured);
  std::vector<Finding> judged;
  std::copy_if(findings.begin(), findings.end(), std::back_inserter(judged), [](const auto& f) { return f.counts(); });
  verdict.summaries.push_back({Judgement::baseline, good_of(judged) + " as in the baseline"});
  verdict.notes.insert(verdict.notes.end(), regression.notes.begin(), regression.notes.end());
  append(verdict, std::move(findings));
}

// Judges by comparison: of measurements of the run with each other, with a stored run, and with other numbers of ranks.
// Comparisons within the run that pass are only summarized, because a finding for each would hide the others.
void judge_by_comparison(const Measured& measured, const Profile* profile, const UnitTable& table,
                         const References& references, const JudgeOptions& options, Verdict& verdict) {
  const auto speak = [&](Judgement by, std::string text) { verdict.summaries.push_back({by, std::move(text)}); };
  append(verdict, findings_of(table));
  speak(Judgement::peers, summary(table));
  const CrossChecks checks = cross_check(measured.benchmarks, options.families);
  if (!checks.findings.empty()) speak(Judgement::crosscheck, checks.summary());
  append(verdict, chosen(checks.findings, [](const Finding& finding) { return !finding.good(); }));
  if (profile != nullptr && profile->reference_gpus && options.families.contains("gemm")) {
    ReferenceJudgement reference = judge_by_reference_gpus(measured, *profile->reference_gpus);
    if (!reference.summary.empty()) speak(Judgement::crosscheck, std::move(reference.summary));
    append(verdict, std::move(reference.findings));
    verdict.compared_gpus = std::move(reference.gpus);
  }
  if (references.baseline) judge_by_baseline(measured, references, options.families, verdict);
  if (!references.scaling.empty()) {
    std::vector<ScalingSet> sets{{.files = measured.files}};
    sets.insert(sets.end(), references.scaling.begin(), references.scaling.end());
    for (const auto& set : sets) refuse_faults(set.files, options.allow_faults);
    auto scaling = judge_scaling(sets, nics_of_one_host(measured, profile));
    auto findings = chosen(scaling.findings, [&](const Finding& finding) {
      return options.families.contains(finding.key.family()) || finding.key.family() == "machine";
    });
    speak(Judgement::crosscheck, good_of(findings) + " keep their rate with more nodes or ranks");
    append(verdict, std::move(findings));
    verdict.scaling = std::move(scaling.points);
  }
}

// Judges a gate by earlier runs of the same GPUs. Its findings name these GPUs, so they are no evidence for culprits.
void judge_by_own_record(const Measured& measured, const References& references, Verdict& verdict) {
  if (!references.own || !verdict.is_gate) return;
  OwnRecordJudgement own = judge_own_record(measured, *references.own);
  verdict.summaries.push_back({Judgement::baseline, std::move(own.summary)});
  append(verdict, std::move(own.findings));
}

// Judges the rounds of pairs of hosts.
FabricJudgement judge_between_hosts(const Measured& measured, const UnitTable& table, const JudgeOptions& options,
                                    Verdict& verdict) {
  if (!options.families.contains("pairs")) return {};
  FabricJudgement fabric = judge_fabric(measured.benchmarks, table, options.places.leaves);
  if (!fabric.said.empty()) verdict.summaries.push_back({Judgement::peers, fabric.said});
  append(verdict, std::move(fabric.wrong_data));
  return fabric;
}

// Throws InputError for an unknown family. Known are the families of the catalogue, of the run and of the profiles.
void refuse_unknown(const FamilySet& asked, const Measured& measured, const std::vector<Profile>& profiles) {
  std::set<std::string> known;
  for (const auto& [key, benchmark] : measured.benchmarks) known.insert(key.family());
  for (const Profile& profile : profiles) {
    for (const Rule& rule : profile.rules) known.insert(rule.benchmark.family());
    known.insert(profile.unjudged.begin(), profile.unjudged.end());
  }
  for (const std::string& family : asked.names) {
    if (known.contains(family) || is_catalogued(family)) continue;
    throw InputError("--families: \"" + family + "\" is not a family; write one of " + joined(known));
  }
}

// Completes the options with what the run requested. If any file is from a whole run, the run is whole.
JudgeOptions with_asked(const std::vector<Results>& files, JudgeOptions options) {
  const bool whole =
      std::any_of(files.begin(), files.end(), [](const Results& file) { return file.context.asked.families.all(); });
  std::set<std::string> families;
  for (const Results& file : files) {
    const Asked& asked = file.context.asked;
    families.insert(asked.families.names.begin(), asked.families.names.end());
    if (options.roster.empty()) options.roster = asked.roster;
  }
  if (options.families.all() && !whole) options.families.names.assign(families.begin(), families.end());
  return options;
}

}  // namespace

Verdict before_judging(const std::vector<Results>& files, const JudgeOptions& options) { return start(files, options); }

void conclude(Verdict& verdict) {
  verdict.passed = verdict.total = 0;
  for (const Finding& finding : verdict.findings) {
    if (!finding.counts()) continue;
    ++verdict.total;
    if (finding.good()) ++verdict.passed;
  }
  verdict.state = state_of(verdict);
  verdict.exit_code = exit_code_of(verdict.state);
}

std::string verdict_line(const Verdict& verdict) {
  std::string line = "VERDICT: " + std::string(name(verdict.state)) + " " + std::to_string(verdict.passed) + "/" +
                     std::to_string(verdict.total) + " (profile " + verdict.profile + ", " +
                     std::to_string(verdict.ranks) + (verdict.ranks == 1 ? " rank" : " ranks");
  if (verdict.hosts > 1) line += ", " + std::to_string(verdict.hosts) + " hosts";
  if (verdict.judged_families < verdict.families) {
    line +=
        ", " + std::to_string(verdict.judged_families) + " of " + std::to_string(verdict.families) + " families judged";
  }
  if (verdict.is_partial()) line += ", " + asked_text(verdict);
  return line + ")";
}

std::string asked_text(const Verdict& verdict) {
  if (!verdict.is_partial()) return "";
  const auto families =
      std::to_string(verdict.families) + " of " + std::to_string(verdict.known_families) + " families";
  if (verdict.is_gate) return "gate of " + families;
  return families + (verdict.filter ? " in part" : "") + ", as asked";
}

Verdict judge(const Measured& measured, const References& references, const JudgeOptions& given) {
  if (measured.files.empty()) throw InputError("no result files to judge; name them with --results");
  const JudgeOptions options = with_asked(measured.files, given);
  refuse_faults(measured.files, options.allow_faults);
  refuse_unknown(given.families, measured, references.profiles);
  Verdict verdict = start(measured.files, options);
  const Selection selection = select_profile(measured.files, references.profiles);
  // Kept in a variable, because the table refers to it.
  const Benchmarks comparable = of_equal_software(measured.benchmarks);
  UnitTable table = compare_peers(comparable, options.families);
  judge_by_limits(measured, selection, table, options, verdict);
  FabricJudgement fabric = judge_between_hosts(measured, table, options, verdict);
  const Benchmarks of_hardware = without_fallbacks(measured.benchmarks);
  table = with_limits(std::move(table), verdict.findings, of_hardware);
  const auto attributions = attribute_missed_limits(verdict.findings, of_hardware, table);
  verdict.findings = attributed(std::move(verdict.findings), attributions);
  judge_by_comparison(measured, selection.profile, table, references, options, verdict);
  const auto waiting = attribute_waiting(verdict.findings, fabric.suspects);
  verdict.findings = attributed(std::move(verdict.findings), waiting);
  verdict.step_times = step_times_of(measured.benchmarks);
  if (!options.is_of_fleet) verdict.fleet = fleet_lines(measured, table, selection.profile, options.places);
  const auto about_hardware = findings_about(of_hardware, measured.benchmarks, verdict.findings);
  verdict.culprits = with_software(diagnose(of_hardware, std::move(table), about_hardware, std::move(fabric.suspects)),
                                   measured.benchmarks, verdict.findings);
  append(verdict, findings_of(verdict.culprits));
  append(verdict, std::move(fabric.findings));
  judge_by_own_record(measured, references, verdict);
  verdict.findings = with_culprits(std::move(verdict.findings), verdict.culprits);
  verdict.summaries.insert(verdict.summaries.begin(), {Judgement::rule, rules_said(verdict, selection.profile)});
  conclude(verdict);
  return verdict;
}

}  // namespace shakedown
