// Faults that are planted into a fleet, as a command line names them: kind:key=value,key=value.
//
//   gpu:rank=3,percent=5[,in=hbm/op:read]   slower by so much of its time's inverse; in: keys that begin so, else all
//   host:host=2,percent=5[,in=...]   fleet:percent=10[,in=...]
//   link:host=0,src=2,dst=5,fraction=0.5    one NVLink path, one way, at a part of its rate
//   ports:rank=3,fraction=0.5[,seen=1]      all NVLink ports of a GPU; seen: the driver counts fewer links as up
//   pcie:rank=3[,seen=1]                    PCIe x8
//   clock:rank=3,percent=12[,reason=hw_power_brake]  so much below the usual clock of a bf16 GEMM, in all rows
//   heat:rank=3,percent=12                  the same, hot, and the driver says so
//   power_limit:rank=3,watts=600            rank=-1: all GPUs
//   allreduce:fraction=0.5   network:fraction=0.7 (between hosts)   late:rank=3,us=100
//   data:rank=3[,in=gemm]   sdc:rank=3[,in=gemm]   errors:rank=3,what=xid_79
//   missing:host=0   (a GPU fell off the bus)   absent:host=0   (it is there, and no rank was started on it)
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace shakedown::fleet {

struct Fault {
  std::string kind;
  int rank = -1, host = -1, src = -1, dst = -1;
  double percent = 0, fraction = 1, us = 0, watts = 0;
  std::string in, reason, what;
  bool seen = false;
};

/// Errors: std::runtime_error saying which keys this kind needs and knows.
Fault parse_fault(std::string_view);

/// Who is to be named for a fault, and by what.
struct Guilty {
  std::set<int> ranks;
  int host = -1;               // of a fault of a whole host
  bool configuration = false;  // nobody alone
  bool by_finding = false;     // a failing finding that names the rank or host is enough
};

}  // namespace shakedown::fleet
