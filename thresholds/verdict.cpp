// Decides whether a machine is accepted. Fails closed: an error in any repetition, a value that is not there, above its
// physical ceiling or without a limit is never a pass. Tested by tests/verdict_test.cpp (build/tests/verdict_test).
#include "thresholds/verdict.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "thresholds/applicability.hpp"
#include "thresholds/cause.hpp"
#include "thresholds/crosscheck.hpp"
#include "thresholds/culprit.hpp"
#include "thresholds/evidence.hpp"
#include "thresholds/machine.hpp"
#include "thresholds/majority.hpp"
#include "thresholds/peers.hpp"
#include "thresholds/statistics.hpp"

namespace shakedown {
namespace {

using Benchmarks = std::map<std::string, Benchmark>;

std::string joined(const std::string& a, const std::string& b) { return a.empty() ? b : b.empty() ? a : a + "; " + b; }

void set(Finding& finding, Status status, const std::string& detail) {
  finding.status = status;
  finding.detail = joined(finding.detail, detail);
}

void set_limit(Finding& finding, const char* limit_name, double limit, double value, const std::string& unit) {
  finding.limit_name = limit_name;
  finding.limit = limit;
  finding.value = value;
  finding.unit = unit;
}

// ---------------------------------------------------------------------------------------------------------------------
// One rule on one benchmark

class RuleJudge {
 public:
  RuleJudge(const Profile& profile, const Rule& rule, std::string key, const Benchmark* benchmark,
            const Context& context, bool no_pair)
      : profile_(profile), rule_(rule), benchmark_(benchmark), context_(context), no_pair_(no_pair) {
    finding_.key = std::move(key);
    finding_.metric = rule.metric;
    finding_.severity = rule.severity;
    finding_.unit = unit_of(rule.metric);
    finding_.source = rule.source;
    finding_.rule_at = rule.at;
    show_first_limit();
  }

  Finding judge() {
    judge_outcome();
    if (finding_.status == Status::fail) explain_worst();
    if (finding_.status != Status::pass && finding_.status != Status::waived) {
      finding_.next = measure_command(finding_.key, context_.world_size);
    }
    return finding_;
  }

 private:
  // So that a missing value still shows what was asked for.
  void show_first_limit() {
    const Limits& l = rule_.limits;
    const auto show = [&](const char* name, const std::optional<double>& limit) {
      if (!limit || finding_.limit) return;
      finding_.limit = limit;
      finding_.limit_name = name;
    };
    show("min", l.min);
    show("max", l.max);
    show("equals", l.equals);
    show("spread_max", l.spread_max);
  }

  void judge_outcome() {
    if (benchmark_ == nullptr) return set(finding_, Status::missing, "was not measured");
    if (const Row* row = benchmark_->error()) {
      const std::string where =
          benchmark_->rows.size() > 1 ? "repetition " + std::to_string(row->repetition) + ": " : "";
      return set(finding_, Status::fail, where + *row->error);
    }
    if (const Row* row = benchmark_->waiver()) return judge_waiver(*row);
    if (rule_.limits.same) {
      judge_sameness();
    } else if (rule_.limits.equals_text) {
      judge_texts();
    } else if (rule_.every == Every::run) {
      judge_run();
    } else {
      judge_ranks();
    }
    if (finding_.status == Status::pass) judge_repeatability();
  }

  // "-11 %: software power cap 38 % of the time, 1,410 of 1,980 MHz". Pre-flight's facts explain themselves: nothing ran.
  void explain_worst() {
    if (family_of(finding_.key) == "preflight") return;
    if (benchmark_ == nullptr || !finding_.worst || !finding_.worst->rank) return;
    const std::string why = cause(*benchmark_, *finding_.worst->rank);
    if (!why.empty()) set(finding_, finding_.status, distance_text() + why);
  }

  // How far the value is from its limit, of ranks that differ how far the worst is from the typical one.
  std::string distance_text() const {
    std::optional<double> value = finding_.value, reference = finding_.limit;
    if (finding_.limit_name == "spread_max") {
      std::vector<double> known;
      for (const auto& rank : rank_values(*benchmark_, rule_.metric)) {
        if (rank) known.push_back(*rank);
      }
      value = finding_.worst->value;
      reference = median(known);
    }
    if (!value || !reference || !(*reference > 0) || rule_.metric == "throttled") return "";
    const long percent = std::lround((*value / *reference - 1) * 100);
    return (percent > 0 ? "+" : "") + std::to_string(percent) + " %: ";
  }

  void judge_waiver(const Row& row) {
    if (no_pair_) return set(finding_, Status::waived, *row.waived + "; no host has two ranks");
    if (rule_.may_waive) return set(finding_, Status::waived, *row.waived);
    set(finding_, Status::fail, "waived, which the rule does not allow: " + *row.waived);
  }

  void judge_run() {
    const auto value = rule_.metric == "mfu" ? utilization() : run_value(*benchmark_, rule_.metric);
    if (!value) return set(finding_, Status::missing, "\"" + rule_.metric + "\" is missing in a repetition");
    finding_.value = value;
    if (const auto rank = rank_to_blame(*benchmark_)) {
      finding_.worst = culprit(facts(*rank), own_value(*rank));
      if (is_collective(family_of(finding_.key))) set(finding_, finding_.status, "last to arrive");
    }
    if (judge_sanity()) return;
    if (const auto broken = broken_limit(*value)) {
      set_limit(finding_, broken->first, broken->second, *value, finding_.unit);
      finding_.status = Status::fail;
      if (finding_.worst) name_offenders({*finding_.worst});
    }
  }

  /// The ranks whose values the rule wants: of facts of a host its first.
  std::vector<int> wanted_ranks() const {
    if (rule_.every != Every::host) return required_ranks(finding_.key, context_);
    std::vector<int> leaders;
    for (const RankFacts& rank : context_.ranks) {
      if (rank.local_rank == 0) leaders.push_back(rank.rank);
    }
    return leaders;
  }

  Culprit named(int rank, std::optional<double> value = std::nullopt) const {
    Culprit who = culprit(facts(rank), value);
    if (rule_.every == Every::host) who.rank = std::nullopt, who.uuid = who.pci = std::nullopt;
    return who;
  }

  /// Whoever should have a value and has none. True: there is somebody.
  template <class Value>
  bool judge_silence(const std::vector<std::optional<Value>>& values) {
    std::vector<int> silent;
    std::vector<Culprit> culprits;
    for (const int rank : wanted_ranks()) {
      if (values[static_cast<std::size_t>(rank)]) continue;
      silent.push_back(rank);
      culprits.push_back(named(rank));
    }
    if (silent.empty()) return false;
    set(finding_, Status::missing, std::string(name(rule_.every)) + "s without a value");
    if (rule_.limits.equals || rule_.limits.min || rule_.limits.max) explain_by_texts(silent);
    name_offenders(std::move(culprits));
    return true;
  }

  /// What ranks have said about a number, or about its absence, each text once.
  void explain_by_texts(const std::vector<int>& ranks) {
    constexpr std::size_t most = 4;
    const auto texts = rank_texts(*benchmark_, rule_.metric);
    std::vector<std::string> said;
    for (const int rank : ranks) {
      if (texts.empty() || !texts[static_cast<std::size_t>(rank)]) continue;
      const std::string& text = *texts[static_cast<std::size_t>(rank)];
      if (std::find(said.begin(), said.end(), text) == said.end()) said.push_back(text);
    }
    for (std::size_t i = 0; i < std::min(said.size(), most); ++i) set(finding_, finding_.status, said[i]);
    if (said.size() > most) set(finding_, finding_.status, "and " + std::to_string(said.size() - most) + " more");
  }

  /// A fact as text, whatever it is. Numbers within 1 % of their median are the same: a kernel keeps a little of the
  /// memory for itself, not everywhere as much.
  std::vector<std::optional<std::string>> values_as_texts() const {
    const auto numbers = rank_values(*benchmark_, rule_.metric);
    if (numbers.empty()) return rank_texts(*benchmark_, rule_.metric);
    std::vector<double> known;
    for (const auto& number : numbers) {
      if (number) known.push_back(*number);
    }
    std::sort(known.begin(), known.end());
    const double middle = known.empty() ? 0 : known[known.size() / 2];
    std::vector<std::optional<std::string>> texts;
    for (const auto& number : numbers) {
      const bool near = number && std::abs(*number - middle) <= 0.01 * std::abs(middle);
      texts.push_back(number ? std::optional(number_text(near ? middle : *number)) : std::nullopt);
    }
    return texts;
  }

  void judge_sameness() {
    const auto values = values_as_texts();
    if (values.empty()) return set(finding_, Status::missing, "was not read");
    if (judge_silence(values)) return;
    const auto ranks = wanted_ranks();
    std::vector<Holder> holders;
    for (const int rank : ranks) {
      const std::string& host = facts(rank).host;
      holders.push_back({rule_.every == Every::host ? host : "rank " + std::to_string(rank) + " " + host,
                         values[static_cast<std::size_t>(rank)]});
    }
    const auto odd = odd_ones_out(holders);
    if (odd.who.empty()) return;
    set(finding_, Status::fail, rule_.metric + " " + odd.text);
    std::vector<Culprit> offenders;
    for (const std::size_t i : odd.who) offenders.push_back(named(ranks[i]));
    name_offenders(std::move(offenders));
  }

  void judge_texts() {
    const auto values = rank_texts(*benchmark_, rule_.metric);
    if (values.empty()) return set(finding_, Status::missing, "was not read");
    if (judge_silence(values)) return;
    std::vector<Culprit> offenders;
    std::string first;
    for (const int rank : wanted_ranks()) {
      const std::string& value = *values[static_cast<std::size_t>(rank)];
      if (value == *rule_.limits.equals_text) continue;
      if (offenders.empty()) first = value;
      offenders.push_back(named(rank));
    }
    if (offenders.empty()) return;
    set(finding_, Status::fail, "is \"" + first + "\", must be \"" + *rule_.limits.equals_text + "\"");
    name_offenders(std::move(offenders));
  }

  // Model FLOPS over the dense peak of the type, which the profile knows and the measurement does not.
  std::optional<double> utilization() const {
    const auto reached = run_value(*benchmark_, "model_tflops");
    const auto peak = ceiling(profile_, finding_.key, "model_tflops", context_.world_size, context_.hosts);
    return reached && peak ? std::optional(*reached / *peak) : std::nullopt;
  }

  void judge_ranks() {
    auto values = rank_values(*benchmark_, rule_.metric);
    // A fact that no rank could read stands there with the reasons alone.
    if (values.empty() && !rank_texts(*benchmark_, rule_.metric).empty()) values.resize(context_.ranks.size());
    if (values.empty()) return set(finding_, Status::missing, "no values by rank of \"" + rule_.metric + "\"");
    if (judge_silence(values)) return;
    std::vector<Culprit> known;
    for (int rank = 0; rank < static_cast<int>(values.size()); ++rank) {
      if (const auto& value = values[static_cast<std::size_t>(rank)]) known.push_back(named(rank, value));
    }
    if (known.empty()) return set(finding_, Status::missing, "no rank has a value");
    sort_worst_first(known);
    finding_.worst = known.front();
    finding_.value = known.front().value;
    if (judge_sanity()) return;
    judge_each(known);
    if (finding_.status == Status::pass) judge_spread(known);
  }

  void judge_each(const std::vector<Culprit>& worst_first) {
    std::vector<Culprit> offenders;
    for (const Culprit& rank : worst_first) {
      const auto broken = broken_limit(*rank.value);
      if (!broken) continue;
      if (offenders.empty()) set_limit(finding_, broken->first, broken->second, *rank.value, finding_.unit);
      offenders.push_back(rank);
    }
    if (offenders.empty()) return;
    finding_.status = Status::fail;
    finding_.worst = offenders.front();
    std::vector<int> ranks;
    const auto own = rank_values(*benchmark_, rule_.metric);  // once: of 10,000 ranks it takes as many medians
    for (std::size_t rank = 0; rank < own.size(); ++rank) {
      if (own[rank] && broken_limit(*own[rank])) ranks.push_back(static_cast<int>(rank));
    }
    explain_by_texts(ranks);
    name_offenders(std::move(offenders));
  }

  void judge_spread(const std::vector<Culprit>& worst_first) {
    if (!rule_.limits.spread_max) return;
    std::vector<double> values;
    for (const Culprit& rank : worst_first) values.push_back(*rank.value);
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    const double middle = median(values);
    const double spread = *high == *low ? 0 : (*high - *low) / middle;
    if (spread <= *rule_.limits.spread_max) return;
    set(finding_, Status::fail,
        "ranks differ: " + number_text(*low) + " to " + number_text(*high) + " " + finding_.unit);
    set_limit(finding_, "spread_max", *rule_.limits.spread_max, spread, "of the median");
    name_offenders({worst_first.front()});
  }

  // A value that no machine can reach, or that is no number: the measurement is wrong, whatever the limit says.
  bool judge_sanity() {
    auto largest = largest_value(*benchmark_, rule_.metric);
    if (!largest) largest = finding_.value;  // one that is derived
    const auto bound = ceiling(profile_, finding_.key, rule_.metric, context_.world_size, context_.hosts);
    if (!std::isfinite(*finding_.value) || (largest && !std::isfinite(*largest))) {
      set(finding_, Status::invalid, "not a finite number");
      return true;
    }
    if (!bound || !largest || *largest <= *bound * ceiling_allowance) return false;
    set_limit(finding_, "ceiling", *bound, *largest, finding_.unit);
    set(finding_, Status::invalid, "above what physics allows: the measurement is wrong, not the machine fast");
    return true;
  }

  // A pass that does not repeat is no pass; a failure stays one.
  void judge_repeatability() {
    if (!rule_.limits.cv_max) return;
    const double limit = *rule_.limits.cv_max;
    double worst = 0;
    for (const Row* row : benchmark_->rows) {
      const auto found = row->metrics.find("cv");
      if (found == row->metrics.end()) {
        return set(finding_, Status::inconclusive, "cv is missing in a repetition: fewer than 5 samples?");
      }
      worst = std::max(worst, found->second);
    }
    if (worst <= limit) return;
    set(finding_, Status::inconclusive,
        "does not repeat: cv " + number_text(worst) + ", at most " + number_text(limit) + " allowed");
    set_limit(finding_, "cv_max", limit, worst, "cv");
  }

  std::optional<std::pair<const char*, double>> broken_limit(double value) const {
    const Limits& l = rule_.limits;
    // Written so that a comparison with something that is not a number fails.
    if (l.min && !(value >= *l.min)) return std::pair("min", *l.min);
    if (l.max && !(value <= *l.max)) return std::pair("max", *l.max);
    if (l.equals && !(value == *l.equals)) return std::pair("equals", *l.equals);
    return std::nullopt;
  }

  void sort_worst_first(std::vector<Culprit>& ranks) const {
    const Limits& l = rule_.limits;
    const bool high_is_bad = l.max || (!l.min && !l.equals && lower_is_better(rule_.metric));
    const auto badness = [&](const Culprit& rank) {
      if (l.equals) return std::abs(*rank.value - *l.equals);
      return high_is_bad ? *rank.value : -*rank.value;
    };
    std::stable_sort(ranks.begin(), ranks.end(),
                     [&](const Culprit& a, const Culprit& b) { return badness(a) > badness(b); });
  }

  void name_offenders(std::vector<Culprit> offenders) {
    finding_.offender_count = offenders.size();
    if (offenders.size() > max_offenders) offenders.resize(max_offenders);
    if (!finding_.worst && !offenders.empty()) finding_.worst = offenders.front();
    finding_.offenders = std::move(offenders);
  }

  std::optional<double> own_value(int rank) const {
    const auto values = rank_values(*benchmark_, rule_.metric);
    return values.empty() ? std::nullopt : values[static_cast<std::size_t>(rank)];
  }

  const RankFacts& facts(int rank) const { return context_.ranks[static_cast<std::size_t>(rank)]; }

  const Profile& profile_;
  const Rule& rule_;
  const Benchmark* benchmark_;
  const Context& context_;
  bool no_pair_;
  Finding finding_;
};

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
    // What can only warn does not stand for a judgement.
    if (rule.severity == Severity::fail) judged_families_.insert(family);
    const Expansion expansion = expand(rule, context);
    for (const std::string& key : expansion.keys) {
      const auto found = benchmarks_.find(key);
      const Benchmark* benchmark = found == benchmarks_.end() ? nullptr : &found->second;
      add(RuleJudge(profile, rule, key, benchmark, context, expansion.no_pair).judge());
    }
  }

  // An error fails even where no rule, or only a warning, names the benchmark.
  void judge_error_without_rule(const Benchmark& benchmark) {
    const Row* row = benchmark.error();
    if (row == nullptr || !wanted(family_of(benchmark.key)) || counted_keys_.contains(benchmark.key)) return;
    add(plain(benchmark.key, Status::fail, *row->error, benchmark.context->world_size));
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
  const Peers peers = compare_peers(benchmarks, options.family);
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
    case State::fail:
    case State::incomplete: return 1;
    case State::inconclusive:
    case State::no_reference: return 3;
  }
  return 1;
}

}  // namespace

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
    if (!unknown || !used || file.context.world_size == 1 || file.context.environment.count("NCCL_DEBUG") == 0)
      continue;
    verdict.notes.push_back(
        "whether NCCL used NVLink is not known: NCCL_DEBUG=" + file.context.environment.at("NCCL_DEBUG") +
        " keeps its log from the record; unset it, or set INFO");
    break;
  }
  verdict.findings = judge_machine(results, options);
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
  add_findings(verdict, {});
  return verdict;
}

}  // namespace shakedown
