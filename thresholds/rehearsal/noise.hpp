// The variation of healthy GPUs and networks, read from a YAML file (thresholds/rehearsal/noise/). All values are
// relative.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>

#include "base/names.hpp"

namespace shakedown::rehearsal {

/// A kind of metric with its own spread.
enum class Kind {
  clock,        // of a GPU at its power limit
  gemm,         // products per clock
  hbm,          // streams over memory
  memtest,      // the test of all memory
  copy,         // over NVLink
  latency,      // of a load over NVLink
  pcie,         // one GPU and its host alone
  pcie_shared,  // all GPUs of a host at once
  collective,   // from 16 MiB on
  message,      // a small collective that the host starts
  graph,        // a small collective in a CUDA graph
  step,         // a training step
  processor,    // work of the CPU
  launch,       // calls that start kernels
  network       // between hosts
};
constexpr auto words(Kind) {
  return names("clock", "gemm", "hbm", "memtest", "copy", "latency", "pcie", "pcie_shared", "collective", "message",
               "graph", "step", "processor", "launch", "network");
}
inline constexpr std::size_t kinds = words(Kind{}).size();

/// Standard deviations of logarithms: of a launch (common to all ranks), of a chip (constant for a part), and of one
/// value.
struct Spread {
  double launch = 0, chip = 0, row = 0;
};

struct Noise {
  std::string name;  // of its file
  std::array<Spread, kinds> spreads{};
  int row_tail = 0, chip_tail = 0;                 // degrees of freedom of Student's t; 0: normal
  double slot_gradient = 0;                        // clock: relative loss from the first slot of a host to the last
  double falling = 0;                              // clock: relative loss from the first row to the last
  double hot_racks = 0, hot_clock = 0, hot_c = 0;  // share of the racks; loss of clock; degrees more
  double wander = 0;                               // clock: standard deviation of a slow drift of each GPU
  double stall_odds = 0, stall_least = 0, stall_most = 0;  // of one value, and its relative delay
  double vbios_part = 0, vbios_gemm = 0;                   // share of the hosts with another VBIOS; products per clock
  double maker_part = 0, maker_hbm = 0;                    // share of the GPUs with other memory; its rate
  bool maker_by_host = false;                              // all GPUs of a host have the same memory
  double collision_odds = 0, collision_least = 0, collision_most = 0;  // pairs across leaves; shares of the rate left
  double pause_odds = 0, pause_mean = 0;                               // pairs; exponential delay
  double row_algorithm = 0;  // gemm: clocks saved if a launch chooses another algorithm

  const Spread& operator[](Kind kind) const { return spreads[static_cast<std::size_t>(kind)]; }
};

/// Reads a noise file. Errors: InputError for an unknown member, or a value that is not a number or out of range.
Noise read_noise(const std::filesystem::path& file);

}  // namespace shakedown::rehearsal
