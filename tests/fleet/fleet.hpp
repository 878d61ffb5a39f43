// Made-up fleets for judging the judge: the result documents of one run on any number of hosts and GPUs, with the noise
// of real fleets and with planted faults. A stored real run is the template; what its rows have, these have. Written
// without a look at how the judge decides.
//
// Seeds: 1 to 999 are for tuning a judge, 1000000 and up are held out for the figures that are published. Never mix
// them, and never look into a held-out fleet to change a limit.
//
// What is modelled: every GPU has a clock of its own at the power cap (chips, racks, lots, drift) and tflops follow it;
// memory, links and PCIe hardly differ; a figure limited by a wire is never faster than the fastest stored one; ranks
// wait for each other, so that run values, collectives and the training step follow the slowest. Collectives of n ranks
// keep the template's busbw inside a host; between hosts 8 NICs of 400 Gbit/s at 92 % bound them, and latency grows
// with the logarithm. What is not: correlation of errors with speed, samples within a row, the matrices of pairs (which
// the reader makes from the rows).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tests/fleet/fault.hpp"
#include "tests/fleet/noise.hpp"

namespace shakedown::fleet {

struct Plan {
  std::filesystem::path source;  // folder of a stored run of one host with four GPUs
  Noise noise;
  int hosts = 1, gpus = 8, hosts_per_rack = 4;
  std::uint64_t seed = 1, launch = 1;  // chips, racks and lots hang on the seed alone
  std::vector<Fault> faults;
};

class Fleet {
 public:
  /// Errors: std::runtime_error for a template that lacks a family, and for a fault at a rank or host that is not
  /// there.
  explicit Fleet(const Plan&);
  ~Fleet();

  int ranks() const;
  std::string host(int index) const;
  std::vector<std::string> families() const;
  /// One result document.
  void write(const std::string& family, std::ostream&) const;
  /// All of them, as <folder>/<family>.json; older ones there are replaced.
  void write(const std::filesystem::path& folder) const;
  Guilty guilty(const Fault&) const;

 private:
  struct Made;
  std::unique_ptr<Made> made_;
};

}  // namespace shakedown::fleet
