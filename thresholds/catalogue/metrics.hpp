// The catalogue of metrics. A row has all properties of a metric that the judge needs. A metric that has no row and
// whose name has no unit cannot be judged, and a profile that uses it is rejected. The functions are pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/key.hpp"
#include "thresholds/catalogue/scale.hpp"

namespace shakedown {

/// A row with at least this number of samples has a cv.
inline constexpr std::size_t samples_for_cv = 5;

/// How much healthy devices of one kind differ. This spread must be known before a run, because a few ranks cannot show
/// their own spread.
struct PeerClass {
  double spread, row;    // relative standard deviations: of devices, over all rows, and of a single value
  double effect;         // a single value whose shortfall is smaller is never an outlier
  double class_effect;   // `effect` for several rows or repetitions that agree
  bool clocked = false;  // true: depends on the clock that power and cooling allow
};

/// A model of a training step. For the LoRA step, the model has adapters of rank 64 on all seven projections.
struct Model {
  std::string_view family, name;
  /// FLOPs per token of the step at its sequence length (token_flops of kernels/training); 0: only the step itself
  /// counts them.
  double flops_per_token;
  double trainable;  // number of parameters, whose gradients are reduced over ranks in f32
};
/// Returns the model that a key names; nullptr if it is unknown.
const Model* find_model(const Key&);

/// The part of a GPU that a figure describes, or the CPU core that feeds the GPU, or the host's path to the storage.
/// gemm is per GHz of the clock, gemm_raw is not.
enum class Aspect { other, gemm, gemm_raw, memory, pcie, processor, collective, storage };

/// A key part that a row of the catalogue requires. If `value` is empty, any value is accepted. If `name` is empty, no
/// part is required.
struct KeyPart {
  std::string_view name = "", value = "";
  bool is_in(const Key& key) const {
    const auto own = key.part(name);
    return name.empty() || (value.empty() ? !own.empty() : own == value);
  }
};

/// The range of values that are possible.
enum class ValueRange { positive, not_negative, any };

struct Metric {
  std::string_view family;  // "": all families; "*_step": all training steps
  KeyPart part = {};        // part that the key must have
  std::string_view name;
  std::string_view what;  // short description
  Aspect aspect = Aspect::other;
  /// If no rule names a figure of the row, the metric with the lowest headline above 0 is shown and compared.
  int headline = 0;
  ValueRange range = ValueRange::positive;
  /// True: all ranks share the value, so it cannot be evidence against one rank.
  bool shared = false;
  bool of_slowest = false;  // true: the value of the run is that of its slowest rank
  /// True: a sensor value of the GPU during the samples, which may be unknown.
  bool is_telemetry = false;
  std::optional<PeerClass> peers = std::nullopt;  // nullopt: ranks are not compared by it
  /// Returns the physical limit of the metric; nullopt if the peaks do not define it.
  std::optional<double> (*ceiling)(const Peaks&, const Key& key, const Scale&) = nullptr;
  /// Minimum fraction of a rank's rate that remains when more ranks work.
  std::optional<double> least_scaling = std::nullopt;
  /// For a rate, returns the rate times the seconds of one operation. For a time, returns the seconds in its unit (1e-6
  /// for us). With it, all figures of a row imply a time, and these times must agree.
  std::optional<double> (*work)(const Key& key, const Scale&) = nullptr;
  bool of_mean = false;  // true: a mean over the samples, as Google Benchmark reports it; other metrics are medians
  std::string_view harmless = "";  // why a value that is wrong but plausible changes no verdict
  std::string_view may_lack = "";  // why a missing value does no harm

  bool is_of(std::string_view family_of_key) const;
};

std::span<const Metric> metrics();

/// Returns the row for a metric of a benchmark; nullptr if there is no row.
const Metric* find_metric(const Key&, std::string_view name);

/// Returns how ranks are compared by a metric of a benchmark; nullopt if they are not.
std::optional<PeerClass> peer_class(const Key&, std::string_view metric);

Aspect aspect_of(const Key&, std::string_view metric);

/// True for families in the catalogue. In all other families, any metric whose name ends in a unit can be judged.
bool is_catalogued(std::string_view family);

std::optional<double> ceiling(const Peaks&, const Key&, std::string_view metric, const Scale&);

/// Returns the time of one operation that this value implies; nullopt if it implies no time.
std::optional<double> implied_seconds(const Metric&, const Key&, double value, const Scale&);

/// True for GPU telemetry: sm_mhz, power_w, temperature_c, throttled, tflops_per_w, tflops_per_ghz.
bool is_telemetry(std::string_view metric);

/// True for a figure that all ranks share: the figures of collectives, and the rate of a step in which all ranks wait
/// for the slowest. Such a figure is not evidence against a single rank.
bool is_shared(const Key&, std::string_view metric);

/// True for lora_step and train_step: whole training steps, timed one by one.
bool is_training(std::string_view family);

/// True if ranks wait for each other inside the benchmark, so its times do not show which rank is slow.
bool is_collective(std::string_view family);

/// Relative standard deviations of a metric on healthy machines: between launches, between days, and between machines
/// of the same kind.
struct Spread {
  double launch = 0, day = 0, machine = 0;
};
Spread spread_of(const Key&, std::string_view metric);

/// Returns the unit that the last words of a metric give: "TFLOPS" for tflops, "GB/s" for copy_gb_per_s. "" if they
/// give none.
std::string unit_of(std::string_view metric);

/// True if lower values are better, as for times and counts of errors.
bool lower_is_better(std::string_view metric);

/// Returns a number with five significant digits, and without an exponent below a million: "793.2", "0.0008",
/// "1073741824".
std::string number_text(double value);

/// The fraction by which launches on the same GPUs differ, because each launch chooses its algorithms: two stored
/// launches (ci/baselines/h200-sxm) have 507 and 521 TFLOPS per GHz in bf16.
inline constexpr double difference_of_launches = 0.027;

/// A value is invalid only if it exceeds its ceiling by this factor, because clocks and data sheets are rounded.
inline constexpr double ceiling_allowance = 1.01;

}  // namespace shakedown
