// Decides what a metric means (unit, direction, who shares it, what is healthy) and which value is physically
// impossible. A floor above its ceiling is a mistake in a profile, a measurement above it is a mistake in the
// measurement (data that stayed in a cache, a missing synchronisation, bytes counted twice). Tested by
// tests/thresholds_test.cpp.
#include "thresholds/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/key.hpp"

namespace shakedown {
namespace {

using Bound = std::optional<double>;
using Text = std::string_view;

Bound peak(const Peaks& peaks, const std::string& name, double factor = 1) {
  const auto found = peaks.find(name);
  return found == peaks.end() ? std::nullopt : Bound(found->second * factor);
}

Bound times(Bound value, double factor) { return value ? Bound(*value * factor) : std::nullopt; }

// ---------------------------------------------------------------------------------------------------------------------
// Ceilings

// Data sheets state tensor cores at a lower clock than the highest.
Bound tflops_of_type(const Peaks& peaks, Text key, const Scale& scale) {
  const Text dtype = key_part(key, "dtype");
  const auto bound = peak(peaks, std::string(dtype) + "_tflops"), rated = peak(peaks, "tensor_mhz");
  if (!rated || dtype == "f32" || dtype == "f64") return bound;
  return times(bound, std::max(1.0, scale.sm_mhz_max / *rated));
}

Bound hbm(const Peaks& peaks, Text, const Scale&) { return peak(peaks, "hbm_gb_per_s"); }

Bound hbm_copy(const Peaks& peaks, Text, const Scale&) { return peak(peaks, "hbm_gb_per_s", 0.5); }  // read and written

Bound link_copy(const Peaks& peaks, Text key, const Scale&) {
  return peak(peaks, "nvlink_gb_per_s", key_part(key, "dir") == "both" ? 2 : 1);
}

// The fastest way from any host to a GPU: NVLink-C2C of Grace, 450 GB/s each way. What a PCIe link carries is less, and
// is judged where the run says which link it has (thresholds/validity.cpp).
constexpr double host_link_gb_per_s = 450;

Bound host_copy(const Peaks&, Text key, const Scale&) {
  return (key_part(key, "op") == "both" ? 2 : 1) * host_link_gb_per_s;
}

// Of 16 flits on an NVLink at most 15 carry data.
constexpr double nvlink_payload = 15.0 / 16;

// Bus bandwidth. Inside one NVLink domain each GPU must move at least 2(n-1)/n of the data over its links when the
// switch adds nothing, and half of that when it adds (NVLS), so the ring formula may show up to 2(n-1)/n of the link.
// Over m hosts, with B the network of one host: a hierarchical AllReduce moves (m-1)/m of the data, twice, over B.
// Network ports are sold in gigabit.
Bound allreduce_busbw(const Peaks& peaks, Text, const Scale& scale) {
  const double n = scale.ranks, m = scale.hosts;
  if (n < 2) return std::nullopt;
  if (m == 1) return peak(peaks, "nvlink_gb_per_s", scale.nvls ? 2 * (n - 1) / n : nvlink_payload);
  const auto nics = peak(peaks, "nics");
  const double crossings = scale.nvls ? 2 : m / (m - 1);  // switches that add need each part once
  return nics ? peak(peaks, "nic_gbit", *nics / 8 * (n - 1) / n * crossings) : std::nullopt;
}

Bound allreduce_algbw(const Peaks& peaks, Text key, const Scale& scale) {
  return scale.ranks < 2 ? std::nullopt
                         : times(allreduce_busbw(peaks, key, scale), scale.ranks / (2.0 * (scale.ranks - 1)));
}

// The bus bandwidth of the other collectives is what some GPU must send or receive over its links. algbw is busbw over
// (n-1)/n or over 1.
Bound collective_busbw(const Peaks& peaks, Text, const Scale& scale) {
  if (scale.ranks < 2 || scale.hosts > 1) return std::nullopt;
  return peak(peaks, "nvlink_gb_per_s", scale.nvls ? 1 : nvlink_payload);
}

Bound collective_algbw(const Peaks& peaks, Text key, const Scale& scale) {
  return times(collective_busbw(peaks, key, scale), scale.ranks / (scale.ranks - 1.0));
}

// One GPU may use all NICs of its host when the others are idle; here all work at once.
Bound pair_busbw(const Peaks& peaks, Text, const Scale& scale) {
  const auto nics = peak(peaks, "nics");
  return nics ? peak(peaks, "nic_gbit", *nics / 8 * scale.hosts / scale.ranks) : std::nullopt;
}

Bound model_tflops(const Peaks& peaks, Text key, const Scale&) {
  const Text dtype = key_part(key, "dtype");
  return peak(peaks, std::string(dtype.empty() ? "bf16" : dtype) + "_tflops");
}

Bound model_tokens(const Peaks& peaks, Text key, const Scale&) {
  return key_part(key, "model") == "qwen2_7b" ? peak(peaks, "bf16_tflops", 1e12 / qwen2_7b_flops_per_token)
                                              : std::nullopt;
}

Bound one(const Peaks&, Text, const Scale&) { return 1; }

// ---------------------------------------------------------------------------------------------------------------------
// The catalogue

constexpr bool yes = true;
constexpr ValueRange not_negative = ValueRange::not_negative;

// What is healthy among peers comes from four H200 of one node in three launches (ci/baselines, tests/data; 2026-11),
// and for chip to chip at fleet scale from what is published: 5 % and more inside a node is usual for raw GEMM
// (ml-engineering). Raw GEMM: healthy GPUs of one node differ by up to 13 % in bursts, each somewhere else between full
// clock and its power limit; chips of one cluster by 22 % at the most (Sinha et al., SC22, arXiv 2208.11035v3), which
// of a time is 28 %. Per GHz the same GPUs agree within 0.9 %. HBM within
// 0.2 %, copies over NVLink within 0.1 %. 3 % is the least that is worth a person's time.
// What is left of a rank's rate when all work (least_scaling): GEMM shares the supply and the air of a node, a training
// step the links too.
// clang-format off
constexpr std::array catalogue{
    Metric{.family = "gemm", .name = "tflops_per_ghz", .what = "the same per clock: what the silicon does",
           .range = not_negative, .is_telemetry = yes, .peers = PeerClass{0.002, 0.0022, 0.035, 0.012}},
    Metric{.family = "gemm", .name = "tflops", .what = "rate of a matrix product", .headline = 1, .of_slowest = yes,
           .peers = PeerClass{0.025, 0, 0.22, 0.22, true}, .ceiling = tflops_of_type, .least_scaling = 0.8},
    Metric{.family = "gemm", .name = "tflops_per_w", .what = "the same per watt", .range = not_negative,
           .is_telemetry = yes},
    Metric{.family = "hbm", .name = "hbm_gb_per_s", .what = "what is read and written", .headline = 2,
           .of_slowest = yes, .peers = PeerClass{0.0006, 0.0007, 0.03, 0.012}, .ceiling = hbm, .least_scaling = 0.95},
    Metric{.family = "hbm", .name = "copy_gb_per_s", .what = "bytes of the copy, counted once", .headline = 3,
           .of_slowest = yes, .ceiling = hbm_copy},
    Metric{.family = "memtest", .name = "hbm_gb_per_s", .what = "pace of the memory test", .headline = 2,
           .of_slowest = yes, .peers = PeerClass{0.01, 0, 0.06, 0.06}, .ceiling = hbm},
    Metric{.family = "memtest", .name = "capacity_gb", .what = "memory that was tested", .range = not_negative,
           .peers = PeerClass{0.001, 0, 0.02, 0.02}},
    Metric{.family = "p2p", .name = "copy_gb_per_s", .what = "copy between two GPUs", .headline = 3,
           .of_slowest = yes, .peers = PeerClass{0.0005, 0.0005, 0.03, 0.03}, .ceiling = link_copy},
    Metric{.family = "p2p", .name = "latency_us", .what = "one access to the memory of another GPU", .headline = 7,
           .of_slowest = yes, .peers = PeerClass{0.02, 0, 0.20, 0.20}},
    Metric{.family = "pcie", .part = "active:one", .name = "copy_gb_per_s", .what = "copy between host and one GPU",
           .headline = 3, .of_slowest = yes, .peers = PeerClass{0.005, 0, 0.05, 0.05}, .ceiling = host_copy},
    // All at once: what the host's bridges and memory leave to each.
    Metric{.family = "pcie", .name = "copy_gb_per_s", .what = "copy between host and GPU", .headline = 3,
           .of_slowest = yes, .peers = PeerClass{0.03, 0, 0.20, 0.20}, .ceiling = host_copy},
    Metric{.family = "allreduce", .part = "scope:node", .name = "busbw_gb_per_s",
           .what = "AllReduce inside each host", .headline = 4, .shared = yes, .of_slowest = yes,
           .peers = PeerClass{0.01, 0, 0.05, 0.05}, .ceiling = allreduce_busbw},
    Metric{.family = "allreduce", .name = "busbw_gb_per_s", .what = "AllReduce, as the busiest link sees it",
           .headline = 4, .shared = yes, .of_slowest = yes, .ceiling = allreduce_busbw},
    Metric{.family = "allreduce", .name = "algbw_gb_per_s", .what = "AllReduce, size over time", .shared = yes,
           .ceiling = allreduce_algbw},
    Metric{.family = "allreduce", .name = "latency_us", .what = "time of one AllReduce", .headline = 7,
           .shared = yes, .of_slowest = yes},
    Metric{.family = "allreduce", .name = "p50_us", .what = "median time of one AllReduce", .shared = yes},
    Metric{.family = "allreduce", .name = "p999_us", .what = "99.9 % of AllReduces take at most", .shared = yes},
    Metric{.family = "allreduce", .name = "max_us", .what = "the slowest AllReduce", .shared = yes},
    Metric{.family = "collectives", .name = "busbw_gb_per_s", .what = "collective, as the busiest link sees it",
           .headline = 4, .shared = yes, .of_slowest = yes, .ceiling = collective_busbw},
    Metric{.family = "collectives", .name = "algbw_gb_per_s", .what = "collective, size over time", .shared = yes,
           .ceiling = collective_algbw},
    Metric{.family = "collectives", .name = "latency_us", .what = "time of one collective", .headline = 7,
           .shared = yes, .of_slowest = yes},
    Metric{.family = "pairs", .name = "busbw_gb_per_s", .what = "of a pair of hosts, each way, over one rail",
           .headline = 4, .ceiling = pair_busbw},
    Metric{.family = "pairs", .name = "partner", .what = "the rank that it worked with", .range = ValueRange::any},
    Metric{.family = "pairs", .name = "seed", .what = "of the shuffle of hosts", .range = ValueRange::any},
    Metric{.family = "lora_step", .name = "tokens_per_s", .what = "tokens of each GPU, as the slowest rank has them",
           .headline = 5, .shared = yes, .of_slowest = yes, .ceiling = model_tokens, .least_scaling = 0.85},
    Metric{.family = "lora_step", .name = "tokens_per_s_total", .what = "tokens of all GPUs", .shared = yes},
    Metric{.family = "lora_step", .name = "step_ms", .what = "time of a training step", .headline = 6,
           .shared = yes},
    Metric{.family = "lora_step", .name = "model_tflops", .what = "model FLOPS reached", .shared = yes,
           .ceiling = model_tflops},
    Metric{.family = "lora_step", .name = "mfu", .what = "model FLOPS over the dense peak", .range = not_negative,
           .shared = yes, .ceiling = one},
    Metric{.family = "lora_step", .name = "compute_ms", .what = "a rank's own work in a step: mostly GEMM",
           .peers = PeerClass{0.025, 0, 0.28, 0.28, true}},
    Metric{.family = "lora_step", .name = "forward_ms", .what = "forward pass"},
    Metric{.family = "lora_step", .name = "backward_ms", .what = "backward pass"},
    Metric{.family = "lora_step", .name = "optimizer_ms", .what = "optimizer"},
    Metric{.family = "lora_step", .name = "exposed_comm_ms", .what = "AllReduce that no work hides",
           .range = not_negative},
    Metric{.family = "lora_step", .name = "p50_us", .what = "median time of a step", .shared = yes},
    Metric{.family = "lora_step", .name = "max_us", .what = "the slowest step", .shared = yes},
    Metric{.family = "lora_step", .name = "planned_gb", .what = "memory planned", .range = not_negative},
    Metric{.family = "lora_step", .name = "peak_gb", .what = "memory used at most", .range = not_negative},
    Metric{.family = "", .name = "cv", .what = "standard deviation over mean of the samples", .range = not_negative},
    Metric{.family = "", .name = "samples", .what = "samples taken"},
    Metric{.family = "", .name = "seconds", .what = "time of one operation of a rank"},
    Metric{.family = "", .name = "bytes_per_second", .what = "Google Benchmark's own figure"},
    Metric{.family = "", .name = "items_per_second", .what = "Google Benchmark's own figure"},
    Metric{.family = "", .name = "arrival_us", .what = "how much later than the first a rank began",
           .range = not_negative},
    Metric{.family = "", .name = "p99_us", .what = "99 % of samples take at most"},
    Metric{.family = "", .name = "sm_mhz", .what = "clock while it worked", .range = not_negative,
           .is_telemetry = yes},
    Metric{.family = "", .name = "power_w", .what = "power while it worked", .range = not_negative,
           .is_telemetry = yes},
    Metric{.family = "", .name = "temperature_c", .what = "temperature while it worked", .range = not_negative,
           .is_telemetry = yes},
    Metric{.family = "", .name = "throttled", .what = "part of the time in which the clock was held down",
           .range = not_negative, .is_telemetry = yes},
};
// clang-format on

// Names end in their unit.
struct Unit {
  Text end, unit;
  bool lower_is_better = false;
};
constexpr std::array<Unit, 17> units{{{"tflops", "TFLOPS"},
                                      {"tflops_per_ghz", "TFLOPS/GHz"},
                                      {"tflops_per_w", "TFLOPS/W"},
                                      {"_gb_per_s", "GB/s"},
                                      {"_gb", "GB"},
                                      {"_us", "us", yes},
                                      {"_ms", "ms", yes},
                                      {"power_w", "W"},
                                      {"power_limit_w", "W"},
                                      {"temperature_c", "C", yes},
                                      {"_c", "C"},
                                      {"_mhz", "MHz"},
                                      {"_gbit", "Gb/s"},
                                      {"tokens_per_s", "tokens/s"},
                                      {"tokens_per_s_total", "tokens/s"},
                                      {"seconds", "", yes},
                                      {"throttled", "", yes}}};

const Unit* find_unit(Text metric) {
  const auto found = std::find_if(units.begin(), units.end(), [&](const Unit& u) { return metric.ends_with(u.end); });
  return found == units.end() ? nullptr : &*found;
}

}  // namespace

std::span<const Metric> metrics() { return catalogue; }

const Metric* find_metric(Text key, Text name) {
  const std::string family = family_of(key);
  const auto found = std::find_if(catalogue.begin(), catalogue.end(), [&](const Metric& m) {
    return m.name == name && (m.family.empty() || m.family == family) &&
           (m.part.empty() || key.find(m.part) != Text::npos);
  });
  return found == catalogue.end() ? nullptr : &*found;
}

std::optional<PeerClass> peer_class(Text key, Text metric) {
  const Metric* row = find_metric(key, metric);
  return row == nullptr ? std::nullopt : row->peers;
}

bool is_catalogued(Text family) {
  return std::any_of(catalogue.begin(), catalogue.end(), [&](const Metric& m) { return m.family == family; });
}

std::optional<double> ceiling(const Peaks& peaks, Text key, Text metric, const Scale& scale) {
  const Metric* row = find_metric(key, metric);
  if (row == nullptr || row->ceiling == nullptr) return std::nullopt;
  const bool inside_hosts = key_part(key, "scope") == "node";
  return row->ceiling(peaks, key,
                      inside_hosts ? Scale{scale.ranks / scale.hosts, 1, scale.nvls, scale.sm_mhz_max} : scale);
}

bool is_telemetry(Text metric) {
  return std::any_of(catalogue.begin(), catalogue.end(),
                     [&](const Metric& m) { return m.is_telemetry && m.name == metric; });
}

bool is_shared(Text key, Text metric) {
  const Metric* row = find_metric(key, metric);
  return is_collective(family_of(key)) || (row != nullptr && row->shared);
}

bool is_collective(Text family) { return family == "allreduce" || family == "collectives"; }

// Five stored launches of 2 and 4 H200 (ci/baselines): of small messages, whose time is how fast the host starts them,
// 12 %, at 1 MiB up to 8 % between two launches; of PCIe with all GPUs at once 4 %.
double launch_spread(Text key, Text metric) {
  const std::string family = family_of(key);
  if (family == "gemm") return 0.007;
  if (family == "lora_step") return 0.004;
  if (family == "pcie" && key_part(key, "active").empty()) return 0.04;
  if (!is_collective(family)) return 0.002;
  if (key_part(key, "launch") == "graph") return 0.01;
  if (metric == "latency_us") return 0.12;
  return key_number(key, "bytes").value_or(0) < 16 << 20 ? 0.02 : 0.005;
}

std::string unit_of(Text metric) {
  const Unit* unit = find_unit(metric);
  return std::string(unit == nullptr ? "" : unit->unit);
}

bool lower_is_better(Text metric) {
  const Unit* unit = find_unit(metric);
  return metric == "cv" || (unit != nullptr && unit->lower_is_better);
}

std::string number_text(double value) {
  return std::abs(value) >= 1e5 && std::abs(value) < 1e18 ? fmt::format("{:.0f}", value) : fmt::format("{:.5g}", value);
}

}  // namespace shakedown
