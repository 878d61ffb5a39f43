// Computes which GPUs CUDA shows under a mask (CUDA_VISIBLE_DEVICES).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shakedown {

struct VisibleGpus {
  int count = 0;
  /// Part of the mask that CUDA ignores, with the reason; empty if CUDA ignores nothing or the mask hides all GPUs.
  std::string ignored;
};

/// Returns how many GPUs CUDA shows. `gpus` are all of this host: their UUIDs, or other names if UUIDs are unknown.
/// Pure.
///
/// The rules are those of the CUDA C++ Programming Guide, "CUDA Environment Variables", CUDA_VISIBLE_DEVICES: indices,
/// or UUIDs that may be cut short as long as they are unique, or one MIG device; an invalid entry ends the list
/// ("0,2,-1,1" shows 0 and 2). The guide is silent about the rest, which cuInit and cuDeviceGetCount decided on two
/// H200 (2026-11): an index is read as by strtol (" 1", "+1" and "1x" are 1, "" and "abc" are invalid), indices and
/// UUIDs do not mix, the list is of the kind of its first entry, digits of UUIDs have no case, and a GPU that is named
/// twice before the end of the list hides all (CUDA_ERROR_INVALID_DEVICE).
VisibleGpus visible_gpus(std::string_view mask, const std::vector<std::string>& gpus);

}  // namespace shakedown
