// The network of the hosts of a site.
#pragma once

#include <optional>
#include <string>

namespace shakedown {

/// The network of one host. A NIC's rate is what it is sold with, in one direction.
struct SiteFabric {
  int nics = 0;
  double nic_gbit = 0;
  std::optional<int> nvlink_domain = std::nullopt;  // GPUs that NVLink joins, where that is more than a host
  std::string source;

  double host_gb_per_s() const { return nics * nic_gbit / 8; }
};

}  // namespace shakedown
