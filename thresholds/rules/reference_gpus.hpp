// Compares each GPU in GEMM with stored GPUs of its model: its work per clock, which is the same for all GPUs of a
// model, and its clock at the power limit, which depends on the chip. The comparison needs no peers, so it also judges
// a machine with one GPU. The functions are pure.
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

/// A product by one kernel, as medians over GPUs. Kernels of one product differ by up to 3 % in work per clock, so only
/// the same tile is compared (cublasLtMatmulTile_t).
struct ReferenceProduct {
  Key benchmark;
  int tile = 0;
  double flop_per_cycle = 0;  // of the clock sm_mhz, which telemetry samples
  double sm_mhz = 0, temperature_c = 0;
};

/// The stored GPUs of one model (section `reference_gpus` of a profile). All products use the tensor cores and run at
/// the power limit, in bursts.
struct ReferenceGpus {
  std::string cublaslt;  // its version: other versions may have other kernels with the same tile
  double power_limit_w = 0;
  int gpus = 0;             // number of stored GPUs
  double clock_spread = 0;  // standard deviation of the clock between them, as a fraction
  std::vector<ReferenceProduct> products;
  std::string source;
};

/// Why a GPU is slower than the stored ones. less_work: it computes less than its clock allows. power_limit: another
/// power limit is set. heat, power_supply: the driver lowers the clock because of them. slow_chip: at the power limit,
/// the clock is lower than those of other chips. unexplained: the clock is low, and the driver gives no reason.
enum class SlowerBy { nothing, less_work, power_limit, heat, power_supply, slow_chip, unexplained };
constexpr auto words(SlowerBy) {
  return names("nothing", "less work per clock", "power limit", "heat", "power supply", "slow chip", "unexplained");
}

/// One GPU compared with the stored ones: medians over products, as fractions above (+) or below (-) them.
/// 1 + tflops is about (1 + work) (1 + chip) (1 + heat).
struct GpuComparison {
  Culprit gpu;
  std::size_t products = 0;
  double tflops = 0;
  double work = 0;          // per clock
  double highest_work = 0;  // per clock, of the product in which it is highest
  double chip = 0;          // the clock without the part of heat
  double heat = 0;          // the part of the clock that another temperature explains
  SlowerBy cause = SlowerBy::nothing;
};

struct ReferenceJudgement {
  std::vector<GpuComparison> gpus;  // by rank
  std::vector<Finding> findings;    // one for each GPU with less work per clock, and one for each other cause
  std::string summary;              // the ranges, or why no GPU was compared; empty without products on GPUs
};

/// Judges the GPUs of a run by the stored ones. Ranks that used another version of cuBLASLt or other kernels are left
/// out, and the summary counts them.
ReferenceJudgement judge_by_reference_gpus(const Measured&, const ReferenceGpus&);

/// Reads the section of a profile. Errors: InputError.
ReferenceGpus read_reference_gpus(const Yaml&);

}  // namespace shakedown
