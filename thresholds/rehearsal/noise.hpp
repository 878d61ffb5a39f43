// How much healthy GPUs and networks vary. The noise is read from a YAML file (thresholds/rehearsal/noise/). All values
// are relative.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>

#include "base/names.hpp"

namespace shakedown::rehearsal {

/// A kind of metric that has a spread of its own.
enum class Kind {
  clock,        // clock of a GPU at its power limit
  gemm,         // products per clock
  hbm,          // reads and writes of arrays in memory
  memtest,      // the test of all memory
  copy,         // copies over NVLink
  latency,      // latency of a load over NVLink
  pcie,         // copies between a GPU and its host, one GPU alone
  pcie_shared,  // copies between GPUs and host, all GPUs of a host at once
  collective,   // collectives of 16 MiB and more
  message,      // a small collective that the host starts
  graph,        // a small collective in a CUDA graph
  step,         // a training step
  processor,    // work of the CPU
  launch,       // calls that start kernels
  network       // transfers between hosts
};
constexpr auto words(Kind) {
  return names("clock", "gemm", "hbm", "memtest", "copy", "latency", "pcie", "pcie_shared", "collective", "message",
               "graph", "step", "processor", "launch", "network");
}
inline constexpr std::size_t kinds = words(Kind{}).size();

/// Standard deviations of logarithms: of a launch (equal for all ranks), of a chip (constant for each chip), and of one
/// value.
struct Spread {
  double launch = 0, chip = 0, row = 0;
  double least_chip = 0;  // smallest rate of a chip relative to a typical one; a smaller draw is repeated
};

struct Noise {
  std::string name;  // name of its file
  std::array<Spread, kinds> spreads{};
  /// Degrees of freedom of Student's t distribution; 0: normal distribution.
  int row_tail = 0, chip_tail = 0;
  /// Clock: relative loss from the first slot of a host to the last slot.
  double slot_gradient = 0;
  double falling = 0;  // clock: relative loss from the first row to the last
  /// Fraction of racks that are hot; relative loss of clock of their GPUs; additional degrees of these GPUs.
  double hot_racks = 0, hot_clock = 0, hot_c = 0;
  double wander = 0;  // clock: standard deviation of a slow drift of each GPU
  /// Probability that a value is delayed; smallest and largest relative delay.
  double stall_odds = 0, stall_least = 0, stall_most = 0;
  /// Fraction of hosts with another VBIOS; relative change of their products per clock.
  double vbios_part = 0, vbios_gemm = 0;
  /// Fraction of GPUs with another make of memory; relative change of its rate.
  double maker_part = 0, maker_hbm = 0;
  bool maker_by_host = false;  // true: all GPUs of a host have the same make of memory
  /// Probability that pairs across leaves share a port; smallest and largest fraction of the rate that remains.
  double collision_odds = 0, collision_least = 0, collision_most = 0;
  /// Probability of a pause of a pair; mean of the exponential delay.
  double pause_odds = 0, pause_mean = 0;
  double row_algorithm = 0;  // gemm: fraction of clocks that are saved if a launch chooses another algorithm

  const Spread& operator[](Kind kind) const { return spreads[static_cast<std::size_t>(kind)]; }
};

/// Reads a noise file. Errors: InputError for an unknown member, or a value that is not a number or out of range.
Noise read_noise(const std::filesystem::path& file);

}  // namespace shakedown::rehearsal
