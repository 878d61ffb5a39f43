#include "thresholds/rules/silicon.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "thresholds/findings/rank_telemetry.hpp"
#include "thresholds/rules/strict_yaml.hpp"

namespace shakedown {
namespace {

/// Relative change of the clock at the power limit for each degree, because leakage grows with heat. Regression with
/// fixed effects of GPUs over ten products of 18 GPUs in 101 launches: -0.016 to -0.048 % (ci/baselines, 2026-11).
constexpr double clock_per_degree = -0.00025;
/// The medians of 18 healthy GPUs differed by at most 0.25 % from others in 101 launches, and single products by at
/// most 0.7 % (ci/baselines, 2026-11). The limits leave room for other drivers.
constexpr double least_work = -0.015, least_work_of_each_row = -0.0075;
constexpr double clock_deviations = 3;
/// A clock this far below that of the stored GPUs needs an explanation, even if the stored GPUs differ less.
constexpr double least_clock_shortfall = -0.03;
constexpr std::size_t least_rows = 3;
constexpr int least_gpus = 3;

/// Returns "+0.4" without a unit, and never "-0.0".
std::string signed_percent(double fraction) { return fmt::format("{:+.1f}", std::round(1000 * fraction) / 10 + 0.0); }

std::string percent(double fraction) { return signed_percent(fraction) + " %"; }

/// Returns the GEMM rows in bursts. A sustained load is left out: its clock is a mean over changes of the clock, and
/// its work per clock scatters by up to 2 %.
bool is_burst_of_gemm(const Benchmark& benchmark) {
  return benchmark.key.family() == "gemm" && benchmark.key.part("load").empty() &&
         benchmark.context->backend == Backend::cuda && benchmark.error() == nullptr && benchmark.waiver() == nullptr;
}

struct RankFigures {
  double tile, tflops, sm_mhz, temperature_c;
};

std::optional<double> value_at(const RankValues& values, std::size_t rank) {
  return rank < values.size() ? values.at(rank) : std::nullopt;
}

class Columns {
 public:
  explicit Columns(const Benchmark& benchmark)
      : tile_(rank_values(benchmark, "tile")),
        tflops_(rank_values(benchmark, "tflops")),
        mhz_(rank_values(benchmark, "sm_mhz")),
        heat_(rank_values(benchmark, "temperature_c")) {}

  std::optional<RankFigures> of(std::size_t rank) const {
    const auto tile = value_at(tile_, rank), tflops = value_at(tflops_, rank), mhz = value_at(mhz_, rank);
    const auto heat = value_at(heat_, rank);
    if (!tile || !tflops || !mhz || !heat || !(*mhz > 0) || !(*tflops > 0)) return std::nullopt;
    return RankFigures{*tile, *tflops, *mhz, *heat};
  }

 private:
  RankValues tile_, tflops_, mhz_, heat_;
};

const SiliconRow* row_of(const Silicon& silicon, const Key& key, double tile) {
  const auto found = std::ranges::find_if(
      silicon.rows, [&](const SiliconRow& row) { return row.benchmark == key && row.tile == static_cast<int>(tile); });
  return found == silicon.rows.end() ? nullptr : &*found;
}

SiliconCause cause_of(const SiliconValue& value, const Silicon& silicon, const RankTelemetry& telemetry) {
  if (value.work < least_work && value.highest_work < least_work_of_each_row) return SiliconCause::less_work;
  const double lowest = std::min(least_clock_shortfall, -clock_deviations * silicon.clock_spread);
  if (!value.chip || *value.chip + value.heat >= lowest) return SiliconCause::none;
  if (telemetry.hot(value.rank)) return SiliconCause::heat;
  if (!telemetry.power_limited(value.rank)) return SiliconCause::setting;
  return *value.chip < lowest ? SiliconCause::slow_chip : SiliconCause::heat;
}

/// The differences of one GPU from the stored ones, a number for each product.
struct Differences {
  std::vector<double> tflops, work, chip, heat;
};

std::optional<SiliconValue> value_of(int rank, Differences of) {
  if (of.work.size() < least_rows) return std::nullopt;
  SiliconValue value;
  value.rank = rank;
  value.rows = of.work.size();
  value.highest_work = *std::ranges::max_element(of.work);
  value.tflops = median(std::move(of.tflops));
  value.work = median(std::move(of.work));
  if (!of.chip.empty()) {
    value.chip = median(std::move(of.chip));
    value.heat = median(std::move(of.heat));
  }
  return value;
}

/// Returns the range of a quantity: "-0.2 to +0.4 %", or "-0.2 %" of one GPU.
std::string range_text(const std::vector<SiliconValue>& values, const auto& of) {
  std::vector<double> all;
  for (const auto& value : values) {
    if (const std::optional<double> x = of(value)) all.push_back(*x);
  }
  if (all.empty()) return "unknown";
  const auto [low, high] = std::ranges::minmax(all);
  return all.size() == 1 ? percent(low) : signed_percent(low) + " to " + percent(high);
}

std::string why(SiliconCause cause, const SiliconValue& value, const Silicon& silicon) {
  const auto clock = percent(value.chip.value_or(0) + value.heat) + " clock against " +
                     plural(static_cast<std::size_t>(silicon.gpus), "stored GPU") + " (one standard deviation " +
                     fmt::format("{:.1f} %", 100 * silicon.clock_spread) + ")";
  switch (cause) {
    case SiliconCause::less_work:
      return percent(value.work) + " work per clock against " +
             plural(static_cast<std::size_t>(silicon.gpus), "stored GPU") + " of this model in " +
             plural(value.rows, "product") + ": it computes less than its clock allows";
    case SiliconCause::heat: return clock + ": the driver lowers it because of heat, or the GPU is hotter";
    case SiliconCause::setting: return clock + ": neither power nor heat limits it, so a setting does";
    case SiliconCause::slow_chip:
      return clock + " at the power limit: a slow chip, and not heat (" + percent(value.heat) + ")";
    case SiliconCause::none: break;
  }
  return clock;
}

std::string next_of(SiliconCause cause, const RankFacts& facts, int ranks) {
  if (cause == SiliconCause::less_work) return measure_command("gemm", ranks);
  return on_host(facts.host, "nvidia-smi -i " + gpu_in_command(facts) + " -q -d PERFORMANCE,CLOCK,POWER,TEMPERATURE");
}

Finding finding_of(SiliconCause cause, const std::vector<const SiliconValue*>& values, const Context& context,
                   const Silicon& silicon) {
  const auto facts = [&](const SiliconValue& value) { return context.ranks.at(static_cast<std::size_t>(value.rank)); };
  const auto amount = [&](const SiliconValue& value) {
    return cause == SiliconCause::less_work ? value.work : value.chip.value_or(0) + value.heat;
  };
  const SiliconValue& worst = **std::ranges::min_element(values, {}, [&](const auto* value) { return amount(*value); });
  Finding f;
  classify(f, Code::silicon, worst.rows);
  f.key = machine_key(Code::silicon).set("rank", worst.rank);
  f.metric = cause == SiliconCause::less_work ? "work_per_clock" : "clock";
  f.judgement = Judgement::crosscheck;
  f.part = gpu_part(facts(worst));
  f.value = 1 + amount(worst);
  f.limit = {LimitKind::min, 1 + (cause == SiliconCause::less_work
                                      ? least_work
                                      : std::min(least_clock_shortfall, -clock_deviations * silicon.clock_spread))};
  f.worst = culprit(facts(worst), *f.value);
  std::vector<Culprit> offenders;
  for (const auto* value : values) offenders.push_back(culprit(facts(*value), 1 + amount(*value)));
  std::ranges::sort(offenders, {}, [](const Culprit& c) { return *c.value; });
  name_offenders(f, std::move(offenders));
  f.source = silicon.source;
  set(f, Status::fail, why(cause, worst, silicon), next_of(cause, facts(worst), context.world_size));
  if (cause != SiliconCause::less_work) f.severity = Severity::warn;
  return f;
}

const Context* context_of_gemm(const Measured& measured) {
  for (const auto& [key, benchmark] : measured.benchmarks) {
    if (is_burst_of_gemm(benchmark)) return benchmark.context;
  }
  return nullptr;
}

std::string version_of(const Context& context) {
  const auto found = context.versions.find("cublaslt");
  return found == context.versions.end() ? "" : found->second.value_or("");
}

}  // namespace

std::vector<SiliconValue> compare_silicon(const Measured& measured, const Silicon& silicon) {
  const Context* context = context_of_gemm(measured);
  if (context == nullptr || version_of(*context) != silicon.cublaslt) return {};
  std::map<int, Differences> by_rank;
  for (const auto& [key, benchmark] : measured.benchmarks) {
    if (!is_burst_of_gemm(benchmark)) continue;
    const Columns columns(benchmark);
    for (const RankFacts& facts : benchmark.context->ranks) {
      const auto figures = columns.of(static_cast<std::size_t>(facts.rank));
      const auto* row = figures ? row_of(silicon, key, figures->tile) : nullptr;
      if (row == nullptr) continue;
      Differences& of = by_rank[facts.rank];
      of.tflops.push_back(figures->tflops / (row->tflops_per_ghz * row->sm_mhz * 1e-3) - 1);
      of.work.push_back(figures->tflops / (row->tflops_per_ghz * figures->sm_mhz * 1e-3) - 1);
      if (!row->is_power_limited(facts.sm_mhz_max.value_or(0))) continue;
      of.heat.push_back(clock_per_degree * (figures->temperature_c - row->temperature_c));
      of.chip.push_back(figures->sm_mhz / row->sm_mhz - 1 - of.heat.back());
    }
  }
  const RankTelemetry telemetry(measured.benchmarks);
  std::vector<SiliconValue> values;
  for (auto& [rank, differences] : by_rank) {
    auto value = value_of(rank, std::move(differences));
    if (!value) continue;
    value->cause = cause_of(*value, silicon, telemetry);
    values.push_back(*value);
  }
  return values;
}

SiliconJudgement judge_silicon(const Measured& measured, const Silicon& silicon) {
  const auto values = compare_silicon(measured, silicon);
  if (values.empty()) return {};
  const Context& context = *context_of_gemm(measured);
  SiliconJudgement out;
  out.summary = "work per clock " + range_text(values, [](const auto& v) { return std::optional(v.work); }) + " of " +
                plural(static_cast<std::size_t>(silicon.gpus), "stored GPU") + ", clock at the power limit " +
                range_text(values, [](const auto& v) { return v.chip ? std::optional(*v.chip + v.heat) : v.chip; });
  std::map<SiliconCause, std::vector<const SiliconValue*>> by_cause;
  for (const auto& value : values) {
    if (value.cause == SiliconCause::none) continue;
    if (value.cause == SiliconCause::less_work) {
      out.findings.push_back(finding_of(value.cause, {&value}, context, silicon));
    } else {
      by_cause[value.cause].push_back(&value);
    }
  }
  for (const auto& [cause, some] : by_cause) out.findings.push_back(finding_of(cause, some, context, silicon));
  return out;
}

Silicon fit_silicon(const std::vector<const Results*>& launches) {
  struct OfGpu {
    std::vector<double> per_ghz, mhz, heat;
  };
  std::map<std::pair<Key, int>, std::map<std::string, OfGpu>> rows;
  std::set<std::string> gpus;
  Silicon silicon;
  double sm_mhz_max = 0;
  for (const Results* launch : launches) {
    const Measured measured({*launch});
    for (const auto& [key, benchmark] : measured.benchmarks) {
      if (!is_burst_of_gemm(benchmark)) continue;
      silicon.cublaslt = version_of(*benchmark.context);
      const Columns columns(benchmark);
      for (const RankFacts& facts : benchmark.context->ranks) {
        const auto figures = columns.of(static_cast<std::size_t>(facts.rank));
        if (!figures || !facts.uuid) continue;
        sm_mhz_max = std::max(sm_mhz_max, facts.sm_mhz_max.value_or(0));
        OfGpu& of = rows[{key, static_cast<int>(figures->tile)}][*facts.uuid];
        of.per_ghz.push_back(figures->tflops / figures->sm_mhz * 1e3);
        of.mhz.push_back(figures->sm_mhz);
        of.heat.push_back(figures->temperature_c);
        gpus.insert(*facts.uuid);
      }
    }
  }
  silicon.gpus = static_cast<int>(gpus.size());
  std::map<std::string, std::vector<double>> clocks;  // by GPU: its clock in each product
  for (const auto& [at, by_gpu] : rows) {
    if (by_gpu.size() < least_gpus) continue;
    std::vector<double> per_ghz, mhz, heat;
    for (const auto& [gpu, of] : by_gpu) {
      per_ghz.push_back(median(of.per_ghz));
      mhz.push_back(median(of.mhz));
      heat.push_back(median(of.heat));
    }
    silicon.rows.push_back({at.first, at.second, median(per_ghz), median(mhz), median(heat)});
    const SiliconRow& row = silicon.rows.back();
    if (!row.is_power_limited(sm_mhz_max)) continue;
    for (const auto& [gpu, of] : by_gpu) {
      const double by_heat = clock_per_degree * (median(of.heat) - row.temperature_c);
      clocks[gpu].push_back(median(of.mhz) / row.sm_mhz - by_heat);
    }
  }
  if (silicon.rows.empty()) throw InputError("no product was measured by three GPUs; name more launches");
  std::vector<double> chips;
  for (auto& [gpu, values] : clocks) chips.push_back(median(std::move(values)));
  silicon.clock_spread = coefficient_of_variation(chips);
  return silicon;
}

Silicon read_silicon(const Yaml& yaml) {
  const Members members = yaml.members({"cublaslt", "gpus", "clock_spread", "rows", "source"});
  const auto get = [&](const char* name) -> const Yaml& { return required(members, name, yaml, "silicon"); };
  Silicon silicon{.cublaslt = get("cublaslt").text(),
                  .gpus = get("gpus").integer(),
                  .clock_spread = get("clock_spread").number(),
                  .rows = {},
                  .source = get("source").text()};
  if (silicon.gpus < least_gpus) get("gpus").refuse("at least 3 GPUs are needed; store launches of more");
  if (!(silicon.clock_spread > 0)) get("clock_spread").refuse("clock_spread must be above 0; correct it");
  for (const Yaml& item : get("rows").items()) {
    const Members row = item.members({"benchmark", "tile", "tflops_per_ghz", "sm_mhz", "temperature_c"});
    const auto positive = [&](const char* name) {
      const Yaml& value = required(row, name, item);
      if (!(value.number() > 0)) value.refuse(std::string(name) + " must be above 0; correct it");
      return value.number();
    };
    silicon.rows.push_back({Key(required(row, "benchmark", item).text()), required(row, "tile", item).integer(),
                            positive("tflops_per_ghz"), positive("sm_mhz"), positive("temperature_c")});
  }
  if (silicon.rows.empty()) get("rows").refuse("no rows; leave the section out, or add rows");
  return silicon;
}

}  // namespace shakedown
