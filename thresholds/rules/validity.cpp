// Checks whether figures are possible. An impossible figure comes from an error of the measurement or from an edited
// file, so the machine cannot be judged by it, whatever its limit is.
#include "thresholds/rules/validity.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "thresholds/rules/applicability.hpp"
#include "thresholds/rules/possible.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {
namespace {

constexpr double rounding = 0.01;

// No row takes longer than a week.
constexpr double max_row_seconds = 7 * 86400;
// Tolerance when rate, clock and rate per clock of a rank are compared. The three figures are medians and means of the
// same samples, and differ by up to 3.3 % in stored launches. Phases of a step are timed separately and differ by up to
// 0.5 %.
constexpr double tolerance = 0.1;

// Tolerance between the rate per clock, whose steps are counted separately, and the clock of the timed steps. The two
// figures differ by 0.5 % at constant power, and by more while a GPU warms up.
constexpr double clock_tolerance = 0.2;

class RowCheck {
 public:
  RowCheck(const Benchmark& benchmark, const Row& row, const Profile* profile, double pcie)
      : benchmark_(benchmark), context_(*benchmark.context), row_(row), family_(row.key.family()), profile_(profile) {
    scale_ = scale_of(context_);
    scale_.pcie_gb_per_s = pcie;
    if (const Column* tested = column("capacity_gb"))
      scale_.tested_gb = tested->front().value_or(0);  // all rows of the family have the same value
    classify(finding_, Code::untrue, benchmark.rows.size());
    finding_.key = row.key;
    finding_.judgement = Judgement::crosscheck;
  }

  /// Returns the finding about the first error.
  std::optional<Finding> run() {
    if (!(row_.iterations >= 1) || !std::isfinite(row_.iterations))
      refuse("iterations", row_.iterations, "no iterations were timed");
    if (!(row_.real_time > 0) || !std::isfinite(row_.real_time))
      refuse("real_time", row_.real_time, "not a possible time");
    for (const auto& [metric, value] : row_.metrics) check_value(metric, value);
    for (const auto& [metric, values] : row_.by_rank) check_ranks(metric, values);
    if (family_ == "pairs") check_partners();
    check_samples();
    check_times();
    check_phases();
    check_losses();
    if (!wrong_) check_repeatability();
    return wrong_ ? std::optional(finding_) : std::nullopt;
  }

 private:
  using Column = RankValues;

  void refuse(const std::string& metric, double value, const std::string& why, std::optional<std::size_t> rank = {},
              Status status = Status::invalid) {
    if (wrong_) return;
    wrong_ = true;
    finding_.metric = metric;
    finding_.status = status;
    finding_.value = value;
    finding_.unit = unit_of(metric);
    finding_.detail = why;
    if (rank) finding_.worst = culprit(context_.ranks[*rank], value);
    if (rank) finding_.part = part_of(row_.key, metric, context_, static_cast<int>(*rank));
  }

  // --- each figure by itself, and the run's against the ranks' ---

  Possible possible(const std::string& metric, const Metric* known, const RankFacts& facts) const {
    return possible_values(row_.key, metric, known, {context_.backend, scale_, facts, profile_});
  }

  void check(const std::string& metric, double value, const Possible& can, std::optional<std::size_t> rank) {
    if (!std::isfinite(value)) return refuse(metric, value, "not a finite number", rank);
    if (can.range == ValueRange::positive && !(value > 0)) {
      return refuse(metric, value, number_text(value) + ": must be above zero", rank);
    }
    if (can.range == ValueRange::not_negative && value < 0) {
      return refuse(metric, value, number_text(value) + ": cannot be below zero", rank);
    }
    if (value < can.least) {
      return refuse(metric, value, "faster than any GPU can answer: must be at least " + number_text(can.least) + " us",
                    rank);
    }
    if (!can.ceiling || value <= *can.ceiling * ceiling_allowance) return;
    refuse(metric, value, "above the physical limit: the measurement is wrong", rank);
    finding_.limit = {LimitKind::ceiling, *can.ceiling};
  }

  void check_value(const std::string& metric, double value) {
    check(metric, value, possible(metric, find_metric(row_.key, metric), context_.ranks.front()), {});
  }

  void check_ranks(const std::string& metric, const Column& values) {
    const Metric* known = find_metric(row_.key, metric);
    const auto alike = [](const RankFacts& a, const RankFacts& b) {
      return a.memory_bytes == b.memory_bytes && a.power_limit_w == b.power_limit_w && a.sm_mhz_max == b.sm_mhz_max;
    };
    const RankFacts* last = &context_.ranks.front();
    Possible can = possible(metric, known, *last);
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      if (!values[rank]) continue;
      if (const RankFacts& facts = context_.ranks[rank]; !alike(*last, facts)) {
        can = possible(metric, known, facts);
        last = &facts;
      }
      check(metric, *values[rank], can, rank);
    }
    if (known == nullptr || family_ == "preflight" || wrong_) return;
    if (known->of_slowest) compare_with_run(*known, metric, values);
    if (known->is_telemetry) compare_with_sensors(metric, values);
    if (metric == "checksum") compare_bits(values);
    if (known->of_slowest || metric == "seconds") require_all(metric, values);
    if (known->work != nullptr && metric != "seconds") compare_with_seconds(*known, metric, values);
    if (metric == "tflops_per_ghz") compare_product(metric, values, "sm_mhz", 1e-3, "tflops");
    if (metric == "tflops_per_w") compare_product(metric, values, "power_w", 1, "tflops");
  }

  const Column* column(const char* metric) const {
    const auto found = row_.by_rank.find(metric);
    return found == row_.by_rank.end() ? nullptr : &found->second;
  }

  std::optional<double> run_value(const std::string& metric) const {
    const auto found = row_.metrics.find(metric);
    return found == row_.metrics.end() ? std::nullopt : std::optional(found->second);
  }

  /// Returns the value of the slowest rank.
  static std::optional<double> slowest(const Column& values, bool high_is_slow) {
    std::optional<double> worst;
    for (const auto& value : values) {
      if (value && (!worst || (high_is_slow ? *value > *worst : *value < *worst))) worst = value;
    }
    return worst;
  }

  void compare_with_run(const Metric& known, const std::string& metric, const Column& values) {
    const bool high_is_slow = lower_is_better(known.name);
    const auto ranks = slowest(values, high_is_slow), run = run_value(metric);
    if (!ranks) return;
    if (!run) return refuse(metric, 0, "the ranks have values, but the run has none", {}, Status::missing);
    agree(metric, high_is_slow ? *run / *ranks : *ranks / *run, *run,
          [&] { return "the slowest rank has " + number_text(*ranks) + " " + unit_of(metric); });
  }

  // Checks that the run agrees with its slowest rank. `slower` is the ratio of the run's time to the time of that rank,
  // and `other` returns a text about that rank.
  void agree(const std::string& metric, double slower, double run, const auto& other) {
    const double most = context_.backend == Backend::cuda ? agreement_factor : HUGE_VAL;
    if (slower >= 1 - rounding && slower <= most) return;
    refuse(metric, run, "the run has " + number_text(run) + ", " + other());
  }

  // Checks sensor values: those of the run must be those of the slowest rank.
  void compare_with_sensors(const std::string& metric, const Column& values) {
    const auto run = run_value(metric);
    const auto same = [&](const auto& value) { return value && std::abs(*value - *run) <= 1e-6 * std::abs(*run); };
    const auto known = std::any_of(values.begin(), values.end(), [](const auto& value) { return value.has_value(); });
    if (!run || !known || std::any_of(values.begin(), values.end(), same)) return;
    refuse(metric, *run, "the run has " + number_text(*run) + ", but no rank has this value");
  }

  // Checks that ranks that compute the same on devices of one kind have the same bits, or an error.
  void compare_bits(const Column& values) {
    std::map<std::string_view, double> first;
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      if (!values[rank]) continue;
      const double other = first.emplace(context_.ranks[rank].device, *values[rank]).first->second;
      if (other == *values[rank]) continue;
      return refuse("checksum", *values[rank], "ranks with devices of one kind computed different bits", rank);
    }
  }

  void require_all(const std::string& metric, const Column& values) {
    // Idle hosts have no value; if a host has a partner but no value, it did not answer, which fabric.cpp judges.
    if (family_ == "pairs") return;
    for (const int rank : required_ranks(row_.key, context_)) {
      const auto index = static_cast<std::size_t>(rank);
      if (!values[index]) return refuse(metric, 0, "a rank that took part has no value", index, Status::missing);
    }
  }

  // Checks that both ends of a pair name each other as partner. In a repeated measurement only the doubtful end has a
  // value. No host has two partners.
  void check_partners() {
    const Column none(context_.ranks.size()), *said = column("partner"), *rates = column("busbw_gb_per_s");
    const Column& partners = said == nullptr ? none : *said;
    const bool one_end = !row_.key.part("confirm").empty();
    std::set<double> taken;
    for (std::size_t rank = 0; rank < partners.size(); ++rank) {
      const auto refuse_partner = [&](const char* why) { refuse("partner", partners[rank].value_or(0), why, rank); };
      if (!partners[rank]) {
        if (rates != nullptr && (*rates)[rank]) refuse_partner("a rate without a partner");
        continue;
      }
      const double partner = *partners[rank];
      if (!(partner >= 0 && partner < static_cast<double>(partners.size())) || std::fmod(partner, 1) != 0) {
        return refuse_partner("no rank of this run");
      }
      const auto other = static_cast<std::size_t>(partner);
      if (context_.ranks[other].host == context_.ranks[rank].host) return refuse_partner("a partner on the same host");
      const bool back = partners[other] ? *partners[other] == static_cast<double>(rank) : one_end;
      if (!back || !taken.insert(partner).second) return refuse_partner("a partner with another partner, or none");
    }
  }

  void compare_with_seconds(const Metric& known, const std::string& metric, const Column& values) {
    const Column* seconds = column("seconds");
    const auto work = known.work(row_.key, scale_);
    if (seconds == nullptr || !work) return;
    const bool is_time = lower_is_better(known.name);
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      const auto &value = values[rank], &took = (*seconds)[rank];
      if (!value || !took) continue;
      const double told = is_time ? *value * *work : *work / *value;
      if (std::abs(told / *took - 1) <= rounding) continue;
      return refuse(metric, *value, "contradicts " + number_text(*took * 1e6) + " us for the operation", rank);
    }
  }

  // Checks, for each rank, that value x factor = product.
  void compare_product(const std::string& metric, const Column& values, const char* factor, double scale,
                       const char* product) {
    const Column *by = column(factor), *gives = column(product);
    if (by == nullptr || gives == nullptr) return;
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      const auto &a = values[rank], &b = (*by)[rank], &c = (*gives)[rank];
      if (!a || !b || !c || std::abs(*a * *b * scale / *c - 1) <= tolerance) continue;
      return refuse(metric, *a,
                    "contradicts " + number_text(*c) + " " + unit_of(product) + " at " + factor + " " + number_text(*b),
                    rank);
    }
  }

  // --- figures of a row against each other ---

  /// True if any rank has a time.
  bool is_timed_by_rank() const {
    return std::any_of(row_.by_rank.begin(), row_.by_rank.end(), [&](const auto& column) {
      const Metric* known = find_metric(row_.key, column.first);
      return column.first == "seconds" || (known != nullptr && known->of_slowest);
    });
  }

  void check_samples() {
    const auto samples = run_value("samples"), cv = run_value("cv");
    if (!samples) return;
    const auto is_headline = [&](const auto& figure) {
      const Metric* known = find_metric(row_.key, figure.first);
      return known != nullptr && known->headline > 0;
    };
    if (is_catalogued(family_) && std::none_of(row_.metrics.begin(), row_.metrics.end(), is_headline))
      refuse("", 0, "was timed but has no figure to judge", {}, Status::missing);
    if (is_catalogued(family_) && family_ != "pairs" && !is_timed_by_rank())
      refuse("", 0, "was timed but no rank has a time", {}, Status::missing);
    if (std::fmod(*samples, 1) != 0) refuse("samples", *samples, "not a whole number");
    if (row_.iterations * row_.real_time > max_row_seconds) {
      refuse("samples", *samples, number_text(row_.iterations) + " iterations of this length take more than a week");
    }
    if (std::fmod(row_.iterations, *samples) != 0) {
      refuse("samples", *samples, "not a share of " + number_text(row_.iterations) + " iterations");
    }
    if (!cv && *samples >= samples_for_cv && family_ != "preflight") {
      refuse("cv", 0, "was sampled " + number_text(*samples) + " times but has no cv", {}, Status::inconclusive);
    }
    if (cv && *cv > std::sqrt(*samples)) refuse("cv", *cv, "more than " + number_text(*samples) + " samples can have");
    double last = 0;
    for (const char* part : {"p50_us", "p99_us", "p999_us", "max_us"}) {
      const auto value = run_value(part);
      if (!value) continue;
      if (*value < last * (1 - rounding))
        refuse(part, *value, "below a smaller quantile, " + number_text(last) + " us");
      last = std::max(last, *value);
      // No sample can be further from the mean than this (Samuelson's inequality).
      const double most = 1e6 * row_.real_time * (1 + cv.value_or(HUGE_VAL) * std::sqrt(*samples)) * (1 + rounding);
      if (*value > most) refuse(part, *value, "with this mean and cv it cannot be above " + number_text(most) + " us");
    }
  }

  // Checks that the figures imply the same time. The median time of an operation must be within one standard deviation
  // of the mean that Google Benchmark reports (Hotelling and Solomons, 1932).
  void check_times() {
    std::optional<double> median;
    std::string by;
    const auto cv = run_value("cv");
    for (const auto& [name, value] : row_.metrics) {
      const Metric* metric = find_metric(row_.key, name);
      const auto told = metric == nullptr ? std::nullopt : implied_seconds(*metric, row_.key, value, scale_);
      if (!told) continue;
      if (metric->of_mean) {
        if (std::abs(*told / row_.real_time - 1) > rounding) refuse(name, value, "contradicts real_time");
        continue;
      }
      if (cv && std::abs(*told / row_.real_time - 1) > *cv + rounding) {
        refuse(name, value, "contradicts the mean time of an operation, " + number_text(row_.real_time * 1e6) + " us");
      }
      if (!median) {
        median = told;
        by = name;
      } else if (std::abs(*told / *median - 1) > rounding) {
        refuse(name, value, "contradicts " + by);
      }
    }
    const Column* seconds = column("seconds");
    const auto ranks = seconds == nullptr ? std::nullopt : slowest(*seconds, true);
    if (median && ranks) {
      agree(by, *median / *ranks, *run_value(by),
            [&] { return "the slowest rank took " + number_text(*ranks * 1e6) + " us"; });
    }
  }

  // The time of a step is the rank's own work, in three phases, and the time that the rank then waits. Each time is a
  // median over its own samples. On a GPU these medians add up; on CPU cores, which other programs share, they may not.
  // On one batch, the loss of every LoRA step of the stored launches falls within ten steps to 71 % of the first loss
  // with adapters on attention only, and to 1 % with adapters on all products.
  void check_losses() {
    constexpr double max_part_of_first = 0.9;
    const Column *first = column("first_loss"), *last = column("last_loss");
    if (family_ != "lora_step" || context_.backend == Backend::host || first == nullptr || last == nullptr) return;
    for (std::size_t rank = 0; rank < std::min(first->size(), last->size()); ++rank) {
      const auto before = (*first)[rank], after = (*last)[rank];
      if (!before || !after || *after < max_part_of_first * *before) continue;
      refuse("last_loss", *after, "almost constant: " + number_text(*before) + " in the first step, on the same batch",
             rank);
    }
  }

  void check_phases() {
    if (context_.backend == Backend::host) return;
    // If a step accumulates gradients, its phases are those of one pass. If ranks share the state or compute a model
    // together, they wait for each other in every phase.
    const bool of_whole_step =
        row_.key.part("accumulation").empty() && row_.key.part("shard").empty() && row_.key.part("tp").empty();
    const Column *compute = column("compute_ms"), *exposed = column("exposed_comm_ms"), *step = column("seconds");
    if (compute == nullptr || !is_training(family_)) return;
    for (std::size_t rank = 0; rank < compute->size(); ++rank) {
      const auto at = [&](const Column* values) { return values == nullptr ? std::nullopt : (*values)[rank]; };
      const auto mine = at(compute), took = at(step);
      if (!mine) continue;
      if (took && (exposed != nullptr || context_.world_size == 1)) {
        const double sum = *mine + at(exposed).value_or(0);
        if (std::abs(sum / (*took * 1e3) - 1) > tolerance)
          refuse("compute_ms", *mine,
                 "together with the waiting time, does not give the step's " + number_text(*took * 1e3) + " ms", rank);
      }
      // Cycles were counted in the same steps. At the power limit the clock differs, because a GPU that waits for
      // others draws less power and its clock rises.
      const bool waits = at(exposed).value_or(0) > tolerance * *mine;
      const auto rate = at(column("tokens_per_s")), per_ghz = at(column("tokens_per_s_per_ghz")),
                 mhz = at(column("sm_mhz"));
      if (rate && per_ghz && mhz && took && !waits) {
        const double alone = *rate * *took * 1e3 / *mine;
        if (std::abs(*per_ghz * *mhz * 1e-3 / alone - 1) > clock_tolerance)
          refuse("tokens_per_s_per_ghz", *per_ghz,
                 "contradicts " + number_text(alone) + " tokens/s at sm_mhz " + number_text(*mhz), rank);
      }
      const auto f = at(column("forward_ms")), b = at(column("backward_ms")), o = at(column("optimizer_ms"));
      if (f && b && o && of_whole_step && std::abs((*f + *b + *o) / *mine - 1) > tolerance)
        refuse("compute_ms", *mine, "contradicts its phases, " + number_text(*f + *b + *o) + " ms", rank);
    }
  }

  // --- what the profile asks of every row that was timed ---

  void check_repeatability() {
    // Pairs of hosts are excluded, because slow pairs are measured again in other rounds (fixtures/pairs/rounds.cpp).
    if (profile_ == nullptr || family_ == "preflight" || family_ == "pairs") return;
    const auto samples = run_value("samples");
    if (const auto least = profile_->samples_min; least && samples.value_or(0) < *least) {
      return refuse(
          "samples", samples.value_or(0),
          "fewer samples than required: " + number_text(samples.value_or(0)) + " of " + std::to_string(*least));
    }
    const auto most = profile_->cv_max.find(family_);
    // A short row that was noisy once has already been measured again.
    const auto cv = scatter_of(benchmark_);
    if (most == profile_->cv_max.end() || (cv && *cv <= most->second)) return;
    refuse("cv", cv.value_or(0),
           cv ? "the samples scatter too much: cv " + number_text(*cv) + ", at most " + number_text(most->second) +
                    " allowed"
              : "cv is missing: fewer than 5 samples?",
           {}, Status::inconclusive);
  }

  const Benchmark& benchmark_;
  const Context& context_;
  const Row& row_;
  std::string family_;
  const Profile* profile_;
  Scale scale_;
  Finding finding_;
  bool wrong_ = false;
};

// Returns a finding for a benchmark that was waived in one repetition but measured in another, because the machine can
// run it.
Finding waived_in_part(const Row& row) {
  Finding finding;
  classify(finding, Code::not_measured);
  finding.key = row.key;
  finding.judgement = Judgement::crosscheck;
  finding.status = Status::missing;
  finding.detail =
      "repetition " + std::to_string(row.repetition) + " was waived, but another was measured: " + *row.waived;
  return finding;
}

}  // namespace

std::vector<Finding> judge_validity(const Benchmarks& benchmarks, const Profile* profile, const FamilySet& families) {
  const double pcie = pcie_gb_per_s(benchmarks).value_or(0);
  std::vector<Finding> findings;
  for (const auto& [key, benchmark] : benchmarks) {
    if (!families.contains(key.family()) || benchmark.error() != nullptr || benchmark.waiver() != nullptr) continue;
    std::optional<Finding> finding;
    int asked = 1;
    for (const Row* row : benchmark.rows) {
      asked = std::max(asked, row->repetitions);
      if (finding) continue;
      finding = row->waived ? waived_in_part(*row) : RowCheck(benchmark, *row, profile, pcie).run();
    }
    if (!finding && benchmark.rows.size() < static_cast<std::size_t>(asked)) {
      classify(finding.emplace(), Code::not_measured);
      finding->key = key;
      finding->status = Status::missing;
      finding->detail =
          std::to_string(benchmark.rows.size()) + " of " + std::to_string(asked) + " repetitions are present";
    }
    if (!finding) continue;
    finding->next = measure_command(key, benchmark.context->world_size);
    findings.push_back(std::move(*finding));
  }
  return findings;
}

}  // namespace shakedown
