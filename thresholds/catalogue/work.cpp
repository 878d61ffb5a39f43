// The work of one operation of each family, from its key, and the spread of the family.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>

#include "base/counted_work.hpp"
#include "thresholds/catalogue/bounds.hpp"
#include "thresholds/catalogue/metrics.hpp"

namespace shakedown {
namespace {

using Text = std::string_view;
using work::of_group;

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

// For each model: the operations of a step per token, and the parameters whose gradients it reduces over ranks.
constexpr std::array<Model, 11> models{{{"lora_step", "qwen2_7b", 32.13e9, 161480704},
                                        {"lora_step", "qwen2_7b_attention_only", 0, 40370176},
                                        {"train_step", "gpt2_124m", 0.8075e9, 124475904},
                                        {"train_step", "encoder_163m", 0.8075e9, 162764928},
                                        {"train_step", "qwen2_7b", 45.30e9, 7615616512},
                                        {"train_step", "qwen2_7b_8_layers", 15.28e9, 2954460672},
                                        {"train_step", "llama_8b", 48.78e9, 8030261248},
                                        {"train_step", "llama_8b_8_layers", 14.56e9, 2795573248},
                                        {"train_step", "gpt_7b_gqa", 40.93e9, 6721638400},
                                        {"train_step", "gpt_7b_gqa_8_layers", 12.60e9, 2468417536},
                                        {"checkpoint", "gpt2_124m", 0, 124475904}}};

/// The work of one operation of a benchmark on one rank, computed from its key; 0 if the key does not define it.
struct Operation {
  double flops = 0, bytes = 0, tokens = 0, accesses = 0;
};

double number(const Key& key, Text part) { return static_cast<double>(key.number(part).value_or(0)); }

// Returns a walk over cache lines, as kernels/ops/latency.hpp and copy.hpp count it.
Operation walk_of(const Key& key, const Scale&) {
  std::size_t loads = chase::nodes(static_cast<std::size_t>(std::max(number(key, "bytes"), 0.0)));
  if (key.family() == "hbm") loads = std::min(loads, chase::max_local_loads);
  const auto accesses = static_cast<double>(loads);
  return {.bytes = 8 * accesses, .accesses = accesses};
}

Operation quanta_of(const Key& key, const Scale&) { return {.flops = 2.0 * steps_per_quantum * number(key, "quanta")}; }

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

// Counts a write and a read of each pass.
Operation test_of(const Key& key, const Scale& scale) {
  return {.bytes = 2e9 * scale.tested_gb * (key.part("pattern") == "moving" ? moving_inversion_passes : 1)};
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

// Counts as kernels/transformer/layer_spec.hpp: 24 hidden^2 for a token in products, and attention.
Operation layer_of(const Key& key, const Scale&) {
  const Text model = key.part("model");
  const double hidden = model.empty() ? 0 : std::atof(std::string(model.substr(1)).c_str());
  const double tokens = number(key, "batch") * number(key, "seq");
  const double attention = number(key, "seq") * hidden * (key.part("mask") == "none" ? 4 : 2);
  return {.flops = tokens * (24 * hidden * hidden + attention), .tokens = tokens};
}

// One token of each sequence (kernels/transformer/decode_spec.hpp).
Operation decode_of(const Key& key, const Scale&) { return {.tokens = number(key, "batch")}; }

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
constexpr double gemm_spread = 0.025, memory_spread = 0.012;

constexpr std::array families{
    // The spread of jitter between machines includes differences of the CPU clock. This spread is an assumption, not
    // measured.
    Family{.name = "jitter", .work = quanta_of, .launch_spread = 0.15},
    // In 13 rounds on 2 H200, a kernel launch took 3.5 to 5.6 us, and 1.3 to 2.7 us for a kernel of a graph.
    Family{.name = "launch", .work = launch_of, .launch_spread = 0.25},
    Family{.name = "gemm", .part = {"load"}, .work = product_of, .launch_spread = 0.01, .machine_spread = gemm_spread},
    Family{.name = "gemm", .work = product_of, .launch_spread = 0.004, .machine_spread = gemm_spread},
    Family{.name = "hbm", .part = {"op", "latency"}, .work = walk_of, .machine_spread = memory_spread},
    Family{.name = "hbm", .work = stream_of, .machine_spread = memory_spread},
    Family{.name = "memtest", .work = test_of, .machine_spread = memory_spread},
    Family{.name = "p2p", .part = {"op", "latency"}, .work = walk_of}, Family{.name = "p2p", .work = copy_of},
    Family{.name = "pcie", .part = {"active"}, .work = copy_of, .launch_spread = 0.003, .day_spread = 0.03},
    // For some time after a host has started, its driver clears memory, and copies to the device reach as little as
    // half of their rate.
    Family{.name = "pcie", .part = {"op", "h2d"}, .work = copy_of, .launch_spread = 0.16},
    Family{.name = "pcie", .work = copy_of, .launch_spread = 0.02, .day_spread = 0.03},
    Family{.name = "allreduce", .work = collective_of, .launch_spread = 0.005},
    Family{.name = "collectives", .work = collective_of, .launch_spread = 0.005},
    Family{.name = "lora_step", .work = step_of, .launch_spread = 0.005, .machine_spread = gemm_spread},
    // The spread of train_step was measured in two launches on one H200.
    Family{.name = "train_step", .work = step_of, .launch_spread = 0.007, .machine_spread = gemm_spread},
    // Not measured.
    Family{.name = "layer", .work = layer_of, .launch_spread = 0.01, .machine_spread = gemm_spread},
    Family{.name = "decode", .work = decode_of, .launch_spread = 0.01},
    // Not measured.
    Family{.name = "sm", .launch_spread = 0.01, .machine_spread = gemm_spread},
    // Applies to the other parts, which use the disk; not measured.
    Family{.name = "checkpoint", .work = checkpoint_of, .launch_spread = 0.25},
    Family{.name = "storage", .launch_spread = 0.25},  // as for checkpoint
    Family{.name = ""},                                // applies to all other families
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

}  // namespace

const Model* find_model(const Key& key) {
  const auto found = std::find_if(models.begin(), models.end(), [&](const Model& m) {
    return m.family == key.family() && m.name == key.part("model");
  });
  return found == models.end() ? nullptr : &*found;
}

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

namespace work {

Scale of_group(const Key& key, Scale scale) {
  if (key.part("scope") != "node") return scale;
  scale.ranks /= scale.hosts;
  scale.hosts = 1;
  return scale;
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

}  // namespace work
}  // namespace shakedown
