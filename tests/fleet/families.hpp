// The rows of each family.
#pragma once

#include <functional>
#include <string>

#include "tests/fleet/making.hpp"

namespace shakedown::fleet {

/// Between hosts: NICs of each, and what one carries.
inline constexpr double nics = 8, nic_gb_per_s = 50;

using Rows = std::function<void(const Row&)>;

/// GEMM, memory and PCIe: each rank by itself.
void local_rows(const World&, const std::string& key, const Json& like, const Rows& take);
/// Pairs and shifts of the hosts' local ranks. The value stands at the destination.
void peer_rows(const World&, const std::string& key, const Rows& take);
Row collective(const World&, const std::string& key, const Json& like);
Row lora_step(const World&, const std::string& key, const Json& like);
Row preflight(const World&, const std::string& key, const Json& like);

}  // namespace shakedown::fleet
