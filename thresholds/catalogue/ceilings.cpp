// Physical ceilings of metrics. A floor above its ceiling is a mistake in a profile. A measurement above it is a
// mistake in the measurement: data from a cache, a missing synchronisation, bytes counted twice.
#include <algorithm>
#include <string>

#include "thresholds/catalogue/bounds.hpp"
#include "thresholds/catalogue/metrics.hpp"

namespace shakedown::ceilings {
namespace {

using Text = std::string_view;

Bound peak(const Peaks& peaks, const std::string& name, double factor = 1) {
  const auto found = peaks.find(name);
  return found == peaks.end() ? std::nullopt : Bound(found->second * factor);
}

// True for types of tensor cores. Data sheets give their peaks at a lower clock than the highest one.
bool by_tensor_cores(Text dtype) { return dtype != "f32" && dtype != "f64"; }

// The fraction of the rate of an NVLink of generation 4 that carries data. The link moves flits of 16 bytes, and 15 of
// 16 flits carry packets (`nvlink_flits`: 450 GB/s become 421.9 each way). Copy engines send lines of 256 bytes after
// one flit of header; kernels send lines of 128 bytes. If all GPUs read at once, each link also carries a flit of
// request for each line that its own GPU reads. A GPU may be faster than that if its partner reads less (421.9 x 128 =
// 345.4 x 144 + 265.3 x 16), so the ceiling is the rate of a GPU that reads alone. Computed, and measured on four H200
// (ci/baselines, 2026-11):
//   copy engine, one way   421.9 x 256/272 = 397.1    396.1 to 396.7
//   kernel, one way        421.9 x 128/144 = 375.0    369.2 (writes, with their acknowledgements); nvbandwidth 376.2
//   kernels read at once   421.9 x 128/160 = 337.5    337.3 to 338.0
// Acknowledgements, which take 1 to 2 % of a write, are not included, so a ceiling may be too high. The cost of packets
// on other generations was not measured, so their ceiling is the rate of the link.
constexpr double max_flit_share = 15.0 / 16, header = 16, engine_line = 256, kernel_line = 128;

double payload(Text engine) {
  const double line = engine == "sm" ? kernel_line : engine_line;
  return line / (line + header);
}

// Returns the part of a link's rate that the data of a collective can use, if switches do not reduce. The result is
// that of the fastest kind of copies.
double link_of_collective(const Peaks& peaks) {
  const auto flits = peak(peaks, "nvlink_flits");
  return flits ? *flits * payload("ce") : max_flit_share;
}

/// Returns the type of a row's products as peaks name it.
Text type_of(const Key& key) {
  const Text dtype = key.part("dtype");
  return dtype == "fp8" ? Text("fp8_e4m3") : dtype;
}

}  // namespace

Bound tflops_of_type(const Peaks& peaks, const Key& key, const Scale& scale) {
  const Text dtype = type_of(key);
  const auto bound = peak(peaks, std::string(dtype) + "_tflops"), rated = peak(peaks, "tensor_mhz");
  if (!rated || !by_tensor_cores(dtype)) return bound;
  return times(bound, std::max(1.0, scale.sm_mhz_max / *rated));
}

// Returns SMs x FLOP per clock, computed from the peak and its clock. For bf16 on H200 it is 132 x 4096 = 540.7, of
// which products reach 95 to 98 %; for f64 it is 33.8.
Bound tflops_per_clock(const Peaks& peaks, const Key& key, const Scale& scale) {
  const Text dtype = key.part("dtype");
  const auto rated = by_tensor_cores(dtype) ? peak(peaks, "tensor_mhz")
                     : scale.sm_mhz_max > 0 ? Bound(scale.sm_mhz_max)
                                            : std::nullopt;
  return rated ? peak(peaks, std::string(dtype) + "_tflops", 1e3 / *rated) : std::nullopt;
}

Bound hbm(const Peaks& peaks, const Key&, const Scale&) { return peak(peaks, "hbm_gb_per_s"); }

Bound hbm_copy(const Peaks& peaks, const Key&, const Scale&) {
  return peak(peaks, "hbm_gb_per_s", 0.5);
}  // the vector is read and written

Bound link_copy(const Peaks& peaks, const Key& key, const Scale&) {
  const auto flits = peak(peaks, "nvlink_flits");
  return peak(peaks, "nvlink_gb_per_s",
              (key.part("dir") == "both" ? 2 : 1) * (flits ? *flits * payload(key.part("engine")) : 1));
}

// Returns the rate between host memory and a GPU: that of NVLink-C2C, which connects the memory of Grace, if the
// profile has it; else that of the link that pre-flight read; else that of the fastest link from any host to a GPU.
Bound host_copy(const Peaks& peaks, const Key& key, const Scale& scale) {
  constexpr double max_gb_per_s = 450;
  const double link = scale.pcie_gb_per_s > 0 ? scale.pcie_gb_per_s : max_gb_per_s;
  return (key.part("op") == "both" ? 2 : 1) * peak(peaks, "c2c_gb_per_s").value_or(link);
}

// Returns the largest bus bandwidth of AllReduce. Inside one NVLink domain, each GPU must move at least 2(n-1)/n of the
// data over its links without reduction in the switch, and half of that with reduction (NVLS), so by the ring formula
// busbw can reach 2(n-1)/n of the link. Over m hosts with a network of rate B per host, a hierarchical AllReduce moves
// (m-1)/m of the data twice over B. Network rates are in gigabit.
Bound allreduce_busbw(const Peaks& peaks, const Key&, const Scale& scale) {
  const double n = scale.ranks, m = scale.hosts;
  if (n < 2) return std::nullopt;
  if (m == 1) return peak(peaks, "nvlink_gb_per_s", scale.nvls ? 2 * (n - 1) / n : link_of_collective(peaks));
  const auto nics = peak(peaks, "nics");
  const double crossings = scale.nvls ? 2 : m / (m - 1);  // with NVLS, each part of the data moves once
  return nics ? peak(peaks, "nic_gbit", *nics / 8 * (n - 1) / n * crossings) : std::nullopt;
}

Bound allreduce_algbw(const Peaks& peaks, const Key& key, const Scale& scale) {
  return scale.ranks < 2 ? std::nullopt
                         : times(allreduce_busbw(peaks, key, scale), scale.ranks / (2.0 * (scale.ranks - 1)));
}

// Returns the largest busbw of other collectives: the rate at which some GPU must send or receive over its links. algbw
// is busbw over (n-1)/n or over 1.
Bound collective_busbw(const Peaks& peaks, const Key&, const Scale& scale) {
  if (scale.ranks < 2 || scale.hosts > 1) return std::nullopt;
  return peak(peaks, "nvlink_gb_per_s", scale.nvls ? 1 : link_of_collective(peaks));
}

Bound collective_algbw(const Peaks& peaks, const Key& key, const Scale& scale) {
  return times(collective_busbw(peaks, key, scale), scale.ranks / (scale.ranks - 1.0));
}

// A single GPU could use all NICs of its host, but here all GPUs work at once. An AllReduce of two hosts has the same
// limit as one of all hosts with m = 2, because reduction in switches does not help there.
Bound pair_busbw(const Peaks& peaks, const Key& key, const Scale& scale) {
  const auto nics = peak(peaks, "nics");
  const double n = 2.0 * scale.ranks / scale.hosts;
  if (nics && key.part("op") == "allreduce") return peak(peaks, "nic_gbit", *nics / 8 * 2 * (n - 1) / n);
  return nics ? peak(peaks, "nic_gbit", *nics / 8 * scale.hosts / scale.ranks) : std::nullopt;
}

Bound model_tflops(const Peaks& peaks, const Key& key, const Scale&) {
  const Text dtype = key.part("dtype");
  return peak(peaks, std::string(dtype.empty() ? "bf16" : dtype) + "_tflops");
}

Bound model_tokens(const Peaks& peaks, const Key& key, const Scale&) {
  const Model* model = find_model(key);
  return model != nullptr && model->flops_per_token > 0 ? peak(peaks, "bf16_tflops", 1e12 / model->flops_per_token)
                                                        : std::nullopt;
}

Bound one(const Peaks&, const Key&, const Scale&) { return 1; }

Bound memory(const Peaks&, const Key&, const Scale& scale) { return known(scale.memory_gb); }

// Clocks have steps of 15 MHz. An H100 whose driver reports 1,980 MHz as the highest clock ran at 1,995 for whole
// launches, and at 2,009 in a row of 0.2 s.
Bound clock(const Peaks&, const Key&, const Scale& scale) {
  return scale.sm_mhz_max > 0 ? Bound(scale.sm_mhz_max + 2 * 15) : std::nullopt;
}

// A GPU can take 1.1 times its power limit for some ms (memtest), and never takes more than twice the limit.
Bound power(const Peaks&, const Key&, const Scale& scale) { return known(2 * scale.power_limit_w); }

// A GPU reduces its clock at about 90 C, and shuts down above 100 C.
Bound heat(const Peaks&, const Key&, const Scale&) { return 120; }

}  // namespace shakedown::ceilings
