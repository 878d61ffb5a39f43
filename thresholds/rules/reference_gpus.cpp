#include "thresholds/rules/reference_gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "thresholds/findings/rank_telemetry.hpp"
#include "thresholds/rules/strict_yaml.hpp"

namespace shakedown {
namespace {

/// Relative change of the clock at the power limit for each degree, because leakage grows with heat. Regression with
/// fixed effects of GPUs over ten products of 18 GPUs: -0.016 to -0.048 % (ci/baselines, 2026-11).
constexpr double clock_per_degree = -0.00025;
/// Work per clock below these limits is a warning and a failure. The medians of 18 healthy GPUs differed by at most
/// 0.43 % from others, in 101 measurements with one driver (ci/baselines, 2026-11); peers in large fleets may differ by
/// more (docs/statistics.md). Each product must be lower by half of the limit.
constexpr double warn_work = -0.015, fail_work = -0.03;
/// The probability that any chip of a healthy run has a clock below the limit. A clock down to 3 % below is always
/// good.
constexpr double slow_chip_alpha = 0.01, good_clock = -0.03;
constexpr std::size_t min_products = 3;
constexpr int min_gpus = 3;

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * std::abs(fraction)); }

/// Returns "-0.2 to +0.4 %", or "-0.2 %" for one value; never "-0.0".
std::string range_text(const std::vector<GpuComparison>& gpus, const auto& of) {
  const auto text = [](double x) { return fmt::format("{:+.1f}", std::round(1000 * x) / 10 + 0.0); };
  double low = of(gpus.front()), high = low;
  for (const auto& gpu : gpus) {
    low = std::min(low, of(gpu));
    high = std::max(high, of(gpu));
  }
  return (gpus.size() == 1 ? text(low) : text(low) + " to " + text(high)) + " %";
}

bool is_product(const Benchmark& benchmark) {
  return benchmark.key.family() == "gemm" && benchmark.context->backend == Backend::cuda &&
         benchmark.error() == nullptr && benchmark.waiver() == nullptr;
}

std::optional<double> value_at(const RankValues& values, std::size_t rank) {
  return rank < values.size() ? std::optional<double>(values.at(rank)) : std::nullopt;
}

/// Returns the tile of a rank; nullopt if it is unknown, or differs between repetitions.
std::optional<int> tile_of(const Benchmark& benchmark, std::size_t rank) {
  std::optional<int> tile;
  for (const Row* row : benchmark.rows) {
    const auto found = row->by_rank.find("tile");
    if (found == row->by_rank.end() || rank >= found->second.size()) return std::nullopt;
    const std::optional<double> value = found->second.at(rank);
    if (!value || *value < 0 || *value > 10'000) return std::nullopt;
    if (tile && *tile != static_cast<int>(*value)) return std::nullopt;
    tile = static_cast<int>(*value);
  }
  return tile;
}

class Comparer {
 public:
  Comparer(const Measured& measured, const ReferenceGpus& reference)
      : reference_(reference), telemetry_(measured.benchmarks) {
    for (const auto& [key, benchmark] : measured.benchmarks) {
      if (!is_product(benchmark)) continue;
      if (context_ == nullptr || benchmark.context->world_size > context_->world_size) context_ = benchmark.context;
    }
    if (context_ == nullptr) return;
    for (const auto& [key, benchmark] : measured.benchmarks) {
      if (is_product(benchmark) && benchmark.context->ranks.size() == context_->ranks.size()) read(benchmark);
    }
    const auto facts = measured.benchmarks.find(std::string_view("preflight/of:software"));
    if (facts != measured.benchmarks.end()) versions_ = rank_texts(facts->second, "cublaslt");
  }

  ReferenceJudgement run() {
    ReferenceJudgement out;
    if (context_ == nullptr) return out;
    for (std::size_t rank = 0; rank < context_->ranks.size(); ++rank) {
      if (auto gpu = compared(rank)) out.gpus.push_back(std::move(*gpu));
    }
    const double lowest = lowest_clock(out.gpus.size());
    std::map<SlowerBy, std::vector<const GpuComparison*>> by_cause;
    for (auto& gpu : out.gpus) {
      gpu.cause = cause_of(gpu, lowest);
      if (gpu.cause == SlowerBy::less_work) out.findings.push_back(finding_of(gpu.cause, {&gpu}, lowest));
      if (gpu.cause > SlowerBy::less_work) by_cause[gpu.cause].push_back(&gpu);
    }
    for (const auto& [cause, some] : by_cause) out.findings.push_back(finding_of(cause, some, lowest));
    out.summary = summary(out.gpus);
    return out;
  }

 private:
  /// The differences of one GPU from the stored ones, a number for each product.
  struct Differences {
    std::vector<double> tflops, work, chip, heat;
  };

  void read(const Benchmark& benchmark) {
    const auto is_stored = [&](const ReferenceProduct& of) { return of.benchmark == benchmark.key; };
    if (std::ranges::none_of(reference_.products, is_stored)) return;
    const auto tflops = rank_values(benchmark, "tflops"), clock = rank_values(benchmark, "sm_mhz");
    const auto temperature = rank_values(benchmark, "temperature_c");
    for (std::size_t rank = 0; rank < context_->ranks.size(); ++rank) {
      const auto tile = tile_of(benchmark, rank);
      const auto product = std::ranges::find_if(
          reference_.products, [&](const ReferenceProduct& of) { return is_stored(of) && tile && of.tile == *tile; });
      const auto rate = value_at(tflops, rank), mhz = value_at(clock, rank), heat = value_at(temperature, rank);
      if (product == reference_.products.end() || !rate || !mhz || !heat || !(*mhz > 0)) continue;
      const double work = *rate * 1e6 / (product->flop_per_cycle * *mhz);
      Differences& of = by_rank_[rank];
      of.tflops.push_back(work * *mhz / product->sm_mhz - 1);
      of.work.push_back(work - 1);
      of.heat.push_back(clock_per_degree * (*heat - product->temperature_c));
      of.chip.push_back(*mhz / product->sm_mhz - 1 - of.heat.back());
    }
  }

  bool has_version(std::size_t rank) const {
    if (rank < versions_.size() && versions_[rank]) return *versions_[rank] == reference_.cublaslt;
    const auto found = context_->versions.find("cublaslt");
    return found != context_->versions.end() && found->second == reference_.cublaslt;
  }

  std::optional<GpuComparison> compared(std::size_t rank) {
    auto& of = by_rank_[rank];
    if (of.work.size() < min_products || !has_version(rank)) return std::nullopt;
    GpuComparison gpu;
    gpu.gpu = culprit(context_->ranks[rank]);
    gpu.products = of.work.size();
    gpu.highest_work = *std::ranges::max_element(of.work);
    gpu.tflops = median(std::move(of.tflops));
    gpu.work = median(std::move(of.work));
    gpu.chip = median(std::move(of.chip));
    gpu.heat = median(std::move(of.heat));
    return gpu;
  }

  /// Returns the lowest clock of `gpus` healthy chips: a prediction interval from the clocks of the stored ones
  /// (Student's t, Bonferroni).
  double lowest_clock(std::size_t gpus) const {
    const double n = reference_.gpus;
    const double t = student_of_normal(bonferroni_z(gpus, slow_chip_alpha), n - 1);
    return std::min(good_clock, -t * reference_.clock_spread * std::sqrt(1 + 1 / n));
  }

  SlowerBy cause_of(const GpuComparison& gpu, double lowest) const {
    if (gpu.work < warn_work && gpu.highest_work < warn_work / 2) return SlowerBy::less_work;
    if (gpu.chip + gpu.heat >= lowest) return SlowerBy::nothing;
    const int rank = *gpu.gpu.rank;
    const auto& limit = context_->ranks[static_cast<std::size_t>(rank)].power_limit_w;
    if (limit && *limit < reference_.power_limit_w) return SlowerBy::power_limit;
    if (telemetry_.hot(rank)) return SlowerBy::heat;
    if (telemetry_.held_back(rank)) return SlowerBy::power_supply;
    if (!telemetry_.power_limited(rank)) return SlowerBy::unexplained;
    return gpu.chip < lowest ? SlowerBy::slow_chip : SlowerBy::heat;
  }

  std::string why(SlowerBy cause, const GpuComparison& gpu) const {
    const std::string than = " than the median of " + std::to_string(reference_.gpus) + " stored GPUs";
    if (cause == SlowerBy::less_work) {
      return percent(gpu.work) + " less work per clock" + than + ", in " + plural(gpu.products, "product") +
             ": it computes less than its clock allows";
    }
    const std::string clock = percent(gpu.chip + gpu.heat) + " lower clock" + than;
    const auto& limit = context_->ranks[static_cast<std::size_t>(*gpu.gpu.rank)].power_limit_w;
    switch (cause) {
      case SlowerBy::power_limit:
        return clock + fmt::format(": its power limit is {:.0f} W, theirs {:.0f} W", limit.value_or(0),
                                   reference_.power_limit_w);
      case SlowerBy::heat: return clock + ": heat lowers it";
      case SlowerBy::power_supply: return clock + ": the power supply lowers it";
      case SlowerBy::slow_chip: return clock + " at the power limit: a slow chip (" + percent(gpu.heat) + " by heat)";
      default: return clock + ", for which the driver gives no reason, such as power or heat";
    }
  }

  Finding finding_of(SlowerBy cause, std::vector<const GpuComparison*> gpus, double lowest) const {
    const bool is_work = cause == SlowerBy::less_work;
    const auto amount = [&](const GpuComparison* gpu) { return is_work ? gpu->work : gpu->chip + gpu->heat; };
    std::ranges::sort(gpus, {}, amount);
    const GpuComparison& worst = *gpus.front();
    const RankFacts& facts = context_->ranks[static_cast<std::size_t>(*worst.gpu.rank)];
    const bool fails = is_work && worst.work < fail_work && worst.highest_work < fail_work / 2;
    Finding f;
    classify(f, Code::reference_gpus, worst.products);
    f.key = machine_key(Code::reference_gpus).set("rank", facts.rank);
    f.metric = is_work ? "work_per_clock" : "clock";
    f.judgement = Judgement::crosscheck;
    f.part = gpu_part(facts);
    f.value = 1 + amount(&worst);
    f.limit = {LimitKind::min, 1 + (!is_work ? lowest : fails ? fail_work : warn_work)};
    f.worst = culprit(facts, *f.value);
    std::vector<Culprit> offenders;
    for (const auto* gpu : gpus) {
      offenders.push_back(gpu->gpu);
      offenders.back().value = 1 + amount(gpu);
    }
    name_offenders(f, std::move(offenders));
    f.source = reference_.source;
    set(f, Status::fail, why(cause, worst),
        is_work ? measure_command("gemm", context_->world_size)
                : on_host(facts.host, "nvidia-smi -i " + gpu_in_command(facts) + " -q -d PERFORMANCE,CLOCK,POWER"));
    if (!fails) f.severity = Severity::warn;
    return f;
  }

  std::string summary(const std::vector<GpuComparison>& gpus) const {
    const std::string stored = std::to_string(reference_.gpus) + " stored GPUs";
    const std::string out = plural(context_->ranks.size() - gpus.size(), "GPU") + " not compared with " + stored +
                            ": fewer than " + std::to_string(min_products) + " products by the kernels of cuBLASLt " +
                            reference_.cublaslt;
    if (gpus.empty()) return out;
    const std::string in = "work per clock " + range_text(gpus, [](const auto& of) { return of.work; }) + " against " +
                           stored + ", clock at the power limit " +
                           range_text(gpus, [](const auto& of) { return of.chip + of.heat; });
    return gpus.size() == context_->ranks.size() ? in : in + "; " + out;
  }

  const ReferenceGpus& reference_;
  const RankTelemetry telemetry_;
  const Context* context_ = nullptr;  // of the products with the most ranks
  std::map<std::size_t, Differences> by_rank_;
  std::vector<std::optional<std::string>> versions_;  // of cuBLASLt, by rank, as pre-flight read them
};

}  // namespace

ReferenceJudgement judge_by_reference_gpus(const Measured& measured, const ReferenceGpus& reference) {
  return Comparer(measured, reference).run();
}

ReferenceGpus read_reference_gpus(const Yaml& yaml) {
  const Members members = yaml.members({"cublaslt", "power_limit_w", "gpus", "clock_spread", "products", "source"});
  const auto get = [&](const char* name) -> const Yaml& { return required(members, name, yaml, "reference_gpus"); };
  const auto positive = [](const Yaml& value, const char* name) {
    if (!(value.number() > 0)) value.refuse(std::string(name) + " must be above 0; correct it");
    return value.number();
  };
  ReferenceGpus reference;
  reference.cublaslt = get("cublaslt").text();
  reference.power_limit_w = positive(get("power_limit_w"), "power_limit_w");
  reference.gpus = get("gpus").integer();
  if (reference.gpus < min_gpus) get("gpus").refuse("at least 3 GPUs are needed; store launches of more");
  reference.clock_spread = positive(get("clock_spread"), "clock_spread");
  reference.source = get("source").text();
  for (const Yaml& item : get("products").items()) {
    const Members row = item.members({"benchmark", "tile", "flop_per_cycle", "sm_mhz", "temperature_c"});
    const auto number = [&](const char* name) { return positive(required(row, name, item), name); };
    reference.products.push_back({Key(required(row, "benchmark", item).text()), required(row, "tile", item).integer(),
                                  number("flop_per_cycle"), number("sm_mhz"), number("temperature_c")});
  }
  if (reference.products.empty()) get("products").refuse("no products; leave the section out, or add products");
  return reference;
}

}  // namespace shakedown
