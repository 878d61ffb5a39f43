// Limits of collectives between hosts from the rate of their NICs, and the share that a healthy cluster reaches. Pure.
#pragma once

#include <optional>
#include <vector>

#include "thresholds/results/measured.hpp"
#include "thresholds/rules/profile.hpp"
#include "thresholds/rules/site_fabric.hpp"

namespace shakedown {

/// A cluster of m hosts with n ranks in all, and B GB/s of NICs in each host and direction.
struct ClusterShape {
  double hosts = 1, ranks = 1, host_gb_per_s = 0;  // ranks: of all hosts
  double ranks_per_host() const { return ranks / hosts; }
};

/// The bus bandwidth of the NICs. An AllReduce that reduces inside hosts first moves (m - 1) / m of the data twice over
/// B: B (n - 1) / n x m / (m - 1) with n ranks in all. In an AllToAll each host sends (n - g) / n of the data of its g
/// ranks: B / g x (n - 1) / (n - g).
double allreduce_limit(const ClusterShape&);
double alltoall_limit(const ClusterShape&);

/// The share of the expected rate that a healthy cluster reaches at least. AllReduce: published healthy clusters reach
/// 0.76 to 1.02 of the lesser of the limit and one host's rate (facts on 8 x NDR400, HDR200 and EFA, 2 to 248 hosts).
/// AllToAll: 0.84 to 0.86 of the limit. Pairs: NICs reach 0.92 to 0.98 of their rate one way (NDR 46 to 49 GB/s, HDR
/// 24, EFA 24.2).
inline constexpr double allreduce_part = 0.72, alltoall_part = 0.80, pairs_part = 0.85;

/// Returns the lowest rate of all hosts from the ports of pre-flight; nullopt if it read none.
std::optional<SiteFabric> fabric_as_read(const Measured&);

/// Returns rules for several hosts: the profile's limits of one host for measurements inside each host, and, with a
/// known fabric, floors for AllReduce, AllToAll and pairs. Empty on one host.
std::vector<Rule> rules_between_hosts(const Profile&, const std::optional<SiteFabric>&, const Measured&);

}  // namespace shakedown
