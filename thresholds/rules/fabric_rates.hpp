// Limits of collectives between hosts. The limits are computed from the rate of the NICs, and from the fraction of this
// rate that a healthy cluster reaches. The functions are pure.
#pragma once

#include <optional>
#include <vector>

#include "thresholds/results/measured.hpp"
#include "thresholds/rules/profile.hpp"
#include "thresholds/rules/site_fabric.hpp"

namespace shakedown {

/// A cluster of m hosts with n ranks in all. The NICs of a host have a total of B GB/s in each direction.
struct ClusterShape {
  double hosts = 1, ranks = 1, host_gb_per_s = 0;  // `ranks` is the number of all ranks
  double ranks_per_host() const { return ranks / hosts; }
};

/// The busbw that the NICs allow. An AllReduce that reduces inside hosts first sends (m - 1) / m of the data twice over
/// B: B (n - 1) / n x m / (m - 1). In an AllToAll, each host sends (n - g) / n of the data of its g ranks: B / g x (n -
/// 1) / (n - g).
double allreduce_limit(const ClusterShape&);
double alltoall_limit(const ClusterShape&);

/// The fraction of the expected rate that a healthy cluster must reach. AllReduce: published healthy clusters reach
/// 0.76 to 1.02 of the smaller of the limit and one host's rate (8 x NDR400, HDR200 and EFA, 2 to 248 hosts). AllToAll:
/// they reach 0.84 to 0.86 of the limit. Pairs: NICs reach 0.92 to 0.98 of their rate in one direction (NDR 46 to 49
/// GB/s, HDR 24, EFA 24.2).
inline constexpr double allreduce_part = 0.72, alltoall_part = 0.80, pairs_part = 0.85;

/// Returns the lowest rate of all hosts, from the ports that pre-flight has read; nullopt if it has read none.
std::optional<SiteFabric> fabric_as_read(const Measured&);

/// Returns rules for several hosts: the limits of one host for measurements inside each host. If the fabric is known,
/// also floors for AllReduce, AllToAll and pairs. Empty if there is one host.
std::vector<Rule> rules_between_hosts(const Profile&, const std::optional<SiteFabric>&, const Measured&);

}  // namespace shakedown
