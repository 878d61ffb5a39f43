// What the ceilings and the work of an operation depend on besides its key.
#pragma once

#include <map>
#include <string>

namespace shakedown {

/// Peaks of a kind of machine, as its profile gives them: "bf16_tflops", "hbm_gb_per_s", "nics", "nic_gbit".
using Peaks = std::map<std::string, double>;

/// The conditions under which a benchmark ran. nvls: NVSwitches may have reduced data; true if this is unknown. A
/// number is 0 if it is unknown.
struct Scale {
  int ranks = 1, hosts = 1;
  bool nvls = true;
  double sm_mhz_max = 0, power_limit_w = 0, memory_gb = 0;  // of the GPU
  double pcie_gb_per_s = 0;                                 // rate of the GPU's link to the host in one direction
  double tested_gb = 0;                                     // size of the memory, as this row reports it
};

}  // namespace shakedown
