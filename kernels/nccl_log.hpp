// Parses NCCL's debug log for its choices. In NCCL up to 2.28 no function reports the path of the data. Pure function.
#pragma once

#include <iosfwd>
#include <set>
#include <string>
#include <vector>

#include "base/nccl_link.hpp"

namespace shakedown {

struct NcclLog {
  std::vector<NcclLink> links;  // each link once, in the order of the log
  /// The choice for the last collective, such as "RING/LL128"; empty if it is not in the log.
  std::string algorithm;
};

/// Reads lines like these (2.18 to 2.28), and skips all others, including truncated ones:
///   node7:1448:1448 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
///   node7:1448:1448 [0] NCCL INFO Channel 01/0 : 3[3] -> 4[0] [send] via NET/IB/0/GDRDMA
///   node7:1448:1448 [0] NCCL INFO AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}
NcclLog read_nccl_log(std::istream&);

/// Returns why a rate is not that of the network, from the transports of all connections ("NET/IB/0/GDRDMA"); empty if
/// all are NET. None means that NCCL's log is unknown, which is a problem.
std::string problem_of_network(const std::set<std::string>& transports);

}  // namespace shakedown
