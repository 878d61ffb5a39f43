// The rules for comparing algorithms of a matrix product. The rules are the same on a GPU and on a virtual GPU.
#pragma once

#include <algorithm>

#include "kernels/ops/gemm.hpp"
#include "kernels/tuner.hpp"

namespace shakedown {

/// Timing alternates between bursts of load and rests. The driver checks the power every few tens of milliseconds and
/// then lowers the clock in steps. A rested H200 multiplies bf16 8192 at 790 to 804 TFLOPS and 1,615 to 1,640 MHz for
/// 25 to 60 ms, then at 765 to 700, and finally at 665 to 700 and 1,345 to 1,405 MHz (2 GPUs, 40 series). Samples of
/// the first phase repeat within 1 %; a mixture does not. A sustained load measures the last phase. With rests half as
/// long, some samples already show the next step. These times are those of the driver's power control, not of the chip:
/// a product that takes longer than the load is a burst of its own.
inline constexpr Bursts gemm_bursts{0.02, 0.06};

/// For f64 the heuristic's order is unreliable, because the choice among the first four changed from launch to launch.
inline Tuning gemm_tuning(DType dtype, Load load) {
  Tuning tuning{.seconds = 0.15};
  if (load == Load::sustained) {
    tuning.sustained = 0.1;  // true if the product will run at the power limit
  } else {
    tuning.bursts = gemm_bursts;
  }
  if (dtype == DType::f64) {
    tuning.min_candidates = 12;
    tuning.slow_turns = 3;
  }
  return tuning;
}

/// Returns the seconds of a search for the algorithm of products that take `once` seconds, beyond the seconds in
/// families.yaml; 0 for products below 0.25 s.
inline double long_tuning_seconds(double once) {
  return once < 0.25 ? 0 : once * (2 + 2 * std::max(1.0, 2.5 / once - 1));
}

}  // namespace shakedown
