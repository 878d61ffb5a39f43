// What NVIDIA's catalogue says of an XID, the number by which its driver reports an error.
// https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html (2025-10)
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace shakedown {

struct KnownXid {
  int number;
  std::string_view what;    // "the GPU has fallen off the bus"
  std::string_view bucket;  // of the immediate action, in NVIDIA's word: "RESTART_BM"
};

/// Those that a data centre meets.
std::span<const KnownXid> xids();

/// "restart the node, power included; ..."; empty for a bucket that is not known.
std::string_view action_in_words(std::string_view bucket);

/// "the GPU has fallen off the bus; NVIDIA: restart the node, ... (RESTART_BM)" of the counter "xid_79"
/// (base/gpu_health.hpp); empty where that is no XID, or one that is not known here.
std::string advice_on(const std::string& counter);

}  // namespace shakedown
