// A virtual GPU: times of operations, computed from the figures of a data sheet.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/key.hpp"
#include "kernels/ops/operation.hpp"

namespace shakedown::virtual_gpu {

struct Chip {
  std::string name;                    // "virtual NVIDIA L40S"
  std::map<std::string, double> peak;  // of its profile: "bf16_tflops", "hbm_gb_per_s", "nvlink_gb_per_s", ...
  double memory_gb = 0;
  double host_gb_per_s = 0;  // of its link to the host, each way
  double of_products = 0.8;  // the part of their peak that bf16 products reach
};

/// Returns the seconds of one operation on each of `ranks` GPUs of a host: its model cost over a fixed part of the peak
/// of the unit that it uses, and the latency of a message. Returns nullopt if the chip has no such peak.
std::optional<double> seconds_of(const Chip&, const Key&, const Cost&, int ranks);

}  // namespace shakedown::virtual_gpu
