// Applies the rules of a profile. A family without rules, a rule that could not be applied, and an error in a row
// without a rule never pass.
#include "thresholds/rules/rules.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "thresholds/catalogue/families.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/rules/applicability.hpp"
#include "thresholds/rules/rule.hpp"

namespace shakedown {
namespace {

/// The first plan with rounds of pairs.
constexpr int plan_with_pairs = 3;

Finding plain(const Key& key, Status status, const std::string& detail, int ranks) {
  Finding finding;
  classify(finding, status == Status::fail ? Code::error : Code::not_measured);
  finding.key = key;
  finding.status = status;
  finding.detail = detail;
  finding.next = measure_command(key, ranks);
  return finding;
}

class RulesJudge {
 public:
  RulesJudge(const Measured& measured, const FamilySet& families, const std::vector<Finding>& before,
             std::vector<Finding> untrue, std::set<std::string> among_peers)
      : results_(measured.files),
        families_(families),
        before_(before),
        benchmarks_(measured.benchmarks),
        among_peers_(std::move(among_peers)) {
    for (Finding& finding : untrue) untrue_.emplace(finding.key, std::move(finding));
    for (const auto& [key, benchmark] : benchmarks_) context_of_family_.emplace(key.family(), benchmark.context);
  }

  RuleFindings judge(const Profile* profile) {
    if (profile != nullptr) {
      // Pre-flight is first, because if it fails, other families may not have been measured.
      for (const Rule& rule : profile->rules) {
        if (is_preflight(rule.benchmark)) judge_rule(*profile, rule);
      }
      stopped_by_preflight_ = preflight_stopped_the_run();
      for (const Rule& rule : profile->rules) {
        if (!is_preflight(rule.benchmark)) judge_rule(*profile, rule);
      }
    }
    name_what_preflight_stopped();
    for (const auto& [key, benchmark] : benchmarks_) judge_error_without_rule(benchmark);
    for (const auto& [key, finding] : untrue_) {
      if (!counted_keys_.contains(key)) add(finding);
    }
    count_families(profile);
    if (profile != nullptr) judge_families(*profile);
    for (const std::string& family : families_.names) {
      if (context_of_family_.contains(family) || judged_families_.contains(family)) continue;
      add(plain(Key(family), Status::missing, "this family was not measured", ranks()));
    }
    // A profile that lists all families as unjudged must not pass without measurements.
    if (profile != nullptr && families_.all() && judged_families_.empty()) {
      add(no_reference("machine/profile", "no rule of " + profile->name + " applies to a measured benchmark"));
    }
    require_something_measured(profile);
    list_unjudged();
    return std::move(said_);
  }

 private:
  static bool is_preflight(const Key& key) { return key.family() == "preflight"; }

  /// True if only pre-flight was measured, and pre-flight or the machine fails. All other families then get one finding
  /// instead of one for each rule. Called after the rules of pre-flight.
  bool preflight_stopped_the_run() const {
    const bool alone = context_of_family_.size() == 1 && context_of_family_.contains("preflight");
    const auto fails = [](const Finding& finding) {
      return finding.counts() && !finding.good() && finding.status != Status::no_reference;
    };
    const auto has_error = [](const auto& entry) { return entry.second.error() != nullptr; };
    return alone && (std::any_of(benchmarks_.begin(), benchmarks_.end(), has_error) ||
                     std::any_of(before_.begin(), before_.end(), fails) ||
                     std::any_of(said_.findings.begin(), said_.findings.end(), fails));
  }

  void name_what_preflight_stopped() {
    if (stopped_.empty()) return;
    if (should_have_pairs() && wanted("pairs")) {
      stopped_.insert("pairs");
      judged_families_.insert("pairs");
    }
    std::string names;
    for (const std::string& family : stopped_) names += (names.empty() ? "" : ", ") + family;
    Finding finding;
    classify(finding, Code::not_measured);
    finding.key = Key("machine/preflight");
    finding.status = Status::missing;
    finding.detail = "pre-flight failed, so no other family was measured: " + names;
    finding.next = "fix the pre-flight failures, or measure in spite of them: ci/accept --despite-preflight";
    add(std::move(finding));
  }

  bool wanted(const std::string& family) const { return families_.contains(family); }

  int ranks() const { return results_.front().context.world_size; }

  const Context& context_of(const std::string& family) const {
    const auto found = context_of_family_.find(family);
    return found == context_of_family_.end() ? results_.front().context : *found->second;
  }

  void add(Finding finding) {
    judged_keys_.insert(finding.key);
    if (finding.counts()) counted_keys_.insert(finding.key);
    said_.findings.push_back(std::move(finding));
  }

  void judge_rule(const Profile& profile, const Rule& rule) {
    const std::string family = rule.benchmark.family();
    if (!wanted(family)) return;
    const Context& context = context_of(family);
    // A virtual GPU has no facts and no sensors.
    const bool needs_gpu =
        is_preflight(rule.benchmark) || is_telemetry(rule.metric) || rule.metric.ends_with("_per_ghz");
    if (context.backend == Backend::virtual_gpu && needs_gpu) return;
    const Applies applies = applicability(rule.conditions, context).applies;
    if (applies == Applies::unknown_nvls) ++nvls_rules_[family];
    if (applies != Applies::yes) return;
    if (stopped_by_preflight_) {
      stopped_.insert(family);
      judged_families_.insert(family);
      return;
    }
    Expansion expansion = expand(rule, context);
    // A gate measures some rows of each family, and the rules of these rows judge it.
    if (rule.optional == Optional::anywhere || (rule.optional == Optional::quick && context.tier == Tier::quick) ||
        context.tier == Tier::gate || context.asked.filter) {
      std::erase_if(expansion.keys, [this](const Key& key) { return !benchmarks_.contains(key); });
    }
    // A rule that can only warn does not count as a judgement. A rule for rows inside hosts does not count either, if
    // the family is measured between hosts.
    const bool inside = context.hosts > 1 && is_collective(family) && rule.benchmark.part("scope") == "node";
    if (rule.severity == Severity::fail && !expansion.keys.empty() && !inside) judged_families_.insert(family);
    for (const Key& key : expansion.keys) {
      const auto found = benchmarks_.find(key);
      const Benchmark* benchmark = found == benchmarks_.end() ? nullptr : &found->second;
      if (!judges_somebody(rule, benchmark)) continue;
      const auto untrue = untrue_.find(key);
      add(finding_of(profile, rule, key, benchmark, untrue == untrue_.end() ? nullptr : &untrue->second, context,
                     expansion.no_pair));
      const Finding& said = said_.findings.back();
      waived_by_choice_ = waived_by_choice_ || (said.counts() && said.status == Status::waived && !expansion.no_pair);
    }
  }

  // Judges errors even if there is no rule or the rule only warns. An error fails, and missing software makes the
  // benchmark inconclusive.
  void judge_error_without_rule(const Benchmark& benchmark) {
    if (!wanted(benchmark.key.family()) || counted_keys_.contains(benchmark.key)) return;
    const int ranks = benchmark.context->world_size;
    if (const Row* row = benchmark.error()) {
      Finding finding = plain(benchmark.key, Status::fail, *row->error, ranks);
      finding.wrong_ranks = row->wrong_ranks;
      if (!row->wrong_ranks.empty()) classify(finding, Code::wrong_data);
      add(std::move(finding));
    } else if (const Row* lacking = benchmark.waiver(); lacking != nullptr && lacking->lack == Lack::software) {
      Finding finding = plain(benchmark.key, Status::inconclusive, "", ranks);
      set_software_missing(finding, *lacking->waived, ranks);
      add(std::move(finding));
    }
  }

  // Waivers are for parts that a machine does not have. A run that has only waivers was not measured.
  void require_something_measured(const Profile* profile) {
    const auto waived = [](const Finding& f) { return !f.counts() || f.status == Status::waived; };
    if (profile == nullptr || !families_.all() || !waived_by_choice_) return;
    if (!std::all_of(said_.findings.begin(), said_.findings.end(), waived)) return;
    add(plain(Key("machine/profile"), Status::missing,
              "every rule of " + profile->name + " was waived, so nothing was judged", ranks()));
  }

  void count_families(const Profile* profile) {
    // Three and more hosts are compared by their pairs (thresholds/culprits/fabric.hpp). With two hosts it is unknown
    // which one is slower, and one host has no pair.
    const auto pairs = context_of_family_.find("pairs");
    const int hosts = pairs == context_of_family_.end() ? 0 : pairs->second->hosts;
    const bool alone = families_.names == std::vector<std::string>{"pairs"};
    const bool needs_none = alone ? !on_gpus() : !judged_families_.empty();
    if (hosts > 2 || (hosts == 1 && needs_none)) judged_families_.insert("pairs");
    const std::set<std::string> all = profile == nullptr ? families({}) : families(*profile);
    std::set<std::string> known = all;
    if (profile != nullptr) known.insert(profile->unjudged.begin(), profile->unjudged.end());
    said_.known_families = known.size();
    for (const std::string& family : all) {
      if (!wanted(family) || was_not_requested(family)) continue;
      ++said_.families;
      const bool judged = judged_families_.contains(family) && context_of_family_.contains(family);
      if (judged) ++said_.judged_families;
    }
  }

  // Adds findings for families without a judgement, whether they were measured or only the profile names them. A run
  // must not pass because no rule applies to its number of ranks or hosts. A family without rules passes only if its
  // ranks were compared with each other, or if the site file lists it. Rules that depend on a state of NVLS that was
  // not recorded are also reported, so that such a run does not pass with fewer rules.
  void judge_families(const Profile& profile) {
    for (const std::string& family : families(profile)) {
      const auto names = [&](const auto& list) { return std::find(list.begin(), list.end(), family) != list.end(); };
      const bool measured = context_of_family_.contains(family);
      // A family that all ranks waived needs no judgement.
      const bool has_values = has_values_of(benchmarks_, family);
      const bool unjudged = names(profile.unjudged) || (measured && !has_values && is_absent(family));
      if (!wanted(family) || judged_families_.contains(family) || names(profile.excused)) continue;
      if (measured && !has_values && !is_absent(family) && !families_.all() && on_gpus()) {
        add(nothing_measured(family));
        continue;
      }
      if (unjudged && (!has_values || among_peers_.contains(family))) continue;
      if (!measured) {
        judged_families_.insert(family);
        add(plain(Key(family), Status::missing, "was not measured", ranks()));
        continue;
      }
      const Context& context = context_of(family);
      // A single rank exchanges no data.
      if (context.world_size == 1 && is_collective(family)) continue;
      add(no_reference(family, "no rule of " + profile.name + " that can fail applies to " +
                                   plural(context.world_size, "rank") + " on " + plural(context.hosts, "host")));
    }
    for (const auto& [family, count] : nvls_rules_) {
      if (!context_of_family_.contains(family) || !judged_families_.contains(family)) continue;
      const std::string rules = std::to_string(count) + (count == 1 ? " rule" : " rules");
      add(no_reference(family, "the run did not record whether NVLS was on: " + rules + " could not be applied"));
    }
  }

  /// True if the hosts should have been compared in pairs. No profile has rules for pairs, because hosts are compared
  /// with each other.
  bool should_have_pairs() const {
    return std::any_of(results_.begin(), results_.end(), [](const Results& file) {
      return file.context.hosts > 1 && file.context.plan >= plan_with_pairs;
    });
  }

  std::set<std::string> families(const Profile& profile) const {
    std::set<std::string> all;
    for (const auto& [family, context] : context_of_family_) all.insert(family);
    if (should_have_pairs()) all.insert("pairs");
    for (const Rule& rule : profile.rules) {
      const std::string family = rule.benchmark.family();
      // Earlier plans did not have the family, and a rule for rows on request does not require it.
      const bool is_planned = context_of(family).plan >= rule.conditions.since;
      if (is_planned && rule.optional != Optional::anywhere) all.insert(family);
    }
    return all;
  }

  static Finding no_reference(const std::string& family, const std::string& detail) {
    Finding finding;
    classify(finding, Code::no_reference);
    finding.key = Key(family);
    finding.status = Status::no_reference;
    finding.detail = detail;
    finding.next = "add rules for it, or list the family under unjudged in the site file (--site=FILE)";
    return finding;
  }

  /// Returns a finding for a family that was requested but could not be measured, so that it does not pass.
  static Finding nothing_measured(const std::string& family) {
    auto finding = no_reference(family, "the family was not measured on this machine in this tier");
    finding.next = "judge the whole run, or measure this family with --tier=full, more GPUs or more hosts";
    return finding;
  }

  /// True if the family is measured only on request, and was not.
  bool was_not_requested(const std::string& family) const {
    const FamilyRow* const row = family_row(family);
    return row != nullptr && row->on_request && !has_values_of(benchmarks_, family);
  }

  /// True if the backend of this run does not have the family.
  bool is_absent(const std::string& family) const {
    return need(family, results_.front().context.backend) == Need::absent;
  }

  bool on_gpus() const { return results_.front().context.backend != Backend::host; }

  void list_unjudged() {
    for (const auto& [key, benchmark] : benchmarks_) {
      if (!wanted(key.family()) || judged_keys_.contains(key)) continue;
      const Row* waiver = benchmark.waiver();
      const std::string metric = headline_metric(benchmark);
      if (waiver != nullptr) {
        said_.unjudged.push_back({key, "", std::nullopt, "waived: " + *waiver->waived});
      } else if (!metric.empty()) {
        said_.unjudged.push_back({key, metric, run_value(benchmark, metric), ""});
      }
    }
  }

  const std::vector<Results>& results_;
  const FamilySet& families_;
  const std::vector<Finding>& before_;
  const Benchmarks& benchmarks_;
  const std::set<std::string> among_peers_;  // families in which ranks were compared with each other
  std::map<Key, Finding> untrue_;            // by key
  RuleFindings said_;
  std::map<std::string, const Context*> context_of_family_;
  std::set<Key> judged_keys_, counted_keys_;
  std::set<std::string> judged_families_;
  bool waived_by_choice_ = false;  // true: waived for another reason than a missing pair
  bool stopped_by_preflight_ = false;
  std::set<std::string> stopped_;          // families that were not measured because pre-flight failed
  std::map<std::string, int> nvls_rules_;  // by family: the number of rules that could not be applied
};

}  // namespace

RuleFindings judge_rules(const Measured& measured, const Profile* profile, const FamilySet& families,
                         const std::vector<Finding>& before, std::vector<Finding> untrue,
                         std::set<std::string> among_peers) {
  return RulesJudge(measured, families, before, std::move(untrue), std::move(among_peers)).judge(profile);
}

}  // namespace shakedown
