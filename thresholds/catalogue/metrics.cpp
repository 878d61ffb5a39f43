// The table of metrics (unit, direction, shared or by rank, variation of healthy devices) and their physical limits.
// The file is long because it is one table. A floor above its ceiling is an error of the profile. A value above the
// ceiling is an error of the measurement: data from a cache, a missing synchronisation, or bytes counted twice.
#include "thresholds/catalogue/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <unordered_map>
#include <vector>

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

// True for types of tensor cores. Data sheets give their peaks at a lower clock than the highest one.
bool by_tensor_cores(Text dtype) { return dtype != "f32" && dtype != "f64"; }

Bound tflops_of_type(const Peaks& peaks, const Key& key, const Scale& scale) {
  const Text dtype = key.part("dtype");
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
}  // read and written

// The share of data on an NVLink of generation 4. It moves flits of 16 bytes, of which 15 of 16 carry packets
// (`nvlink_flits`: 450 GB/s become 421.9 each way). Copy engines send lines of 256 bytes with one flit before them as
// header, kernels lines of 128; where all GPUs read at once, each link also carries one flit of request for each line
// that its own kernels read: a GPU may get more than that where its partner reads less (345.4 beside 265.3, as
// reckoned: 421.9 x 128 = 345.4 x 144 + 265.3 x 16), up to what one has that reads alone, which is its ceiling.
// Measured on four H200 (ci/baselines, 2026-11; one access of 256 bytes more or less in all):
//   copy engine, one way   421.9 x 256/272 = 397.1    396.1 to 396.7
//   kernel, one way        421.9 x 128/144 = 375.0    369.2 (writes, with their acknowledgements); nvbandwidth 376.2
//   kernels read at once   421.9 x 128/160 = 337.5    337.3 to 338.0
// Acknowledgements, 1 to 2 % of a write, are left out: a ceiling may be too high. For other generations there is no
// measured what packets cost: there the link is the ceiling.
constexpr double most_flits = 15.0 / 16, header = 16, engine_line = 256, kernel_line = 128;

double payload(Text engine) {
  const double line = engine == "sm" ? kernel_line : engine_line;
  return line / (line + header);
}

Bound link_copy(const Peaks& peaks, const Key& key, const Scale&) {
  const auto flits = peak(peaks, "nvlink_flits");
  return peak(peaks, "nvlink_gb_per_s",
              (key.part("dir") == "both" ? 2 : 1) * (flits ? *flits * payload(key.part("engine")) : 1));
}

// Returns the part of a link's rate that the data of a collective can use, if switches do not reduce. It is the best of
// all kinds of copies.
double link_of_collective(const Peaks& peaks) {
  const auto flits = peak(peaks, "nvlink_flits");
  return flits ? *flits * payload("ce") : most_flits;
}

// The profile's NVLink-C2C, which is the way to the memory of Grace; else the link that pre-flight read, else the fastest
// link from any host to a GPU.
Bound host_copy(const Peaks& peaks, const Key& key, const Scale& scale) {
  constexpr double fastest = 450;
  const double link = scale.pcie_gb_per_s > 0 ? scale.pcie_gb_per_s : fastest;
  return (key.part("op") == "both" ? 2 : 1) * peak(peaks, "c2c_gb_per_s").value_or(link);
}

// Bus bandwidth. Inside one NVLink domain each GPU must move at least 2(n-1)/n of the data over its links without
// reduction in the switch, and half of that with it (NVLS). By the ring formula busbw can therefore reach 2(n-1)/n of
// the link. Over m hosts, with B the network of one host, a hierarchical AllReduce moves (m-1)/m of the data twice over
// B. Network rates are in gigabit.
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

Bound known(double value) { return value > 0 ? Bound(value) : std::nullopt; }

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

// ---------------------------------------------------------------------------------------------------------------------
// Work

// Returns the size in bytes from the first number in "bf16", "fp8_e4m3" or "int8".
double element_bytes(Text dtype) {
  const auto digit = dtype.find_first_of("0123456789");
  return digit == Text::npos ? 0 : std::atof(std::string(dtype.substr(digit)).c_str()) / 8;
}

// Returns busbw / algbw as nccl-tests defines it (kernels/ops/collective.hpp).
double bus_factor(const Key& key, int ranks) {
  const double n = ranks;
  const Text op = key.part("op");
  if (key.family() == "allreduce") return 2 * (n - 1) / n;
  return op == "all_gather" || op == "reduce_scatter" || op == "alltoall" ? (n - 1) / n : 1;
}

// Returns the bytes that a collective really moves, because three operations round up to whole parts for each rank.
double collective_bytes(const Key& key, double bytes, int ranks) {
  const Text op = key.part("op");
  if (op != "all_gather" && op != "reduce_scatter" && op != "alltoall") return bytes;
  const double element = element_bytes(key.part("dtype")), part = bytes / ranks;
  if (!(element > 0) || std::fmod(part, element) == 0) return bytes;
  const double unit = part >= 16 ? 16 : element;
  return std::max(std::floor(part / unit) * unit, element) * ranks;
}

/// Returns the ranks of one operation; for scope:node these are the ranks of a host.
Scale of_group(const Key& key, Scale scale) {
  if (key.part("scope") != "node") return scale;
  scale.ranks /= scale.hosts;
  scale.hosts = 1;
  return scale;
}

// For each model: the operations of a step per token, and the parameters whose gradients it reduces over ranks.
constexpr std::array<Model, 9> models{{{"lora_step", "qwen2_7b", 32.13e9, 161480704},
                                       {"lora_step", "qwen2_7b_attention_only", 0, 40370176},
                                       {"train_step", "gpt2_124m", 0.8075e9, 124475904},
                                       {"train_step", "encoder_163m", 0.8075e9, 162764928},
                                       {"train_step", "qwen2_7b", 45.30e9, 7615616512},
                                       {"train_step", "qwen2_7b_8_layers", 15.28e9, 2954460672},
                                       {"train_step", "llama_8b", 48.78e9, 8030261248},
                                       {"train_step", "llama_8b_8_layers", 14.56e9, 2795573248},
                                       {"checkpoint", "gpt2_124m", 0, 124475904}}};

/// The work of one operation of a benchmark on one rank, computed from its key; 0 if the key does not define it.
struct Operation {
  double flops = 0, bytes = 0, tokens = 0, accesses = 0;
};

double number(const Key& key, Text part) { return static_cast<double>(key.number(part).value_or(0)); }

// Returns a walk over cache lines (kernels/chase.hpp), with at most 4096 in local memory (kernels/ops/latency.hpp).
Operation walk_of(const Key& key, const Scale&) {
  double accesses = 1;
  while (2 * accesses * 128 <= number(key, "bytes")) accesses *= 2;
  if (key.family() == "hbm") accesses = std::min(accesses, 4096.0);
  return {.bytes = 8 * accesses, .accesses = accesses};
}
Operation quanta_of(const Key& key, const Scale&) { return {.flops = 2 * 65536 * number(key, "quanta")}; }
Operation launch_of(const Key& key, const Scale&) {
  return {.bytes = 16 * (key.part("op") == "graph" ? number(key, "kernels") : 1)};
}
Operation product_of(const Key& key, const Scale&) {
  return {.flops = 2 * number(key, "m") * number(key, "n") * number(key, "k")};
}
Operation stream_of(const Key& key, const Scale&) {
  const Text op = key.part("op");
  const int arrays = op == "read" || op == "write" ? 1 : op == "copy" || op == "scale" ? 2 : 3;
  return {.bytes = number(key, "bytes") * arrays};
}
// Counts a write and a read; moving inversions do both three times (kernels/ops/memory.hpp).
Operation test_of(const Key& key, const Scale& scale) {
  return {.bytes = 2e9 * scale.tested_gb * (key.part("pattern") == "moving" ? 3 : 1)};
}
Operation copy_of(const Key& key, const Scale&) {
  const bool both_ways = key.part("op") == "both" || key.part("dir") == "both";
  return {.bytes = number(key, "bytes") * (both_ways ? 2 : 1)};
}
Operation collective_of(const Key& key, const Scale& scale) {
  return {.bytes = collective_bytes(key, number(key, "bytes"), of_group(key, scale).ranks)};
}
Operation checkpoint_of(const Key& key, const Scale&) {  // in f32 (kernels/transformer/checkpoint_spec.hpp)
  const Model* model = find_model(key);
  return {.bytes = model == nullptr ? 0 : 3 * 4 * model->trainable};
}
Operation step_of(const Key& key, const Scale&) {
  const Model* model = find_model(key);
  const double tokens = number(key, "batch") * number(key, "seq") * std::max(number(key, "accumulation"), 1.0) /
                        std::max(number(key, "tp"), 1.0);
  return {.flops = model == nullptr ? 0 : tokens * model->flops_per_token, .tokens = tokens};
}

/// Properties that all rows of a family share.
struct Family {
  Text name;
  KeyPart part = {};                                          // part that the key must have
  Operation (*work)(const Key& key, const Scale&) = nullptr;  // the work as kernels/ops counts it
  /// Relative spread between launches: the root mean square over 23 launches, two or three on each of eight machines
  /// with 1, 2 and 4 H200 or H100 (ci/baselines), rounded up. For small messages it is 12 %, because their time depends
  /// on how fast the host launches.
  double launch_spread = 0.002;
  /// Relative spread between days, from the same launches. If it is nullopt, it is three quarters of the spread between
  /// launches.
  std::optional<double> day_spread = std::nullopt;
  double machine_spread = 0.005;
};

// Chips differ by 2.5 % in bursts of GEMM (PeerClass). HBM with replaced rows is 2.3 % slower in reads.
constexpr double of_gemm = 0.025, of_memory = 0.012;
constexpr std::array families{
    // Includes differences of the clock; this was not measured.
    Family{.name = "jitter", .work = quanta_of, .launch_spread = 0.15},
    // In 13 rounds on 2 H200 it was 3.5 to 5.6 us, and 1.3 to 2.7 us for a kernel of a graph.
    Family{.name = "launch", .work = launch_of, .launch_spread = 0.25},
    Family{.name = "gemm", .part = {"load"}, .work = product_of, .launch_spread = 0.01, .machine_spread = of_gemm},
    Family{.name = "gemm", .work = product_of, .launch_spread = 0.004, .machine_spread = of_gemm},
    Family{.name = "hbm", .part = {"op", "latency"}, .work = walk_of, .machine_spread = of_memory},
    Family{.name = "hbm", .work = stream_of, .machine_spread = of_memory},
    Family{.name = "memtest", .work = test_of, .machine_spread = of_memory},
    Family{.name = "p2p", .part = {"op", "latency"}, .work = walk_of}, Family{.name = "p2p", .work = copy_of},
    Family{.name = "pcie", .part = {"active"}, .work = copy_of, .launch_spread = 0.003, .day_spread = 0.03},
    // For some time after a host has started, its driver clears memory, and copies to the device reach as little as
    // half of their rate.
    Family{.name = "pcie", .part = {"op", "h2d"}, .work = copy_of, .launch_spread = 0.16},
    Family{.name = "pcie", .work = copy_of, .launch_spread = 0.02, .day_spread = 0.03},
    Family{.name = "allreduce", .work = collective_of, .launch_spread = 0.005},
    Family{.name = "collectives", .work = collective_of, .launch_spread = 0.005},
    Family{.name = "lora_step", .work = step_of, .launch_spread = 0.005, .machine_spread = of_gemm},
    // Measured in two launches on one H200.
    Family{.name = "train_step", .work = step_of, .launch_spread = 0.007, .machine_spread = of_gemm},
    // Applies to the other parts, which use the disk; not measured.
    Family{.name = "checkpoint", .work = checkpoint_of, .launch_spread = 0.25},
    Family{.name = ""},  // applies to all other families
};

const Family& find_family(const Key& key) {
  return *std::find_if(families.begin(), families.end(), [&](const Family& f) {
    return f.name.empty() || (f.name == key.family() && f.part.is_in(key));
  });
}

Operation operation(const Key& key, const Scale& scale) {
  const Family& family = find_family(key);
  return family.work == nullptr ? Operation{} : family.work(key, scale);
}

Bound tera_flops(const Key& key, const Scale& scale) { return known(operation(key, scale).flops * 1e-12); }
Bound giga_bytes(const Key& key, const Scale& scale) { return known(operation(key, scale).bytes * 1e-9); }
Bound giga_bytes_copied(const Key& key, const Scale& scale) { return times(giga_bytes(key, scale), 0.5); }
Bound giga_bytes_on_bus(const Key& key, const Scale& scale) {
  return known(operation(key, scale).bytes * 1e-9 * bus_factor(key, of_group(key, scale).ranks));
}
Bound bytes(const Key& key, const Scale& scale) { return known(operation(key, scale).bytes); }
Bound flops(const Key& key, const Scale& scale) { return known(operation(key, scale).flops); }
Bound tokens(const Key& key, const Scale& scale) { return known(operation(key, scale).tokens); }
Bound tokens_of_all(const Key& key, const Scale& scale) { return times(tokens(key, scale), scale.ranks); }
Bound walk(const Key& key, const Scale& scale) { return known(operation(key, scale).accesses * 1e-6); }
Bound walk_in_ns(const Key& key, const Scale& scale) { return known(operation(key, scale).accesses * 1e-9); }
Bound quanta(const Key& key, const Scale&) { return known(number(key, "quanta") * 1e-6); }
Bound microsecond(const Key&, const Scale&) { return 1e-6; }
Bound millisecond(const Key&, const Scale&) { return 1e-3; }
Bound second(const Key&, const Scale&) { return 1; }

// ---------------------------------------------------------------------------------------------------------------------
// The catalogue

constexpr Text training = "*_step";
constexpr bool yes = true;
constexpr ValueRange not_negative = ValueRange::not_negative, any = ValueRange::any;

// The spread of healthy peers comes from four H200 of one node in three launches (ci/baselines, tests/data; 2026-11),
// and for chip to chip at fleet scale from what is published: 5 % and more inside a node is usual for raw GEMM
// (ml-engineering). Raw GEMM: healthy GPUs of one node differ by up to 13 % in bursts, each somewhere else between full
// clock and its power limit; chips of one cluster by 22 % at the most (Sinha et al., SC22, arXiv 2208.11035v3), which
// of a time is 28 %. Per GHz the same GPUs agree within 0.9 %. HBM within
// 0.2 %, copies over NVLink within 0.1 %. 3 % is the least that is worth a person's time.
// The share of a rank's rate that remains when all work (least_scaling): GEMM shares the supply and the air of a node,
// a training step the links too.
// clang-format off
constexpr Text shown = "it is shown with the rates, but not judged", google = "it is Google Benchmark's own figure and is not judged",
               sample = "it is a sensor value of the GPU, which explains findings and is not judged",
               choice = "it is a choice of the tuning, not a figure",
               checked = "it was checked when it was computed, and an error becomes an error row",
               same_time = "the row has the same time in another unit";

constexpr std::array catalogue{
    // Applies to a load of 3 s. On 4 x H200, two launches differed by 0.7 and 1.2 %.
    Metric{.family = "gemm", .part = {"load", "sustained"}, .name = "tflops_per_ghz",
           .what = "TFLOPS per GHz at the power limit", .aspect = Aspect::gemm, .range = not_negative, .is_telemetry = yes,
           .peers = PeerClass{0.004, 0.002, 0.03, 0.03}, .ceiling = tflops_per_clock,
           .may_lack = "not every GPU reports its clock; without it, the rate itself is compared"},
    Metric{.family = "gemm", .name = "tflops_per_ghz", .what = "TFLOPS per GHz", .aspect = Aspect::gemm,
           .range = not_negative, .is_telemetry = yes, .peers = PeerClass{0.002, 0.0022, 0.035, 0.016},
           .ceiling = tflops_per_clock, .may_lack = "not every GPU reports its clock; without it, the rate itself is compared"},
    Metric{.family = "gemm", .name = "tflops", .what = "rate of a matrix product", .aspect = Aspect::gemm_raw, .headline = 1, .of_slowest = yes,
           .peers = PeerClass{0.025, 0, 0.22, 0.22, true}, .ceiling = tflops_of_type, .least_scaling = 0.8,
           .work = tera_flops},
    Metric{.family = "gemm", .name = "tflops_per_w", .what = "TFLOPS per watt", .aspect = Aspect::gemm, .range = not_negative,
           .is_telemetry = yes, .harmless = shown, .may_lack = shown},
    Metric{.family = "gemm", .name = "tolerance_used", .what = "error of a product, relative to its tolerance", .range = not_negative,
           .ceiling = one, .harmless = checked, .may_lack = checked},
    Metric{.family = "gemm", .name = "least_error_found", .what = "smallest detected error of an element, in standard deviations",
           .range = not_negative, .harmless = checked, .may_lack = checked},
    Metric{.family = "gemm", .name = "a_by_rows", .what = "layout of the operands", .range = any, .harmless = choice,
           .may_lack = choice},
    Metric{.family = "gemm", .name = "algorithm", .what = "cuBLASLt's number", .range = any, .harmless = choice,
           .may_lack = choice},
    Metric{.family = "gemm", .name = "candidate", .what = "rank of the algorithm among those that cuBLASLt proposes; 99: cublasDgemm", .range = any,
           .harmless = choice, .may_lack = choice},
    Metric{.family = "gemm", .name = "tile", .what = "cuBLASLt's number", .range = any, .harmless = choice,
           .may_lack = choice},
    // The work is the same on each rank. Clocks of equal cores differ by at most a fifth (turbo). Two threads on one
    // core take twice as long. No fleet has been measured.
    Metric{.family = "jitter", .name = "quantum_us", .what = "time of a fixed amount of work on the core of the rank",
           .aspect = Aspect::processor, .headline = 7, .of_slowest = yes, .peers = PeerClass{0.02, 0, 0.5, 0.5}, .work = quanta},
    Metric{.family = "jitter", .name = "stolen", .what = "share of the time that the core lost to other work",
           .range = not_negative, .ceiling = one, .harmless = shown, .may_lack = shown},
    Metric{.family = "jitter", .name = "waited", .what = "share of the time in which another thread had the core",
           .range = not_negative, .ceiling = one, .harmless = shown, .may_lack = shown},
    Metric{.family = "jitter", .name = "longest_gap_us", .what = "longest interruption of the core",
           .range = not_negative, .harmless = shown, .may_lack = shown},
    Metric{.family = "jitter", .name = "quantum_p99_us", .what = "99 % quantile of the time of a quantum", .harmless = shown,
           .may_lack = shown},
    Metric{.family = "jitter", .name = "p50_us", .what = "median time of a row of quanta", .work = microsecond, .may_lack = same_time},
    Metric{.family = "jitter", .name = "max_us", .what = "slowest row of quanta", .harmless = shown, .may_lack = shown},
    Metric{.family = "launch", .name = "launch_us", .what = "time of the call that starts a kernel or a graph", .aspect = Aspect::processor,
           .headline = 7, .of_slowest = yes, .peers = PeerClass{0.25, 0, 2, 2}, .work = microsecond},
    Metric{.family = "launch", .name = "p50_us", .what = "median time of a call", .work = microsecond, .may_lack = same_time},
    Metric{.family = "launch", .name = "max_us", .what = "the slowest call", .harmless = shown, .may_lack = shown},
    Metric{.family = "hbm", .name = "hbm_gb_per_s", .what = "bytes read and written per second", .aspect = Aspect::memory, .headline = 2,
           .of_slowest = yes, .peers = PeerClass{0.0006, 0.0007, 0.03, 0.016}, .ceiling = hbm, .least_scaling = 0.95,
           .work = giga_bytes},
    Metric{.family = "hbm", .name = "copy_gb_per_s", .what = "bytes copied per second", .aspect = Aspect::memory, .headline = 3,
           .of_slowest = yes, .ceiling = hbm_copy, .work = giga_bytes_copied, .may_lack = same_time},
    Metric{.family = "hbm", .name = "latency_ns", .what = "time of one dependent load", .headline = 7, .of_slowest = yes,
           .work = walk_in_ns},
    Metric{.family = "memtest", .name = "hbm_gb_per_s", .what = "rate of the memory test", .aspect = Aspect::memory, .headline = 2,
           .of_slowest = yes, .peers = PeerClass{0.01, 0, 0.06, 0.06}, .ceiling = hbm, .work = giga_bytes},
    Metric{.family = "memtest", .name = "loaded_gb_per_s", .what = "rate of the memory test during products", .headline = 2, .of_slowest = yes,
           .ceiling = hbm, .work = giga_bytes, .harmless = shown},
    Metric{.family = "memtest", .name = "capacity_gb", .what = "tested memory", .aspect = Aspect::memory, .range = not_negative,
           .peers = PeerClass{0.001, 0, 0.02, 0.02}, .ceiling = memory},
    Metric{.family = "p2p", .name = "copy_gb_per_s", .what = "copy between two GPUs", .headline = 3,
           .of_slowest = yes, .peers = PeerClass{0.0005, 0.0005, 0.03, 0.03}, .ceiling = link_copy,
           .work = giga_bytes},
    Metric{.family = "p2p", .name = "latency_us", .what = "one access to the memory of another GPU", .headline = 7,
           .of_slowest = yes, .peers = PeerClass{0.02, 0, 0.20, 0.20}, .work = walk},
    Metric{.family = "pcie", .part = {"active", "one"}, .name = "copy_gb_per_s", .what = "copy between host and one GPU", .aspect = Aspect::pcie,
           .headline = 3, .of_slowest = yes, .peers = PeerClass{0.005, 0, 0.05, 0.05}, .ceiling = host_copy,
           .work = giga_bytes},
    // If all GPUs copy at once, the bridges and the memory of the host limit each copy.
    Metric{.family = "pcie", .name = "copy_gb_per_s", .what = "copy between host and GPU", .aspect = Aspect::pcie, .headline = 3,
           .of_slowest = yes, .peers = PeerClass{0.03, 0, 0.20, 0.20}, .ceiling = host_copy, .work = giga_bytes},
    Metric{.family = "allreduce", .part = {"scope", "node"}, .name = "busbw_gb_per_s",
           .what = "AllReduce inside each host", .aspect = Aspect::collective, .headline = 4, .shared = yes, .of_slowest = yes,
           .peers = PeerClass{0.01, 0, 0.05, 0.05}, .ceiling = allreduce_busbw},
    Metric{.family = "allreduce", .name = "busbw_gb_per_s", .what = "bus bandwidth of AllReduce",
           .headline = 4, .shared = yes, .of_slowest = yes, .ceiling = allreduce_busbw, .work = giga_bytes_on_bus, .may_lack = same_time},
    Metric{.family = "allreduce", .name = "algbw_gb_per_s", .what = "algorithm bandwidth of AllReduce", .shared = yes,
           .ceiling = allreduce_algbw, .work = giga_bytes, .may_lack = same_time},
    Metric{.family = "allreduce", .name = "latency_us", .what = "time of one AllReduce", .headline = 7,
           .shared = yes, .of_slowest = yes, .work = microsecond, .may_lack = same_time},
    Metric{.family = "allreduce", .name = "p50_us", .what = "median time of one AllReduce", .shared = yes,
           .work = microsecond, .may_lack = same_time},
    Metric{.family = "allreduce", .name = "p999_us", .what = "99.9 % quantile of the time of an AllReduce", .shared = yes,
           .harmless = shown, .may_lack = shown},
    Metric{.family = "allreduce", .name = "max_us", .what = "the slowest AllReduce", .shared = yes, .harmless = shown,
           .may_lack = shown},
    Metric{.family = "collectives", .name = "busbw_gb_per_s", .what = "bus bandwidth of a collective",
           .headline = 4, .shared = yes, .of_slowest = yes, .ceiling = collective_busbw, .work = giga_bytes_on_bus, .may_lack = same_time},
    Metric{.family = "collectives", .name = "algbw_gb_per_s", .what = "algorithm bandwidth of a collective", .shared = yes,
           .ceiling = collective_algbw, .work = giga_bytes, .may_lack = same_time},
    Metric{.family = "collectives", .name = "latency_us", .what = "time of one collective", .headline = 7,
           .shared = yes, .of_slowest = yes, .work = microsecond, .may_lack = same_time},
    Metric{.family = "pairs", .name = "busbw_gb_per_s", .what = "bus bandwidth of a pair of hosts over one rail, or of AllReduce over all rails",
           .headline = 4, .ceiling = pair_busbw},
    Metric{.family = "pairs", .name = "partner", .what = "partner rank", .range = any,
           .harmless = "it is an identifier, not a figure"},
    Metric{.family = "pairs", .name = "seed", .what = "seed of the shuffle of hosts", .range = any, .harmless = choice,
           .may_lack = choice},
    Metric{.family = training, .name = "tokens_per_s", .what = "tokens per second of the slowest GPU", .aspect = Aspect::gemm_raw,
           .headline = 5, .shared = yes, .of_slowest = yes, .ceiling = model_tokens, .least_scaling = 0.85,
           .work = tokens},
    Metric{.family = training, .name = "tokens_per_s_total", .what = "tokens per second of all GPUs", .aspect = Aspect::gemm_raw, .shared = yes,
           .work = tokens_of_all, .may_lack = same_time},
    Metric{.family = training, .name = "step_ms", .what = "time of a training step", .aspect = Aspect::gemm_raw, .headline = 6,
           .shared = yes, .work = millisecond, .may_lack = same_time},
    Metric{.family = training, .name = "model_tflops", .what = "model FLOPS reached", .aspect = Aspect::gemm_raw, .shared = yes,
           .ceiling = model_tflops, .work = tera_flops, .may_lack = same_time},
    Metric{.family = training, .name = "mfu", .what = "model FLOPS over the dense peak", .aspect = Aspect::gemm_raw, .range = not_negative,
           .shared = yes, .ceiling = one},
    Metric{.family = training, .name = "compute_ms", .what = "time of a rank's own work in a step, mostly GEMM", .aspect = Aspect::gemm_raw,
           .peers = PeerClass{0.025, 0, 0.28, 0.28, true}},
    Metric{.family = training, .name = "tokens_per_s_per_ghz", .what = "tokens per second and GHz", .aspect = Aspect::gemm,
           .peers = PeerClass{0.004, 0.002, 0.03, 0.03}, .may_lack = "not every GPU reports its clock; without it, the time itself is compared"},
    Metric{.family = training, .name = "forward_ms", .what = "forward pass", .aspect = Aspect::gemm_raw, .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "backward_ms", .what = "backward pass", .aspect = Aspect::gemm_raw, .harmless = shown,
           .may_lack = shown},
    Metric{.family = training, .name = "optimizer_ms", .what = "optimizer", .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "exposed_comm_ms", .what = "communication time that is not hidden by work",
           .range = not_negative, .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "p50_us", .what = "median time of a step", .shared = yes,
           .work = microsecond, .may_lack = same_time},
    Metric{.family = training, .name = "max_us", .what = "the slowest step", .shared = yes, .harmless = shown,
           .may_lack = shown},
    Metric{.family = training, .name = "planned_gb", .what = "memory planned", .range = not_negative,
           .ceiling = memory, .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "peak_gb", .what = "peak memory", .range = not_negative,
           .ceiling = memory, .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "buckets", .what = "number of gradient reductions in a step", .harmless = choice,
           .may_lack = choice},
    Metric{.family = training, .name = "cudnn_attention", .what = "1 if cuDNN computes attention", .range = any, .harmless = choice,
           .may_lack = choice},
    Metric{.family = training, .name = "first_loss", .what = "loss of the first step", .harmless = checked,
           .may_lack = checked},
    Metric{.family = training, .name = "last_loss", .what = "loss of the last step", .harmless = checked,
           .may_lack = checked},
    Metric{.family = training, .name = "loss_2", .what = "loss of the second step", .harmless = checked,
           .may_lack = checked},
    Metric{.family = training, .name = "loss_5", .what = "loss of the fifth step", .harmless = checked,
           .may_lack = checked},
    Metric{.family = training, .name = "loss_10", .what = "loss of the tenth step", .harmless = checked,
           .may_lack = checked},
    Metric{.family = training, .name = "against_tokens_per_s", .what = "tokens per second of the compared variant", .shared = yes,
           .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "change_percent", .what = "change of the compared variant", .range = any,
           .shared = yes, .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "change_percent_low", .what = "lower 95 % bound of the change", .range = any, .shared = yes,
           .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "change_percent_high", .what = "upper 95 % bound of the change", .range = any, .shared = yes,
           .harmless = shown, .may_lack = shown},
    // The rate depends on a disk, on a network and on other programs.
    Metric{.family = "checkpoint", .name = "checkpoint_gb_per_s", .what = "rate of all ranks to or from the disk",
           .headline = 3, .shared = yes, .of_slowest = yes, .work = giga_bytes, .may_lack = same_time},
    Metric{.family = "checkpoint", .name = "checkpoint_ms", .what = "time to write or read a checkpoint", .shared = yes,
           .work = millisecond, .may_lack = same_time},
    Metric{.family = "checkpoint", .name = "checkpoint_gb", .what = "size of parameters and moments of all ranks", .harmless = shown,
           .may_lack = shown},
    Metric{.family = "checkpoint", .name = "p50_us", .what = "median time of a checkpoint", .shared = yes, .work = microsecond,
           .may_lack = same_time},
    Metric{.family = "checkpoint", .name = "max_us", .what = "the slowest checkpoint", .shared = yes, .harmless = shown,
           .may_lack = shown},
    Metric{.family = "", .name = "checksum", .what = "checksum of the bits that a rank computed", .range = any,
           .harmless = "it must be equal on all ranks", .may_lack = checked},
    Metric{.family = "", .name = "cv", .what = "standard deviation over mean of the samples", .range = not_negative,
           .harmless = "it is compared only with the limit of its family"},
    Metric{.family = "", .name = "series", .what = "operations after the samples whose bits were compared",
           .range = not_negative, .harmless = "a wrong bit fails the row; the number of operations is not judged",
           .may_lack = checked},
    Metric{.family = "", .name = "samples", .what = "samples taken",
           .harmless = "it is judged only by a minimum"},
    Metric{.family = "", .name = "seconds", .what = "time of one operation of a rank", .work = second,
           .may_lack = same_time},
    Metric{.family = "", .name = "bytes_per_second", .what = google, .work = bytes, .of_mean = yes,
           .harmless = google, .may_lack = google},
    Metric{.family = "", .name = "items_per_second", .what = google, .work = flops, .of_mean = yes,
           .harmless = google, .may_lack = google},
    Metric{.family = "", .name = "arrival_us", .what = "delay of a rank after the first rank",
           .range = not_negative, .harmless = "it names the rank to examine first",
           .may_lack = "it names the rank to examine first"},
    Metric{.family = "", .name = "p99_us", .what = "99 % quantile of the samples", .harmless = shown,
           .may_lack = shown},
    Metric{.family = "", .name = "sm_mhz", .what = "clock during the samples", .range = not_negative,
           .is_telemetry = yes, .ceiling = clock, .harmless = sample, .may_lack = sample},
    Metric{.family = "", .name = "power_w", .what = "power during the samples", .range = not_negative,
           .is_telemetry = yes, .ceiling = power, .harmless = sample, .may_lack = sample},
    Metric{.family = "", .name = "temperature_c", .what = "temperature during the samples", .range = not_negative,
           .is_telemetry = yes, .ceiling = heat, .harmless = sample, .may_lack = sample},
    Metric{.family = "", .name = "throttled", .what = "share of the time under throttling",
           .range = not_negative, .is_telemetry = yes, .ceiling = one, .harmless = sample, .may_lack = sample},
};
// clang-format on

// The last words of a name are its unit.
struct Unit {
  Text end, unit;
  bool lower_is_better = false;
};
constexpr std::array<Unit, 21> units{{{"tflops", "TFLOPS"},
                                      {"tflops_per_ghz", "TFLOPS/GHz"},
                                      {"tflops_per_w", "TFLOPS/W"},
                                      {"_gb_per_s", "GB/s"},
                                      {"_gb", "GB"},
                                      {"_ns", "ns", yes},
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
                                      {"tokens_per_s_per_ghz", "tokens/s/GHz"},
                                      {"seconds", "", yes},
                                      {"throttled", "", yes},
                                      {"stolen", "", yes},
                                      {"waited", "", yes}}};

const Unit* find_unit(Text metric) {
  const auto found = std::find_if(units.begin(), units.end(), [&](const Unit& u) { return metric.ends_with(u.end); });
  return found == units.end() ? nullptr : &*found;
}

}  // namespace

std::span<const Metric> metrics() { return catalogue; }

const Metric* find_metric(const Key& key, Text name) {
  // Sorted by name once, because every value of a run is looked up several times.
  static const auto rows_of_name = [] {
    std::unordered_map<Text, std::vector<const Metric*>> rows;
    for (const Metric& m : catalogue) rows[m.name].push_back(&m);
    return rows;
  }();
  const auto rows = rows_of_name.find(name);
  if (rows == rows_of_name.end()) return nullptr;
  const auto found = std::find_if(rows->second.begin(), rows->second.end(),
                                  [&](const Metric* m) { return m->is_of(key.family()) && m->part.is_in(key); });
  return found == rows->second.end() ? nullptr : *found;
}

std::optional<PeerClass> peer_class(const Key& key, Text metric) {
  const Metric* row = find_metric(key, metric);
  return row == nullptr ? std::nullopt : row->peers;
}

Aspect aspect_of(const Key& key, Text metric) {
  const Metric* row = find_metric(key, metric);
  return row == nullptr ? Aspect::other : row->aspect;
}

bool is_catalogued(Text family) {
  return std::any_of(catalogue.begin(), catalogue.end(),
                     [&](const Metric& m) { return !m.family.empty() && m.is_of(family); });
}

std::optional<double> ceiling(const Peaks& peaks, const Key& key, Text metric, const Scale& scale) {
  const Metric* row = find_metric(key, metric);
  if (row == nullptr || row->ceiling == nullptr) return std::nullopt;
  return row->ceiling(peaks, key, of_group(key, scale));
}

std::optional<double> implied_seconds(const Metric& metric, const Key& key, double value, const Scale& scale) {
  const auto work = metric.work == nullptr ? std::nullopt : metric.work(key, scale);
  if (!work || !(value > 0)) return std::nullopt;
  return lower_is_better(metric.name) ? value * *work : *work / value;
}

const Model* find_model(const Key& key) {
  const auto found = std::find_if(models.begin(), models.end(), [&](const Model& m) {
    return m.family == key.family() && m.name == key.part("model");
  });
  return found == models.end() ? nullptr : &*found;
}

bool is_telemetry(Text metric) {
  return std::any_of(catalogue.begin(), catalogue.end(),
                     [&](const Metric& m) { return m.is_telemetry && m.name == metric; });
}

bool is_shared(const Key& key, Text metric) {
  const Metric* row = find_metric(key, metric);
  return is_collective(key.family()) || (row != nullptr && row->shared);
}

bool is_training(Text family) { return family == "lora_step" || family == "train_step"; }

bool Metric::is_of(Text of) const { return family.empty() || family == of || (family == training && is_training(of)); }

bool is_collective(Text family) { return family == "allreduce" || family == "collectives"; }

Spread spread_of(const Key& key, Text metric) {
  const Family& family = find_family(key);
  double launch = family.launch_spread;
  if (is_collective(key.family())) {
    if (key.part("launch") == "graph") {
      launch = 0.008;
    } else if (metric == "latency_us") {
      launch = 0.12;
    } else if (key.number("bytes").value_or(0) < 16 << 20) {
      launch = 0.03;
    }
  }
  return {launch, family.day_spread.value_or(0.75 * launch), family.machine_spread};
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
