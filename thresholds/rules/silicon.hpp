// The value that each GPU should reach in GEMM by its own clock, power limit and temperature, and by what stored GPUs
// of its model reached. It tells a chip whose clock is low at the power limit from heat, from a setting, and from a GPU
// that computes less than its clock allows, also if a machine has only one GPU. The functions are pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/key.hpp"
#include "base/names.hpp"
#include "thresholds/findings/finding.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {

class Yaml;

/// A product by one kernel, as medians over GPUs. Kernels of one product differ by up to 3 % in work per clock, so that
/// only the same tile is compared (cublasLtMatmulTile_t).
struct SiliconRow {
  Key benchmark;
  int tile = 0;
  double tflops_per_ghz = 0, sm_mhz = 0, temperature_c = 0;

  /// True if the power limit, and so the chip, decides the clock of this product.
  bool is_power_limited(double sm_mhz_max) const { return sm_mhz < 0.95 * sm_mhz_max; }
};

/// What stored GPUs of one model reached (section `silicon` of a profile).
struct Silicon {
  std::string cublaslt;     // its version: other versions may have other kernels with the same tile
  int gpus = 0;             // number of stored GPUs
  double clock_spread = 0;  // standard deviation of the clock between them, as a fraction
  std::vector<SiliconRow> rows;
  std::string source;
};

/// Why the value of a GPU differs from that of the stored ones. less_work: it computes less than its clock allows.
/// heat: the driver lowers the clock because of heat. setting: the clock is low, but neither power nor heat limits it.
/// slow_chip: its clock at the power limit is low, by more than three standard deviations.
enum class SiliconCause { none, less_work, heat, setting, slow_chip };
constexpr auto words(SiliconCause) { return names("none", "less work per clock", "heat", "a setting", "a slow chip"); }

/// One GPU compared with the stored ones: medians over its products, as fractions above (+) or below (-) them.
/// 1 + tflops is about (1 + work) (1 + chip) (1 + heat).
struct SiliconValue {
  int rank = 0;
  std::size_t rows = 0;  // number of products
  double tflops = 0;
  double work = 0;             // TFLOPS per GHz
  double highest_work = 0;     // the same of the product in which it is highest
  std::optional<double> chip;  // clock at the power limit without the part of heat; nullopt if no product reaches it
  double heat = 0;             // part of the clock that another temperature explains
  SiliconCause cause = SiliconCause::none;
};

/// Compares the GPUs of a run with the stored ones. Empty if the run has fewer than three products by known kernels.
std::vector<SiliconValue> compare_silicon(const Measured&, const Silicon&);

struct SiliconJudgement {
  std::vector<Finding>
      findings;         // a failure for each GPU with less work per clock, and one warning for each other cause
  std::string summary;  // empty if nothing was compared
};

/// Judges the GPUs of a run by the stored ones.
SiliconJudgement judge_silicon(const Measured&, const Silicon&);

/// Combines stored launches of GPUs of one model. Products that fewer than three GPUs measured are left out. Errors:
/// InputError if none is left.
Silicon fit_silicon(const std::vector<const Results*>& launches);

/// Reads the section of a profile. Errors: InputError.
Silicon read_silicon(const Yaml&);

}  // namespace shakedown
