// Decides whether a figure can be true at all. A fault of the measurement, or a hand that wrote the file: the machine
// cannot be judged by it, whatever its limit says.
#include "thresholds/validity.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <set>

#include "thresholds/applicability.hpp"
#include "thresholds/machine.hpp"
#include "thresholds/metrics.hpp"
#include "thresholds/profile.hpp"

namespace shakedown {
namespace {

constexpr double rounding = 0.01;

// Of a rank's rate, clock and rate per clock, which are medians and means of the same samples: up to 3.3 % in the
// stored launches.
constexpr double clock_tolerance = 0.1;

// GB/s of one PCIe lane each way by generation, after its encoding (PCI-SIG).
constexpr std::array<double, 7> lane_gb_per_s{0, 0.25, 0.5, 0.985, 1.969, 3.938, 7.563};

// Of a figure that the catalogue does not have: what ends in a unit was timed or counted and is above zero.
ValueRange range_of(const std::string& key, const std::string& metric) {
  if (family_of(key) == "preflight") return ValueRange::not_negative;
  if (const Metric* row = find_metric(key, metric)) return row->range;
  return unit_of(metric).empty() ? ValueRange::any : ValueRange::positive;
}

// Grace reaches its GPUs by NVLink-C2C, whatever PCIe link they have besides.
bool is_grace(const RankFacts& rank) {
  return rank.device.rfind("NVIDIA GH", 0) == 0 || rank.device.rfind("NVIDIA GB", 0) == 0;
}

// What the widest PCIe link of the run's GPUs carries each way, where pre-flight read it.
std::optional<double> pcie_gb_per_s(const Benchmarks& benchmarks) {
  const auto gpu = benchmarks.find("preflight/of:gpu");
  if (gpu == benchmarks.end() ||
      std::any_of(gpu->second.context->ranks.begin(), gpu->second.context->ranks.end(), is_grace))
    return std::nullopt;
  const auto gen = largest_value(gpu->second, "pcie_gen_max"), width = largest_value(gpu->second, "pcie_width_max");
  if (!gen || !width || !(*gen >= 1 && *gen < lane_gb_per_s.size())) return std::nullopt;
  return lane_gb_per_s[static_cast<std::size_t>(*gen)] * *width;
}

class RowCheck {
 public:
  RowCheck(const Benchmark& benchmark, const Row& row, const Profile* profile, std::optional<double> pcie)
      : context_(*benchmark.context), row_(row), family_(family_of(row.key)), profile_(profile), pcie_(pcie) {
    finding_.key = row.key;
    finding_.judgement = Judgement::crosscheck;
    finding_.next = measure_command(row.key, context_.world_size);
  }

  /// What is wrong first.
  std::optional<Finding> run() {
    if (!(row_.iterations >= 1) || !std::isfinite(row_.iterations))
      refuse("iterations", row_.iterations, "none were timed");
    if (!(row_.real_time > 0) || !std::isfinite(row_.real_time))
      refuse("real_time", row_.real_time, "no time can be that");
    for (const auto& [metric, value] : row_.metrics) check(metric, value, std::nullopt);
    for (const auto& [metric, values] : row_.by_rank) {
      for (std::size_t rank = 0; rank < values.size(); ++rank) {
        if (values[rank]) check(metric, *values[rank], static_cast<int>(rank));
      }
    }
    for (const Metric& metric : metrics()) {
      if (metric.of_slowest && find_metric(row_.key, metric.name) == &metric) {
        compare_with_ranks(std::string(metric.name));
      }
    }
    compare_with_times();
    compare_with_clock();
    compare_tokens();
    return wrong_ ? std::optional(finding_) : std::nullopt;
  }

 private:
  void refuse(const std::string& metric, double value, const std::string& why, std::optional<int> rank = {}) {
    if (wrong_) return;
    wrong_ = true;
    finding_.metric = metric;
    finding_.status = Status::invalid;
    finding_.value = value;
    finding_.unit = unit_of(metric);
    finding_.detail = why;
    if (rank) finding_.worst = culprit(context_.ranks[static_cast<std::size_t>(*rank)], value);
  }

  void check(const std::string& metric, double value, std::optional<int> rank) {
    if (!std::isfinite(value)) return refuse(metric, value, "not a finite number", rank);
    const ValueRange range = range_of(row_.key, metric);
    if (range == ValueRange::positive && !(value > 0)) {
      return refuse(metric, value, number_text(value) + ": must be above zero", rank);
    }
    if (range == ValueRange::not_negative && value < 0) {
      return refuse(metric, value, number_text(value) + ": cannot be below zero", rank);
    }
    if (metric == "latency_us" && context_.backend == "cuda" && value < least_latency_us) {
      return refuse(metric, value, "faster than any GPU answers: at least " + number_text(least_latency_us) + " us",
                    rank);
    }
    const auto bound = ceiling_of(metric, rank);
    if (!bound || value <= *bound * ceiling_allowance) return;
    refuse(metric, value, "above what physics allows: the measurement is wrong, not the machine fast", rank);
    finding_.limit = bound;
    finding_.limit_name = "ceiling";
  }

  std::optional<double> ceiling_of(const std::string& metric, std::optional<int> rank) const {
    if (family_ == "pcie" && metric == "copy_gb_per_s" && pcie_)
      return (key_part(row_.key, "op") == "both" ? 2 : 1) * *pcie_;
    if (metric == "capacity_gb" && rank) {
      const auto& bytes = context_.ranks[static_cast<std::size_t>(*rank)].memory_bytes;
      return bytes ? std::optional(static_cast<double>(*bytes) * 1e-9) : std::nullopt;
    }
    return profile_ == nullptr ? std::nullopt : ceiling(profile_->peak, row_.key, metric, scale_of(context_));
  }

  std::optional<double> run_value(const std::string& metric) const {
    const auto found = row_.metrics.find(metric);
    return found == row_.metrics.end() ? std::nullopt : std::optional(found->second);
  }

  /// The value of the rank that a run waits for.
  std::optional<double> slowest(const std::string& metric, bool high_is_slow) const {
    std::optional<double> worst;
    const auto found = row_.by_rank.find(metric);
    if (found == row_.by_rank.end()) return worst;
    for (const auto& value : found->second) {
      if (value && (!worst || (high_is_slow ? *value > *worst : *value < *worst))) worst = value;
    }
    return worst;
  }

  void compare_with_ranks(const std::string& metric) {
    const bool high_is_slow = lower_is_better(metric);
    const auto ranks = slowest(metric, high_is_slow), run = run_value(metric);
    if (!ranks || wrong_) return;
    if (!run) return refuse(metric, 0, "the ranks have values, the run has none");
    const double slower = high_is_slow ? *run / *ranks : *ranks / *run;
    agree(metric, slower, *run, "the slowest rank has " + number_text(*ranks) + " " + unit_of(metric));
  }

  // `slower`: how many times slower the run is than its slowest rank.
  void agree(const std::string& metric, double slower, double run, const std::string& other) {
    const double most = context_.backend == "cuda" ? agreement_factor : HUGE_VAL;
    if (slower >= 1 - rounding && slower <= most) return;
    refuse(metric, run, "the run has " + number_text(run) + ", " + other);
  }

  // Of what ranks do together the time of the run is one operation, as each rank's seconds are.
  void compare_with_times() {
    const std::string metric = family_ == "lora_step" ? "step_ms" : "latency_us";
    const auto seconds = slowest("seconds", true), run = run_value(metric);
    if (!seconds || !run || !(is_collective(family_) || family_ == "lora_step")) return;
    const double scale = metric == "step_ms" ? 1e3 : 1e6;
    agree(metric, *run / (*seconds * scale), *run,
          "the slowest rank took " + number_text(*seconds * scale) + " " + unit_of(metric));
  }

  void compare_with_clock() {
    const auto rate = row_.by_rank.find("tflops"), per_ghz = row_.by_rank.find("tflops_per_ghz"),
               clock = row_.by_rank.find("sm_mhz");
    if (rate == row_.by_rank.end() || per_ghz == row_.by_rank.end() || clock == row_.by_rank.end()) return;
    for (std::size_t rank = 0; rank < rate->second.size(); ++rank) {
      const auto &a = rate->second[rank], &b = per_ghz->second[rank], &c = clock->second[rank];
      if (!a || !b || !c || std::abs(*a / (*b * *c * 1e-3) - 1) <= clock_tolerance) continue;
      refuse("tflops_per_ghz", *b, "contradicts " + number_text(*a) + " TFLOPS at " + number_text(*c) + " MHz",
             static_cast<int>(rank));
    }
  }

  void compare_tokens() {
    const auto rate = run_value("tokens_per_s"), step = run_value("step_ms"), total = run_value("tokens_per_s_total");
    const auto part = [&](const char* name) { return std::atof(std::string(key_part(row_.key, name)).c_str()); };
    const double tokens = part("batch") * part("seq") * std::max(part("accumulation"), 1.0);
    const auto equal = [](double a, double b) { return std::abs(a / b - 1) <= rounding; };
    if (rate && step && tokens > 0 && !equal(*rate * *step * 1e-3, tokens)) {
      refuse("tokens_per_s", *rate,
             "contradicts a step of " + number_text(tokens) + " tokens in " + number_text(*step) + " ms");
    }
    if (rate && total && !equal(*total, *rate * context_.world_size)) {
      refuse("tokens_per_s_total", *total, "contradicts " + number_text(*rate) + " tokens/s of each rank");
    }
  }

  const Context& context_;
  const Row& row_;
  std::string family_;
  const Profile* profile_;
  std::optional<double> pcie_;
  Finding finding_;
  bool wrong_ = false;
};

}  // namespace

std::vector<Finding> judge_validity(const Benchmarks& benchmarks, const Profile* profile,
                                    const std::optional<std::string>& family, const std::vector<Finding>& judged) {
  std::set<std::string> known;
  for (const Finding& finding : judged) {
    if (finding.status == Status::invalid) known.insert(finding.key);
  }
  const auto pcie = pcie_gb_per_s(benchmarks);
  std::vector<Finding> findings;
  for (const auto& [key, benchmark] : benchmarks) {
    if ((family && *family != family_of(key)) || known.contains(key) || benchmark.error() != nullptr ||
        benchmark.waiver() != nullptr)
      continue;
    std::optional<Finding> finding;
    int asked = 1;
    for (const Row* row : benchmark.rows) {
      asked = std::max(asked, row->repetitions);
      if (!finding) finding = RowCheck(benchmark, *row, profile, pcie).run();
    }
    if (!finding && benchmark.rows.size() < static_cast<std::size_t>(asked)) {
      finding.emplace();
      finding->key = key;
      finding->status = Status::missing;
      finding->detail =
          std::to_string(benchmark.rows.size()) + " of " + std::to_string(asked) + " repetitions are there";
      finding->next = measure_command(key, benchmark.context->world_size);
    }
    if (finding) findings.push_back(std::move(*finding));
  }
  return findings;
}

}  // namespace shakedown
