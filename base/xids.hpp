// NVIDIA's catalogue of XIDs, the numbers by which the driver reports errors.
// https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html (2025-10)
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace shakedown {

struct KnownXid {
  int number;
  std::string_view what;    // "the GPU has fallen off the bus"
  std::string_view bucket;  // the immediate action, in NVIDIA's terms: "RESTART_BM"
};

/// Returns the XIDs that occur in data centres.
std::span<const KnownXid> xids();

/// True if NVIDIA says to reset or restart the GPU, or to have it examined, before it gets work again. False for XIDs
/// that are followed by another one, end with the program, or are not in the catalogue.
bool condemns(int xid);

/// Returns "restart the node, power included; ..."; empty for an unknown bucket.
std::string_view action_in_words(std::string_view bucket);

/// Returns "the GPU has fallen off the bus; NVIDIA: restart the node, ... (RESTART_BM)" for the counter "xid_79"
/// (base/gpu_health.hpp). Empty if it is not an XID, or an unknown one.
std::string advice_on(const std::string& counter);

}  // namespace shakedown
