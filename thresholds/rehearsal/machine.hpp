// The machine of a simulated run: the properties of every GPU, host and leaf switch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thresholds/rehearsal/fault.hpp"
#include "thresholds/rehearsal/noise.hpp"
#include "thresholds/rehearsal/shape.hpp"

namespace shakedown::rehearsal {

inline constexpr double max_mhz = 1980;

/// Rates of a GPU relative to a typical one.
struct Gpu {
  std::array<double, kinds> rate{};
  double sustained = 1;                              // additional factor for sustained load
  std::vector<std::pair<std::string, double>> rows;  // additional factors, by the beginning of keys
  double out = 1, in = 1;                            // rates of its ports
  double to_next = 1;                                // rate of copies to the next GPU of its host
  int links_up = 18, pcie_lanes = 16;
  double power_limit_w = 700, most_mhz = max_mhz;
  bool hot = false;  // true: the driver reports that heat holds the clock at most_mhz
  double late = 0;   // seconds by which the rank comes late to each barrier
  bool wrong_data = false, xid = false;
  double degrees_c = 0;                              // degrees by which it is hotter than a typical GPU
  std::array<double, 2> walk_speed{}, walk_phase{};  // parameters of the slow drift of its clock
  bool other_vbios = false;
  std::string uuid, serial, pci;

  double operator[](Kind kind) const { return rate[static_cast<std::size_t>(kind)]; }
  double& operator[](Kind kind) { return rate[static_cast<std::size_t>(kind)]; }
};

struct Host {
  std::string name, leaf, rack;
  double processor = 1, shared_pcie = 1;
  std::vector<double> nics;  // by rail: rate of the NIC
  std::vector<Gpu> gpus;
};

struct Machine {
  Shape shape;
  std::vector<Host> hosts;
  std::vector<std::vector<double>> uplinks;  // by leaf switch and rail: rate relative to a typical one
  std::vector<Fault> between;                // faults of pairs of hosts

  const Gpu& gpu(int rank) const { return host(rank).gpus[static_cast<std::size_t>(rank % shape.gpus)]; }
  const Host& host(int rank) const { return hosts[static_cast<std::size_t>(rank / shape.gpus)]; }
  double uplink(int rank) const {
    return uplinks[static_cast<std::size_t>(rank / shape.gpus / shape.leaf_hosts)]
                  [static_cast<std::size_t>(rank % shape.gpus)];
  }

  /// Returns the fraction of the rate that two hosts reach on a rail; nullopt if they do not answer each other.
  std::optional<double> path(int host, int other, int rail) const;
  /// Returns the fraction of their rate that two hosts reach in an AllReduce.
  double sum(int host, int other) const;
};

/// Returns the machine. The same arguments always give the same machine. Faults keep their places.
Machine make_machine(const Shape&, const Noise&, const std::vector<Fault>&, std::uint64_t seed);

/// Chooses places for faults. The places are on separate hosts and GPUs if there are enough.
std::vector<Fault> placed(std::vector<Fault>, const Shape&, std::uint64_t seed);

}  // namespace shakedown::rehearsal
