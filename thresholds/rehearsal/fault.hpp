// A fault planted in a simulated fleet.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/names.hpp"

namespace shakedown::rehearsal {

/// The slow part of a fault:
/// - gemm: products per clock. sustained: products after some seconds of load.
/// - gpu: products, memory and ports of a GPU.
/// - link: the ports of a GPU to the switches inside its host. lane: one of its 18 links is down.
/// - one_way: copies from a GPU to the next GPU of its host. rows: only rows whose key begins with `rows`.
/// - pcie: half of the lanes, from a part of a half on. power: the power limit. clock: the highest clock, without a
///   reason of the driver. heat: the same, because of heat.
/// - late: a rank comes to each barrier later, by `part` seconds. data: one product is wrong. xid: XID 79.
/// - all: everything on all GPUs.
/// - nic: the NIC of one rail of a host. leaf: the ports of a leaf switch to other leaves.
/// - rail: one rail of all hosts. rail_leaf: one rail of the hosts of a leaf. uplink: the ports of one rail's leaf
/// switch
///   to other leaves. path: one rail between two leaves. sum: AllReduce of two hosts.
/// - dead_host and dead_pair: they do not answer.
enum class Weakness {
  gemm,
  hbm,
  gpu,
  link,
  lane,
  one_way,
  rows,
  sustained,
  pcie,
  power,
  clock,
  heat,
  late,
  data,
  xid,
  nic,
  host,
  nics,
  processor,
  all,
  leaf,
  rail,
  rail_leaf,
  uplink,
  path,
  sum,
  dead_host,
  dead_pair
};
constexpr auto words(Weakness) {
  return names("gemm", "hbm", "gpu", "link", "lane", "one_way", "rows", "sustained", "pcie", "power", "clock", "heat",
               "late", "data", "xid", "nic", "host", "nics", "processor", "all", "leaf", "rail", "rail_leaf", "uplink",
               "path", "sum", "dead_host", "dead_pair");
}

struct Fault {
  Weakness what = Weakness::gemm;
  double part = 0;  // fraction of the rate that is lost; for a host, of its products, and half of it for its memory
  int host = 0, local = 0;
  int other = 0;          // the second host of a path, sum or pair
  std::string rows = {};  // the beginning of the keys of the affected rows

  bool is_of_gpu() const;
  friend bool operator==(const Fault&, const Fault&) = default;
};

/// Parses a fault such as "gemm:0.03", a fault of rows such as "hbm/op:read:0.05", or several faults such as
/// "hbm:0.04+link:0.2". The seed chooses a host and a GPU for each. Errors: InputError.
std::vector<Fault> parse_faults(std::string_view text);

}  // namespace shakedown::rehearsal
