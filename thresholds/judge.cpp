// Decides whether a machine is accepted. Fails closed: an error in any repetition, a value that is not there, above its
// physical ceiling or without a limit is never a pass. Tested by tests/verdict_test.cpp (build/tests/verdict_test).
#include "thresholds/judge.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "thresholds/applicability.hpp"
#include "thresholds/crosscheck.hpp"
#include "thresholds/diagnosis.hpp"
#include "thresholds/gpu_errors.hpp"
#include "thresholds/judge.hpp"
#include "thresholds/machine.hpp"
#include "thresholds/measured.hpp"
#include "thresholds/metrics.hpp"
#include "thresholds/missed_limits.hpp"
#include "thresholds/peers.hpp"
#include "thresholds/rules.hpp"
#include "thresholds/suspects.hpp"
#include "thresholds/validity.hpp"

namespace shakedown {
namespace {

using Benchmarks = std::map<std::string, Benchmark>;

// ---------------------------------------------------------------------------------------------------------------------
// All rules of a profile

Finding plain(const std::string& key, Status status, const std::string& detail, int ranks) {
  Finding finding;
  finding.key = key;
  finding.status = status;
  finding.detail = detail;
  finding.next = measure_command(key, ranks);
  return finding;
}

class SetJudge {
 public:
  SetJudge(const std::vector<Results>& results, const JudgeOptions& options, Verdict& verdict)
      : results_(results), options_(options), verdict_(verdict), benchmarks_(benchmarks_of(results)) {
    for (const auto& [key, benchmark] : benchmarks_) context_of_family_.emplace(family_of(key), benchmark.context);
  }

  void judge(const Profile* profile) {
    if (profile != nullptr) {
      // Pre-flight first: where it fails, nothing else may have been measured.
      for (const Rule& rule : profile->rules) {
        if (is_preflight(rule.benchmark)) judge_rule(*profile, rule);
      }
      for (const Rule& rule : profile->rules) {
        if (!is_preflight(rule.benchmark)) judge_rule(*profile, rule);
      }
    }
    name_what_preflight_stopped();
    for (const auto& [key, benchmark] : benchmarks_) judge_error_without_rule(benchmark);
    count_families(profile);
    if (profile != nullptr) judge_families(*profile);
    if (options_.family && !context_of_family_.contains(*options_.family) && judged_families_.empty()) {
      add(plain(*options_.family, Status::missing, "nothing of this family was measured", ranks()));
    }
    // Not even a profile that lists everything as unjudged may pass on nothing.
    if (profile != nullptr && !options_.family && judged_families_.empty()) {
      add(no_reference("machine/profile", "no rule of " + profile->name + " applies to anything that was measured"));
    }
    list_unjudged();
  }

 private:
  static bool is_preflight(const std::string& key) { return family_of(key) == "preflight"; }

  /// Only pre-flight was measured, and it or the machine fails: the rest is one finding and not one for each rule.
  bool stopped_by_preflight() const {
    const bool alone = context_of_family_.size() == 1 && context_of_family_.contains("preflight");
    return alone && std::any_of(verdict_.findings.begin(), verdict_.findings.end(), [](const Finding& finding) {
             return finding.counts() && !finding.good() && finding.status != Status::no_reference;
           });
  }

  void name_what_preflight_stopped() {
    if (stopped_.empty()) return;
    std::string names;
    for (const std::string& family : stopped_) names += (names.empty() ? "" : ", ") + family;
    Finding finding;
    finding.key = "machine/preflight";
    finding.status = Status::missing;
    finding.detail = "pre-flight failed, so the rest was not measured: " + names;
    finding.next = "mend what pre-flight names; or measure all the same: ci/accept --despite-preflight";
    add(std::move(finding));
  }

  bool wanted(const std::string& family) const { return !options_.family || *options_.family == family; }

  int ranks() const { return results_.front().context.world_size; }

  const Context& context_of(const std::string& family) const {
    const auto found = context_of_family_.find(family);
    return found == context_of_family_.end() ? results_.front().context : *found->second;
  }

  void add(Finding finding) {
    judged_keys_.insert(finding.key);
    if (finding.counts()) counted_keys_.insert(finding.key);
    verdict_.findings.push_back(std::move(finding));
  }

  void judge_rule(const Profile& profile, const Rule& rule) {
    const std::string family = family_of(rule.benchmark);
    if (!wanted(family)) return;
    const Context& context = context_of(family);
    const Applies applies = applicability(rule.conditions, context).applies;
    if (applies == Applies::unknown_nvls) ++nvls_rules_[family];
    if (applies != Applies::yes) return;
    if (!is_preflight(family) && stopped_by_preflight()) {
      stopped_.insert(family);
      judged_families_.insert(family);
      return;
    }
    const Expansion expansion = expand(rule, context);
    // What can only warn does not stand for a judgement.
    if (rule.severity == Severity::fail && !expansion.keys.empty()) judged_families_.insert(family);
    for (const std::string& key : expansion.keys) {
      const auto found = benchmarks_.find(key);
      const Benchmark* benchmark = found == benchmarks_.end() ? nullptr : &found->second;
      add(finding_of(profile, rule, key, benchmark, context, expansion.no_pair));
    }
  }

  // An error fails even where no rule, or only a warning, names the benchmark.
  void judge_error_without_rule(const Benchmark& benchmark) {
    const Row* row = benchmark.error();
    if (row == nullptr || !wanted(family_of(benchmark.key)) || counted_keys_.contains(benchmark.key)) return;
    add(plain(benchmark.key, Status::fail, *row->error, benchmark.context->world_size));
  }

  void count_families(const Profile* profile) {
    for (const std::string& family : profile == nullptr ? families({}) : families(*profile)) {
      if (!wanted(family)) continue;
      ++verdict_.families;
      const bool judged = judged_families_.contains(family) && context_of_family_.contains(family);
      if (judged) ++verdict_.judged_families;
    }
  }

  // Families that no rule judged, whether they were measured or only the profile names them: a run that left one out
  // does not pass because no rule is for its number of ranks or hosts. And rules that hang on a state of NVLS that
  // nobody recorded, so that a run which forgot to record it does not pass on fewer rules.
  void judge_families(const Profile& profile) {
    for (const std::string& family : families(profile)) {
      const bool unjudged =
          std::find(profile.unjudged.begin(), profile.unjudged.end(), family) != profile.unjudged.end();
      if (!wanted(family) || unjudged || judged_families_.contains(family)) continue;
      if (!context_of_family_.contains(family)) {
        judged_families_.insert(family);
        add(plain(family, Status::missing, "was not measured", ranks()));
        continue;
      }
      const Context& context = context_of(family);
      add(no_reference(family, "no rule of " + profile.name + " that can fail applies to " +
                                   std::to_string(context.world_size) + " ranks on " + std::to_string(context.hosts) +
                                   " hosts"));
    }
    for (const auto& [family, count] : nvls_rules_) {
      if (!context_of_family_.contains(family) || !judged_families_.contains(family)) continue;
      const std::string rules = std::to_string(count) + (count == 1 ? " rule" : " rules");
      add(no_reference(family, "the run did not record whether NVLS was on: " + rules + " could not be applied"));
    }
  }

  std::set<std::string> families(const Profile& profile) const {
    std::set<std::string> all;
    for (const auto& [family, context] : context_of_family_) all.insert(family);
    for (const Rule& rule : profile.rules) all.insert(family_of(rule.benchmark));
    return all;
  }

  static Finding no_reference(const std::string& family, const std::string& detail) {
    Finding finding;
    finding.key = family;
    finding.status = Status::no_reference;
    finding.detail = detail;
    finding.next = "add rules for it to the profile, or list the family under unjudged";
    return finding;
  }

  void list_unjudged() {
    for (const auto& [key, benchmark] : benchmarks_) {
      if (!wanted(family_of(key)) || judged_keys_.contains(key)) continue;
      const Row* waiver = benchmark.waiver();
      const std::string metric = headline_metric(benchmark);
      if (waiver != nullptr) {
        verdict_.unjudged.push_back({key, "", std::nullopt, "waived: " + *waiver->waived});
      } else if (!metric.empty()) {
        verdict_.unjudged.push_back({key, metric, run_value(benchmark, metric), ""});
      }
    }
  }

  const std::vector<Results>& results_;
  const JudgeOptions& options_;
  Verdict& verdict_;
  Benchmarks benchmarks_;
  std::map<std::string, const Context*> context_of_family_;
  std::set<std::string> judged_keys_, counted_keys_, judged_families_;
  std::set<std::string> stopped_;          // families that were not measured because pre-flight failed
  std::map<std::string, int> nvls_rules_;  // family -> rules that could not be decided
};

// ---------------------------------------------------------------------------------------------------------------------
// The whole

std::string rules_said(const Verdict& verdict, const Profile* profile) {
  if (profile == nullptr) return "no profile for this machine";
  std::size_t kept = 0, all = 0;
  for (const Finding& finding : verdict.findings) {
    if (!finding.counts()) continue;
    ++all;
    if (finding.good()) ++kept;
  }
  return std::to_string(kept) + " of " + std::to_string(all) + " good (" + profile->name + ")";
}

// The judgements that need no profile, and what all findings together say is at fault. What passed is said in one line:
// a finding for each comparison would bury the others.
void judge_without_profile(const std::vector<Results>& results, const JudgeOptions& options, Verdict& verdict) {
  const Benchmarks benchmarks = benchmarks_of(results);
  const PeerComparison peers = compare_peers(benchmarks, options.family);
  weigh_missed_limits(verdict.findings, benchmarks, peers);
  const CrossChecks checks = cross_check(benchmarks, options.family);
  std::vector<Finding> findings = findings_of(peers);
  std::copy_if(checks.findings.begin(), checks.findings.end(), std::back_inserter(findings),
               [](const Finding& finding) { return !finding.good(); });
  std::move(findings.begin(), findings.end(), std::back_inserter(verdict.findings));
  verdict.spoken.push_back({Judgement::peers, summary(peers)});
  if (!checks.findings.empty()) verdict.spoken.push_back({Judgement::crosscheck, checks.summary()});
  verdict.culprits = diagnose(benchmarks, peers, verdict.findings);
  auto clocks = findings_of(verdict.culprits);
  std::move(clocks.begin(), clocks.end(), std::back_inserter(verdict.findings));
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

State state_of(const Verdict& verdict) {
  bool failed = false, missing = false, broke_off = false, inconclusive = false, no_reference = false;
  for (const Finding& finding : verdict.findings) {
    if (!finding.counts()) continue;
    failed = failed || finding.status == Status::fail || finding.status == Status::invalid;
    missing = missing || finding.status == Status::missing;
    broke_off = broke_off || (finding.key == "machine/complete" && !finding.good());
    inconclusive = inconclusive || finding.status == Status::inconclusive;
    no_reference = no_reference || finding.status == Status::no_reference;
  }
  if (broke_off && !failed) return State::incomplete;
  if (failed || missing) return State::fail;
  if (no_reference) return State::no_reference;
  if (inconclusive) return State::inconclusive;
  return verdict.backend == "host" ? State::host_only : State::pass;
}

int exit_code_of(State state) {
  switch (state) {
    case State::pass:
    case State::host_only: return 0;
    case State::fail: return 1;
    case State::incomplete:
    case State::inconclusive:
    case State::no_reference: return 3;
  }
  return 1;
}

}  // namespace

std::string verdict_line(const Verdict& verdict) {
  std::string line = "VERDICT: " + std::string(name(verdict.state)) + " " + std::to_string(verdict.passed) + "/" +
                     std::to_string(verdict.total) + " (profile " + verdict.profile + ", " +
                     std::to_string(verdict.ranks) + (verdict.ranks == 1 ? " rank" : " ranks");
  if (verdict.hosts > 1) line += ", " + std::to_string(verdict.hosts) + " hosts";
  if (verdict.judged_families < verdict.families) {
    line +=
        ", " + std::to_string(verdict.judged_families) + " of " + std::to_string(verdict.families) + " families judged";
  }
  return line + ")";
}

void add_findings(Verdict& verdict, std::vector<Finding> findings) {
  std::move(findings.begin(), findings.end(), std::back_inserter(verdict.findings));
  verdict.total = verdict.passed = 0;
  for (const Finding& finding : verdict.findings) {
    if (!finding.counts()) continue;
    ++verdict.total;
    if (finding.good()) ++verdict.passed;
  }
  verdict.state = state_of(verdict);
  verdict.exit_code = exit_code_of(verdict.state);
}

void name_culprits(Verdict& verdict, const std::vector<Results>& results, const JudgeOptions& options) {
  const Benchmarks benchmarks = benchmarks_of(results);
  verdict.culprits = diagnose(benchmarks, compare_peers(benchmarks, options.family), verdict.findings);
}

Verdict judge(const std::vector<Results>& results, const std::vector<Profile>& profiles, const JudgeOptions& options) {
  if (results.empty()) throw InputError("no result files to judge; name them with --results");
  refuse_faults(results, options.allow_faults);
  Verdict verdict;
  verdict.backend = results.front().context.backend;
  verdict.devices = devices_of(results);
  verdict.nodes = nodes_of(results);
  std::set<std::string> run_ids;
  for (const Results& file : results) {
    verdict.ranks = std::max(verdict.ranks, file.context.world_size);
    verdict.hosts = std::max(verdict.hosts, file.context.hosts);
    run_ids.insert(file.context.run_id);
  }
  verdict.run_ids.assign(run_ids.begin(), run_ids.end());
  if (run_ids.size() > 1 && options.mixed_runs) verdict.notes.push_back("files of different runs (--mixed-runs)");
  for (const Results& file : results) {
    const auto transport = file.context.nccl.find("transport");
    const bool unknown = transport == file.context.nccl.end() || !transport->second;
    const bool used = std::any_of(file.rows.begin(), file.rows.end(),
                                  [](const Row& row) { return is_collective(family_of(row.key)); });
    if (!unknown || !used || file.context.world_size == 1 || file.context.backend != "cuda") continue;
    const auto level = file.context.environment.find("NCCL_DEBUG");
    verdict.notes.push_back(
        file.file.filename().string() + ": whether NCCL used NVLink is not known" +
        (level == file.context.environment.end()
             ? ""
             : ": NCCL_DEBUG=" + level->second + " keeps its log from the record; unset it, or set INFO"));
    break;
  }
  verdict.findings = judge_machine(results, options);
  add_findings(verdict, judge_gpu_errors(results, options.family));
  const Selection selection = select_profile(results, profiles);
  if (selection.profile != nullptr) {
    verdict.profile = selection.profile->name;
    if (auto finding = judge_transport(results, *selection.profile)) verdict.findings.push_back(std::move(*finding));
  } else {
    Finding finding;
    finding.key = "machine/profile";
    finding.status = Status::no_reference;
    finding.detail = selection.reason;
    finding.next = "add thresholds/<profile>.yaml for this kind of machine, or choose one with --thresholds=FILE";
    verdict.findings.push_back(finding);
  }
  SetJudge(results, options, verdict).judge(selection.profile);
  verdict.spoken.push_back({Judgement::rule, rules_said(verdict, selection.profile)});
  judge_without_profile(results, options, verdict);
  add_findings(verdict, judge_validity(benchmarks_of(results), selection.profile, options.family, verdict.findings));
  return verdict;
}

}  // namespace shakedown
