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

namespace shakedown::rehearsal {

inline constexpr double highest_mhz = 1980;

struct Shape {
  int hosts = 1, gpus = 8;       // GPUs of each host
  int leaf_hosts = 16;           // hosts under each leaf switch
  int rack_hosts = 4;            // HGX hosts of 8U: four in a rack of 42U
  bool leaves_are_known = true;  // from a site file

  int ranks() const { return hosts * gpus; }
};

/// Rates relative to a typical GPU.
struct Gpu {
  std::array<double, kinds> rate{};
  double sustained = 1;                              // additional factor for these rows only
  std::vector<std::pair<std::string, double>> rows;  // the same, by the first characters of keys
  double out = 1, in = 1;                            // its ports
  double to_next = 1;                                // copies to the next GPU of its host
  int links_up = 18, pcie_lanes = 16;
  double power_limit_w = 700, most_mhz = highest_mhz;
  bool hot = false;  // the driver says that heat holds the clock at most_mhz
  double late = 0;   // seconds, at each barrier
  bool wrong_data = false, xid = false;
  double degrees_c = 0;                              // above a typical GPU
  std::array<double, 2> walk_speed{}, walk_phase{};  // of its clock
  bool other_vbios = false;
  std::string uuid, serial, pci;

  double operator[](Kind kind) const { return rate[static_cast<std::size_t>(kind)]; }
  double& operator[](Kind kind) { return rate[static_cast<std::size_t>(kind)]; }
};

struct Host {
  std::string name, leaf, rack;
  double processor = 1, shared_pcie = 1;
  std::vector<double> nics;  // by rail
  std::vector<Gpu> gpus;
};

struct Machine {
  Shape shape;
  std::vector<Host> hosts;
  std::vector<std::vector<double>> uplinks;  // by leaf switch and rail, rate relative to a typical one
  std::vector<Fault> between;                // faults of pairs of hosts

  const Gpu& gpu(int rank) const { return host(rank).gpus[static_cast<std::size_t>(rank % shape.gpus)]; }
  const Host& host(int rank) const { return hosts[static_cast<std::size_t>(rank / shape.gpus)]; }
  double uplink(int rank) const {
    return uplinks[static_cast<std::size_t>(rank / shape.gpus / shape.leaf_hosts)]
                  [static_cast<std::size_t>(rank % shape.gpus)];
  }

  /// Returns the share of the rate that two hosts reach on a rail; nullopt if there is no answer.
  std::optional<double> path(int host, int other, int rail) const;
  /// Returns the share of their rate that two hosts reach in an AllReduce.
  double sum(int host, int other) const;
};

/// Returns the machine. Equal arguments give equal machines. Faults keep their places.
Machine make_machine(const Shape&, const Noise&, const std::vector<Fault>&, std::uint64_t seed);

/// Chooses places for faults: separate hosts and GPUs if there are enough.
std::vector<Fault> placed(std::vector<Fault>, const Shape&, std::uint64_t seed);

}  // namespace shakedown::rehearsal
