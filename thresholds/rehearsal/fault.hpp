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
/// - nic: the NIC of one rail of a host. leaf: the ports of a leaf switch to other leaves.
/// - copy: reads of one GPU by its copy engine.
enum class Weakness { gemm, hbm, gpu, link, lane, nic, nics, leaf, host, sustained, f64, copy, processor };
constexpr auto words(Weakness) {
  return names("gemm", "hbm", "gpu", "link", "lane", "nic", "nics", "leaf", "host", "sustained", "f64", "copy",
               "processor");
}

struct Fault {
  Weakness what = Weakness::gemm;
  double part = 0;  // of the rate that is lost; for a host, of products, and half of it of memory
  int host = 0, local = 0;

  bool is_of_gpu() const;
  friend bool operator==(const Fault&, const Fault&) = default;
};

/// Parses "gemm:0.03", or several faults as in "hbm:0.04+link:0.2". The seed gives each its own host and GPU. Errors:
/// InputError.
std::vector<Fault> parse_faults(std::string_view text);

}  // namespace shakedown::rehearsal
