// The network of the hosts of a site.
#pragma once

#include <optional>
#include <string>

namespace shakedown {

/// The network of one host. The rate of a NIC is its nominal rate in one direction.
struct SiteFabric {
  int nics = 0;
  double nic_gbit = 0;
  /// Number of GPUs that NVLink connects, if these are more than one host has.
  std::optional<int> nvlink_domain = std::nullopt;
  std::string source;

  double host_gb_per_s() const { return nics * nic_gbit / 8; }
};

}  // namespace shakedown
