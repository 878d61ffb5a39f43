// Applies a rule. An error in any repetition, a missing or impossible value, and a value without a limit never pass.
#include "thresholds/rules/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "thresholds/catalogue/majority.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/findings/rank_telemetry.hpp"
#include "thresholds/rules/applicability.hpp"
#include "thresholds/rules/fact_texts.hpp"

namespace shakedown {
namespace {

void set(Finding& finding, Status status, const std::string& detail) {
  finding.status = status;
  if (!detail.empty()) finding.detail += (finding.detail.empty() ? "" : "; ") + detail;
}

std::optional<int> first_wrong(const Finding& finding, const Context& context) {
  const bool known =
      !finding.wrong_ranks.empty() && finding.wrong_ranks.front() < static_cast<int>(context.ranks.size());
  return known ? std::optional(finding.wrong_ranks.front()) : std::nullopt;
}

void set_compared(Finding& finding, const Limit& limit, double value, const std::string& unit) {
  finding.limit = limit;
  finding.value = value;
  finding.unit = unit;
}

// True if the rule's condition is met, which means that another fact is known and not 0.
bool meets(const Rule& rule, const Benchmark& benchmark, std::size_t rank) {
  if (rule.where.empty()) return true;
  const auto numbers = rank_values(benchmark, rule.where);
  if (rank < numbers.size() && numbers[rank]) return *numbers[rank] != 0;
  const auto texts = rank_texts(benchmark, rule.where);
  return numbers.empty() && rank < texts.size() && texts[rank];
}

class RuleJudge {
 public:
  RuleJudge(const Profile& profile, const Rule& rule, Key key, const Benchmark* benchmark, const Finding* untrue,
            const Context& context, bool no_pair)
      : profile_(profile), rule_(rule), benchmark_(benchmark), untrue_(untrue), context_(context), no_pair_(no_pair) {
    finding_.key = std::move(key);
    const bool is_fact = finding_.key.family() == "preflight";
    classify(finding_, is_fact ? Code::fact : Code::limit, benchmark == nullptr ? 0 : benchmark->rows.size());
    finding_.metric = rule.metric;
    finding_.severity = rule.severity;
    finding_.unit = unit_of(rule.metric);
    finding_.source = rule.source;
    finding_.rule_at = rule.at;
    finding_.seen = rule.seen;
    show_first_limit();
  }

  Finding judge() {
    judge_outcome();
    if (finding_.status == Status::missing) classify(finding_, Code::not_measured);
    finding_.part = part();
    if (finding_.status == Status::fail) explain_worst();
    if (!rule_.replaces.empty()) set(finding_, finding_.status, "replaces the rule at " + rule_.replaces);
    if (finding_.code == Code::fact && !finding_.good()) add_remedy();
    if (!finding_.good() && finding_.next.empty()) {
      finding_.next = measure_command(finding_.key, context_.world_size) + own_flag();
    }
    return std::move(finding_);
  }

 private:
  Part part() const {
    const auto& worst = finding_.worst;
    if (worst && !worst->rank) return host_part(worst->host);
    const auto rank = worst ? worst->rank : first_wrong(finding_, context_);
    return rank ? part_of(finding_.key, rule_.metric, context_, *rank) : Part{};
  }

  void add_remedy() {
    const std::string limit = finding_.limit ? number_text(finding_.limit->value) : "";
    const auto& worst = finding_.worst;
    const std::string gpu = worst && worst->rank ? gpu_in_command(facts(*worst->rank)) : "GPU";
    finding_.remedy = remedy_of(rule_.metric, gpu, limit);
    if (finding_.remedy) finding_.next = on_host(worst ? worst->host : "", finding_.remedy->command);
  }

  // Sets the limit even if the value is missing, so that the finding shows it.
  void show_first_limit() {
    const Limits& l = rule_.limits;
    const auto show = [&](LimitKind kind, const std::optional<double>& limit) {
      if (limit && !finding_.limit) finding_.limit = {kind, *limit};
    };
    show(LimitKind::min, l.min);
    show(LimitKind::max, l.max);
    show(LimitKind::equals, l.equals);
    show(LimitKind::spread_max, l.spread_max);
  }

  // Returns the flag that pre-flight needs to run DCGM again. The level is one digit, because text from a file must not
  // become part of a command.
  std::string own_flag() const {
    const std::string_view flag = "--dcgm=";
    if (!finding_.key.part("of").starts_with("dcgm")) return "";
    for (const std::string& word : context_.argv) {
      const bool level = word.size() == flag.size() + 1 && word.starts_with(flag);
      if (level && word.back() >= '1' && word.back() <= '3') return " " + word;
    }
    return "";
  }

  void judge_outcome() {
    if (benchmark_ == nullptr) return set(finding_, Status::missing, "was not measured");
    if (const Row* row = benchmark_->error()) {
      const std::string where =
          benchmark_->rows.size() > 1 ? "repetition " + std::to_string(row->repetition) + ": " : "";
      finding_.wrong_ranks = row->wrong_ranks;
      classify(finding_, row->wrong_ranks.empty() ? Code::error : Code::wrong_data);
      return set(finding_, Status::fail, where + *row->error);
    }
    if (const Row* row = benchmark_->waiver()) return judge_waiver(*row);
    if (untrue_ != nullptr && untrue_->status == Status::invalid) return adopt(*untrue_);
    if (rule_.limits.same) {
      judge_sameness();
    } else if (!rule_.limits.equals_text.empty() || rule_.limits.at_least) {
      judge_texts();
    } else if (rule_.every == Every::run) {
      judge_run();
    } else {
      judge_ranks();
    }
    if (finding_.status == Status::pass && untrue_ != nullptr) adopt(*untrue_);
    if (finding_.status == Status::pass) judge_repeatability();
  }

  // Takes over the finding about an impossible figure, which cannot be judged whatever the limit is.
  void adopt(const Finding& untrue) {
    set(finding_, untrue.status,
        (untrue.metric.empty() || untrue.metric == rule_.metric ? "" : untrue.metric + ": ") + untrue.detail);
    finding_.value = untrue.value;
    finding_.unit = untrue.unit;
    finding_.limit = untrue.limit;
    finding_.worst = untrue.worst;
    finding_.code = untrue.code;
    finding_.sure = untrue.sure;
  }

  // Adds the reason for the worst value: "-11 %: software power cap 38 % of the time, 1,410 of 1,980 MHz". Facts of
  // pre-flight have no telemetry.
  void explain_worst() {
    if (finding_.key.family() == "preflight") return;
    if (benchmark_ == nullptr || !finding_.worst || !finding_.worst->rank) return;
    const std::string why = cause(*benchmark_, *finding_.worst->rank);
    if (!why.empty()) set(finding_, finding_.status, distance_text() + why);
  }

  // Returns how far the value is from its limit. For a spread it is how far the worst rank is from the median.
  std::string distance_text() const {
    const auto compared = finding_.compared();
    if (!compared || rule_.metric == "throttled") return "";
    std::optional<double> value = compared->value;
    double reference = compared->limit.value;
    if (compared->limit.kind == LimitKind::spread_max) {
      std::vector<double> known;
      for (const auto& rank : rank_values(*benchmark_, rule_.metric)) {
        if (rank) known.push_back(*rank);
      }
      value = finding_.worst->value;
      reference = median(known);
    }
    if (!value || !(reference > 0)) return "";
    const double percent = std::round((*value / reference - 1) * 100) + 0.0;  // adding 0.0 avoids "-0"
    return fmt::format("{}{:.0f} %: ", percent > 0 ? "+" : "", percent);
  }

  void judge_waiver(const Row& row) {
    if (row.lack == Lack::software) return set_software_missing(finding_, *row.waived, context_.world_size);
    classify(finding_, Code::waiver);
    if (no_pair_) return set(finding_, Status::waived, *row.waived + "; no host has two ranks");
    if (rule_.may_waive) return set(finding_, Status::waived, *row.waived);
    set(finding_, Status::fail, "waived, but the rule does not allow that: " + *row.waived);
  }

  void judge_run() {
    const auto value = rule_.metric == "mfu" ? utilization() : run_value(*benchmark_, rule_.metric);
    if (!value) return set(finding_, Status::missing, "\"" + rule_.metric + "\" is missing in a repetition");
    finding_.value = value;
    if (const auto rank = slowest_rank(*benchmark_)) {
      finding_.worst = culprit(facts(*rank), own_value(*rank));
      if (is_collective(finding_.key.family())) set(finding_, finding_.status, "last to arrive");
    }
    if (const auto broken = broken_limit(*value)) {
      set_compared(finding_, *broken, *value, finding_.unit);
      finding_.status = Status::fail;
      if (finding_.worst) name_offenders(finding_, {*finding_.worst});
    }
  }

  /// Returns the ranks that need a value. For facts of a host, this is its first rank.
  std::vector<int> wanted_ranks() const {
    std::vector<int> wanted;
    if (rule_.every != Every::host) {
      wanted = required_ranks(finding_.key, context_);
    } else {
      for (const RankFacts& rank : context_.ranks) {
        if (rank.local_rank == 0) wanted.push_back(rank.rank);
      }
    }
    if (!rule_.where.empty())
      std::erase_if(wanted, [&](int rank) { return !meets(rule_, *benchmark_, static_cast<std::size_t>(rank)); });
    return wanted;
  }

  Culprit named(int rank, std::optional<double> value = std::nullopt) const {
    if (rule_.every != Every::host) return culprit(facts(rank), value);
    Culprit host = host_culprit(facts(rank).host);
    host.value = value;
    return host;
  }

  /// Names ranks that have no value although they need one. True if there are any.
  template <class Values>
  bool judge_silence(const Values& values) {
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
    name_offenders(finding_, std::move(culprits));
    return true;
  }

  /// Adds the different texts of the ranks, which explain a number or its absence.
  void explain_by_texts(const std::vector<int>& ranks) {
    constexpr std::size_t max_named = 4;
    const auto said = different_texts(*benchmark_, rule_.metric, ranks);
    for (std::size_t i = 0; i < std::min(said.size(), max_named); ++i) set(finding_, finding_.status, said[i]);
    if (said.size() > max_named)
      set(finding_, finding_.status, "and " + std::to_string(said.size() - max_named) + " more");
  }

  void judge_sameness() {
    const auto values = values_as_texts(*benchmark_, rule_.metric);
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
    std::vector<int> odd_ranks;
    for (const std::size_t i : odd.who) {
      offenders.push_back(named(ranks[i]));
      odd_ranks.push_back(ranks[i]);
    }
    if (!rank_values(*benchmark_, rule_.metric).empty()) explain_by_texts(odd_ranks);
    name_offenders(finding_, std::move(offenders));
  }

  void judge_texts() {
    const auto values = rank_texts(*benchmark_, rule_.metric);
    if (values.empty()) return set(finding_, Status::missing, "was not read");
    if (judge_silence(values)) return;
    std::vector<Culprit> offenders;
    std::string first;
    for (const int rank : wanted_ranks()) {
      const std::string& value = *values[static_cast<std::size_t>(rank)];
      const auto& known = rule_.limits.equals_text;
      if (!known.empty() && std::find(known.begin(), known.end(), value) != known.end()) continue;
      if (known.empty() && is_at_least(value, *rule_.limits.at_least)) continue;
      if (offenders.empty()) first = value;
      offenders.push_back(named(rank));
    }
    if (offenders.empty()) return;
    set(finding_, Status::fail,
        "is \"" + first + "\", must be " +
            (rule_.limits.at_least ? *rule_.limits.at_least + " or later"
                                   : "\"" + joined(rule_.limits.equals_text, "\" or \"") + "\""));
    name_offenders(finding_, std::move(offenders));
  }

  // Returns model FLOPS over the dense peak of the type. Only the profile knows the peak.
  std::optional<double> utilization() const {
    const auto reached = run_value(*benchmark_, "model_tflops");
    const auto peak = ceiling(profile_.peak, finding_.key, "model_tflops", scale_of(context_));
    return reached && peak ? std::optional(*reached / *peak) : std::nullopt;
  }

  /// The value of a rank. Culprits have five texts each, so only those that a finding names are made.
  struct RankValue {
    int rank;
    double value;
  };

  void judge_ranks() {
    auto values = rank_values(*benchmark_, rule_.metric);
    // A fact that has no value on any rank has only texts with reasons.
    if (values.empty() && !rank_texts(*benchmark_, rule_.metric).empty()) values.resize(context_.ranks.size());
    if (values.empty()) return set(finding_, Status::missing, "no values by rank of \"" + rule_.metric + "\"");
    if (judge_silence(values)) return;
    std::vector<RankValue> known;
    for (int rank = 0; rank < static_cast<int>(values.size()); ++rank) {
      const auto& value = values[static_cast<std::size_t>(rank)];
      if (value && meets(rule_, *benchmark_, static_cast<std::size_t>(rank))) known.push_back({rank, *value});
    }
    if (known.empty()) return set(finding_, Status::missing, "no rank has a value");
    sort_worst_first(known);
    finding_.worst = named(known.front().rank, known.front().value);
    finding_.value = known.front().value;
    judge_each(known);
    if (finding_.status == Status::pass) judge_spread(known);
  }

  void judge_each(const std::vector<RankValue>& worst_first) {
    std::vector<Culprit> offenders;
    for (const auto& [rank, value] : worst_first) {
      const auto broken = broken_limit(value);
      if (!broken) continue;
      if (offenders.empty()) set_compared(finding_, *broken, value, finding_.unit);
      offenders.push_back(named(rank, value));
    }
    if (offenders.empty()) return;
    finding_.status = Status::fail;
    finding_.worst = offenders.front();
    std::vector<int> ranks;
    // Computed once, because it needs a median for each of 10,000 ranks.
    const auto own = rank_values(*benchmark_, rule_.metric);
    for (std::size_t rank = 0; rank < own.size(); ++rank) {
      if (own[rank] && broken_limit(*own[rank])) ranks.push_back(static_cast<int>(rank));
    }
    explain_by_texts(ranks);
    name_offenders(finding_, std::move(offenders));
  }

  void judge_spread(const std::vector<RankValue>& worst_first) {
    if (!rule_.limits.spread_max) return;
    std::vector<double> values;
    for (const RankValue& rank : worst_first) values.push_back(rank.value);
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    const double middle = median(values);
    const double spread = *high == *low ? 0 : (*high - *low) / middle;
    if (spread <= *rule_.limits.spread_max) return;
    set(finding_, Status::fail,
        "ranks differ: " + number_text(*low) + " to " + number_text(*high) + " " + finding_.unit);
    set_compared(finding_, {LimitKind::spread_max, *rule_.limits.spread_max}, spread, "of the median");
    name_offenders(finding_, {named(worst_first.front().rank, worst_first.front().value)});
  }

  // Makes a pass inconclusive if the cv is too large or there are too few samples. A failure is not changed.
  void judge_repeatability() {
    if (rule_.limits.samples_min) {
      const double least = *rule_.limits.samples_min;
      for (const Row* row : benchmark_->rows) {
        const auto found = row->metrics.find("samples");
        if (found != row->metrics.end() && found->second >= least) continue;
        const double had = found == row->metrics.end() ? 0 : found->second;
        classify(finding_, Code::scatter, benchmark_->rows.size());
        set_compared(finding_, {LimitKind::samples_min, least}, had, "samples");
        return set(finding_, Status::invalid,
                   "fewer samples than required: " + number_text(had) + " of " + number_text(least));
      }
    }
    if (!rule_.limits.cv_max) return;
    const double limit = *rule_.limits.cv_max;
    const auto cv = scatter_of(*benchmark_);
    if (cv && *cv <= limit) return;
    classify(finding_, Code::scatter, benchmark_->rows.size());
    if (!cv) return set(finding_, Status::inconclusive, "cv is missing in a repetition: fewer than 5 samples?");
    set(finding_, Status::inconclusive,
        "the samples scatter too much: cv " + number_text(*cv) + ", at most " + number_text(limit) + " allowed");
    set_compared(finding_, {LimitKind::cv_max, limit}, *cv, "cv");
  }

  std::optional<Limit> broken_limit(double value) const {
    const Limits& l = rule_.limits;
    // written so that a comparison with NaN fails
    if (l.min && !(value >= *l.min)) return Limit{LimitKind::min, *l.min};
    if (l.max && !(value <= *l.max)) return Limit{LimitKind::max, *l.max};
    if (l.equals && !(value == *l.equals)) return Limit{LimitKind::equals, *l.equals};
    return std::nullopt;
  }

  void sort_worst_first(std::vector<RankValue>& ranks) const {
    const Limits& l = rule_.limits;
    const bool high_is_bad = l.max || (!l.min && !l.equals && lower_is_better(rule_.metric));
    const auto badness = [&](const RankValue& rank) {
      if (l.equals) return std::abs(rank.value - *l.equals);
      return high_is_bad ? rank.value : -rank.value;
    };
    std::stable_sort(ranks.begin(), ranks.end(),
                     [&](const RankValue& a, const RankValue& b) { return badness(a) > badness(b); });
  }

  std::optional<double> own_value(int rank) const {
    const auto values = rank_values(*benchmark_, rule_.metric);
    return values.empty() ? std::nullopt : values[static_cast<std::size_t>(rank)];
  }

  const RankFacts& facts(int rank) const { return context_.ranks[static_cast<std::size_t>(rank)]; }

  const Profile& profile_;
  const Rule& rule_;
  const Benchmark* benchmark_;
  const Finding* untrue_;
  const Context& context_;
  bool no_pair_;
  Finding finding_;
};

}  // namespace

bool judges_somebody(const Rule& rule, const Benchmark* benchmark) {
  if (rule.where.empty() || benchmark == nullptr || benchmark->error() != nullptr) return true;
  for (std::size_t rank = 0; rank < benchmark->context->ranks.size(); ++rank) {
    if (meets(rule, *benchmark, rank)) return true;
  }
  return false;
}

Finding finding_of(const Profile& profile, const Rule& rule, const Key& key, const Benchmark* benchmark,
                   const Finding* untrue, const Context& context, bool no_pair) {
  return RuleJudge(profile, rule, key, benchmark, untrue, context, no_pair).judge();
}

}  // namespace shakedown
