// The network of the hosts of a site.
#pragma once

#include <optional>
#include <string>

namespace shakedown {

/// The network of one host. The rate of a NIC is its nominal rate in one direction.
struct SiteFabric {
  int nics = 0;
  double nic_gbit = 0;
  std::optional<int> nvlink_domain = std::nullopt;  // GPUs connected by NVLink, if more than a host
  std::string source;

  double host_gb_per_s() const { return nics * nic_gbit / 8; }
};

}  // namespace shakedown
