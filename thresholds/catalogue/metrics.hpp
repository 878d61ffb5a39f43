// THE catalogue of metrics: one row says what every judge must know of one. A metric that has no row and does not end
// in a unit cannot be judged, and a profile that names it is refused. Pure.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/key.hpp"

namespace shakedown {

/// Rows with at least this number of samples have their variation (cv).
inline constexpr std::size_t samples_for_cv = 5;

/// The values of healthy devices of one kind: known before any run, because a few ranks cannot tell their own
/// spread.
struct PeerClass {
  double spread, row;    // relative standard deviations: from device to device in all rows, and of one value
  double effect;         // a shortfall of a single value below this is never an outlier, however sure it is
  double class_effect;   // the same where several rows or repetitions agree
  bool clocked = false;  // varies with the clock that power and cooling leave to a chip
};

/// Peaks of a kind of machine, as its profile gives them: "bf16_tflops", "hbm_gb_per_s", "nics", "nic_gbit".
using Peaks = std::map<std::string, double>;

/// Where a benchmark ran. nvls: the switch may add, as it may where nothing is known. 0 is unknown.
struct Scale {
  int ranks = 1, hosts = 1;
  bool nvls = true;
  double sm_mhz_max = 0, power_limit_w = 0, memory_gb = 0;  // of the GPU
  double pcie_gb_per_s = 0;                                 // of its link to the host, each way
  double tested_gb = 0;                                     // of its memory, by the row itself
};

/// A model of a training step: of the LoRA step with adapters of rank 64 on all seven projections.
struct Model {
  std::string_view family, name;
  double flops_per_token;  // of the step, at the sequence length that it is measured with (token_flops of
                           // kernels/training); 0: only as the step counts them
  double trainable;        // parameters, summed over ranks in f32
};
/// Returns the model of a key, by its family and part; nullptr if unknown.
const Model* find_model(const Key&);

/// The part of a GPU that a figure shows, or the processor that feeds it. gemm is clock-normalised.
enum class Aspect { other, gemm, gemm_raw, memory, pcie, processor, collective };

/// A part that a row of the catalogue asks for: with any value where it names none; no name: nothing.
struct KeyPart {
  std::string_view name = "", value = "";
  bool is_in(const Key& key) const {
    const auto own = key.part(name);
    return name.empty() || (value.empty() ? !own.empty() : own == value);
  }
};

/// Which values can be true at all.
enum class ValueRange { positive, not_negative, any };

struct Metric {
  std::string_view family;  // "": of any family; "*_step": of each step of training
  KeyPart part = {};        // must be in the key
  std::string_view name;
  std::string_view what;  // one line for people
  Aspect aspect = Aspect::other;
  int headline = 0;  // what is shown and compared where no rule names a metric: the lowest of a row's above 0
  ValueRange range = ValueRange::positive;
  bool shared = false;                            // all ranks have it in common, so it accuses no single one
  bool of_slowest = false;                        // the value of the run is that of its slowest rank
  bool is_telemetry = false;                      // of the GPU while it worked; may be unknown
  std::optional<PeerClass> peers = std::nullopt;  // nullopt: not compared among ranks
  /// The highest value that physics allows; nullopt where the peaks do not tell.
  std::optional<double> (*ceiling)(const Peaks&, const Key& key, const Scale&) = nullptr;
  std::optional<double> least_scaling = std::nullopt;  // part of a rank's rate that is left when more of them work
  /// A rate times the seconds of one operation is this; for a time, this is the number of seconds of its unit. So every
  /// figure of a row tells one time in a unit of its own, and none can be wrong alone.
  std::optional<double> (*work)(const Key& key, const Scale&) = nullptr;
  bool of_mean = false;  // tells the mean over the samples, as Google Benchmark does; the others tell the median
  std::string_view harmless = "";  // why a value of it that cannot be told from a true one changes no verdict
  std::string_view may_lack = "";  // why nothing is lost where it is not there

  bool is_of(std::string_view family_of_key) const;
};

std::span<const Metric> metrics();

/// The row of a metric of a benchmark; nullptr if there is none.
const Metric* find_metric(const Key&, std::string_view name);

/// How a metric of a benchmark is compared among peers; nullopt: it is not.
std::optional<PeerClass> peer_class(const Key&, std::string_view metric);

Aspect aspect_of(const Key&, std::string_view metric);

/// True of families that the catalogue knows; of others any metric may be judged that ends in a unit.
bool is_catalogued(std::string_view family);

std::optional<double> ceiling(const Peaks&, const Key&, std::string_view metric, const Scale&);

/// The time of one operation that this figure of it tells; nullopt: none.
std::optional<double> implied_seconds(const Metric&, const Key&, double value, const Scale&);

/// True for what a GPU's telemetry tells: sm_mhz, power_w, temperature_c, throttled, tflops_per_w, tflops_per_ghz.
bool is_telemetry(std::string_view metric);

/// True of figures that all ranks have in common: of collectives, and the rate of a step in which all wait for the
/// slowest. Such a figure accuses no single rank.
bool is_shared(const Key&, std::string_view metric);

/// lora_step, train_step: whole steps of training, timed one by one.
bool is_training(std::string_view family);

/// True if ranks wait for each other inside the benchmark, so that its times do not show whose fault they are.
bool is_collective(std::string_view family);

/// Relative standard deviations of a metric on healthy machines: between launches, between days on one machine,
/// and between machines of one kind.
struct Spread {
  double launch = 0, day = 0, machine = 0;
};
Spread spread_of(const Key&, std::string_view metric);

/// Units are the last words of a metric's name: "TFLOPS" for tflops, "GB/s" for copy_gb_per_s; "" if it has none.
std::string unit_of(std::string_view metric);

/// Times, and what should be small: lower is better. Everything else: higher is better.
bool lower_is_better(std::string_view metric);

/// Five significant digits, never an exponent below a million: "793.2", "0.0008", "1073741824".
std::string number_text(double value);

/// How far a measurement may be above its ceiling before it is invalid (rounding of clocks and data sheets).
inline constexpr double ceiling_allowance = 1.01;

}  // namespace shakedown
