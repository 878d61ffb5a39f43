// The catalogue of metrics: one row has all properties of a metric that judges need. A metric without a row and without
// a unit cannot be judged, and a profile with it is refused. Pure.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/key.hpp"

namespace shakedown {

/// Rows with at least this number of samples have a cv.
inline constexpr std::size_t samples_for_cv = 5;

/// The variation of healthy devices of one kind. It must be known before a run, because a few ranks cannot show their
/// own spread.
struct PeerClass {
  double spread, row;    // relative standard deviations: between devices over all rows, and of one value
  double effect;         // a single value with a smaller shortfall is never an outlier
  double class_effect;   // the same for several rows or repetitions that agree
  bool clocked = false;  // depends on the clock that power and cooling allow
};

/// Peaks of a kind of machine from its profile: "bf16_tflops", "hbm_gb_per_s", "nics", "nic_gbit".
using Peaks = std::map<std::string, double>;

/// Where a benchmark ran. nvls: NVSwitches may have reduced data; true if unknown. 0: unknown.
struct Scale {
  int ranks = 1, hosts = 1;
  bool nvls = true;
  double sm_mhz_max = 0, power_limit_w = 0, memory_gb = 0;  // of the GPU
  double pcie_gb_per_s = 0;                                 // of its link to the host, per direction
  double tested_gb = 0;                                     // of its memory, as this row reports
};

/// A model of a training step; for the LoRA step with adapters of rank 64 on all seven projections.
struct Model {
  std::string_view family, name;
  double flops_per_token;  // of the step, at the sequence length that it is measured with (token_flops of
                           // kernels/training); 0: only as the step counts them
  double trainable;        // parameters, reduced over ranks in f32
};
/// Returns the model of a key, by its family and part; nullptr if unknown.
const Model* find_model(const Key&);

/// The part of a GPU that a figure is about, or the CPU core that feeds it. gemm is normalised by the clock.
enum class Aspect { other, gemm, gemm_raw, memory, pcie, processor, collective };

/// A key part that a row of the catalogue requires, with any value if none is given. No name: nothing is required.
struct KeyPart {
  std::string_view name = "", value = "";
  bool is_in(const Key& key) const {
    const auto own = key.part(name);
    return name.empty() || (value.empty() ? !own.empty() : own == value);
  }
};

/// The range of possible values.
enum class ValueRange { positive, not_negative, any };

struct Metric {
  std::string_view family;  // "": all families; "*_step": all training steps
  KeyPart part = {};        // required part of the key
  std::string_view name;
  std::string_view what;  // short description
  Aspect aspect = Aspect::other;
  int headline = 0;  // priority as the figure of a row without a rule: the lowest above 0 is shown and compared
  ValueRange range = ValueRange::positive;
  bool shared = false;                            // common to all ranks, so it cannot be evidence against one
  bool of_slowest = false;                        // the value of the run is that of its slowest rank
  bool is_telemetry = false;                      // of the GPU during the samples; may be unknown
  std::optional<PeerClass> peers = std::nullopt;  // nullopt: not compared among ranks
  /// The physical limit of the metric; nullopt if the peaks do not define it.
  std::optional<double> (*ceiling)(const Peaks&, const Key& key, const Scale&) = nullptr;
  std::optional<double> least_scaling = std::nullopt;  // minimum share of a rank's rate when more ranks work
  /// For a rate: the rate times the seconds of one operation. For a time: the seconds in its unit (1e-6 for us). All
  /// figures of a row must therefore imply the same time.
  std::optional<double> (*work)(const Key& key, const Scale&) = nullptr;
  bool of_mean = false;  // a mean over the samples, as from Google Benchmark; other metrics are medians
  std::string_view harmless = "";  // why a plausible wrong value changes no verdict
  std::string_view may_lack = "";  // why a missing value is harmless

  bool is_of(std::string_view family_of_key) const;
};

std::span<const Metric> metrics();

/// Returns the row for a metric of a benchmark; nullptr if there is none.
const Metric* find_metric(const Key&, std::string_view name);

/// Returns how a metric of a benchmark is compared among peers; nullopt if it is not.
std::optional<PeerClass> peer_class(const Key&, std::string_view metric);

Aspect aspect_of(const Key&, std::string_view metric);

/// True for families in the catalogue. In other families any metric with a unit can be judged.
bool is_catalogued(std::string_view family);

std::optional<double> ceiling(const Peaks&, const Key&, std::string_view metric, const Scale&);

/// Returns the time of one operation that this value implies; nullopt if it implies none.
std::optional<double> implied_seconds(const Metric&, const Key&, double value, const Scale&);

/// True for GPU telemetry: sm_mhz, power_w, temperature_c, throttled, tflops_per_w, tflops_per_ghz.
bool is_telemetry(std::string_view metric);

/// True for figures that all ranks share: those of collectives, and the rate of a step in which all ranks wait for the
/// slowest. Such a figure is no evidence against a single rank.
bool is_shared(const Key&, std::string_view metric);

/// True for lora_step and train_step: whole training steps, timed one by one.
bool is_training(std::string_view family);

/// True if ranks wait for each other inside the benchmark, so its times do not show which rank is slow.
bool is_collective(std::string_view family);

/// Relative standard deviations of a metric on healthy machines: between launches, between days, and between machines
/// of one kind.
struct Spread {
  double launch = 0, day = 0, machine = 0;
};
Spread spread_of(const Key&, std::string_view metric);

/// Returns the unit from the last words of a metric: "TFLOPS" for tflops, "GB/s" for copy_gb_per_s; "" without a unit.
std::string unit_of(std::string_view metric);

/// True if lower values are better: times, counts of errors and similar.
bool lower_is_better(std::string_view metric);

/// Returns five significant digits without an exponent below a million: "793.2", "0.0008", "1073741824".
std::string number_text(double value);

/// The part by which launches on the same GPUs differ, since each chooses its algorithms: two stored launches
/// (ci/baselines/h200-sxm) have 507 and 521 TFLOPS per GHz in bf16.
inline constexpr double difference_of_launches = 0.027;

/// The tolerance above a ceiling before a value is invalid (rounding of clocks and data sheets).
inline constexpr double ceiling_allowance = 1.01;

}  // namespace shakedown
