// The machine of a simulated run: the properties of every GPU, host and leaf switch.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "thresholds/rehearsal/fault.hpp"
#include "thresholds/rehearsal/noise.hpp"

namespace shakedown::rehearsal {

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
  double f64 = 1, sustained = 1, copy = 1;  // additional factors for these rows only
  double out = 1, in = 1;                   // its ports
  int links_up = 18;
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
  std::vector<double> uplinks;  // by leaf switch, rate relative to a typical one

  const Gpu& gpu(int rank) const { return host(rank).gpus[static_cast<std::size_t>(rank % shape.gpus)]; }
  const Host& host(int rank) const { return hosts[static_cast<std::size_t>(rank / shape.gpus)]; }
  double uplink(int rank) const { return uplinks[static_cast<std::size_t>(rank / shape.gpus / shape.leaf_hosts)]; }
};

/// Returns the machine. Equal arguments give equal machines. Faults keep their places.
Machine make_machine(const Shape&, const Noise&, const std::vector<Fault>&, std::uint64_t seed);

/// Chooses places for faults: separate hosts and GPUs if there are enough.
std::vector<Fault> placed(std::vector<Fault>, const Shape&, std::uint64_t seed);

}  // namespace shakedown::rehearsal
