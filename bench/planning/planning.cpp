// Plans of training steps and decodes on the GPUs of the shipped profiles, without a GPU.
//
//   build/bench/bench_train_step --plan --model=llama_70b --ranks=64 --tp=8
//   build/bench/bench_train_step --plan --model=llama_405b --ranks=8 --dtype=fp8 --inference
#include <algorithm>
#include <array>

#include "base/files.hpp"
#include "fixtures/plan/options.hpp"
#include "kernels/transformer/inference_plan.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {

namespace {

using training::GpuKind, training::Trains;

/// A figure that a profile may have in several rows: of the first key that it has, the row with the most bytes, or with
/// the fewest.
struct Wanted {
  std::array<std::string_view, 2> keys;
  std::string_view metric;
  bool is_large;
};
constexpr Wanted hbm_read{{"hbm/op:read/engine:sm/bytes:*", "hbm/op:copy/engine:sm/bytes:*"}, "hbm_gb_per_s", true};
constexpr Wanted small_sum{
    {"allreduce/dtype:f32/bytes:*/launch:graph", "allreduce/dtype:f32/bytes:*"}, "latency_us", false};
constexpr Wanted large_sum{{"allreduce/dtype:f32/bytes:*", "allreduce/dtype:f32/bytes:*"}, "busbw_gb_per_s", true};

bool is_row_of(const Rule& rule, std::string_view key, const Wanted& wanted, int ranks) {
  return rule.metric == wanted.metric && rule.limits.reference && rule.conditions.ranks.contains(ranks) &&
         rule.conditions.hosts.contains(1) && rule.benchmark.number("bytes") &&
         rule.benchmark.with("bytes", "*") == key;
}

std::optional<training::StoredFigure> figure_of(const Profile& profile, const Wanted& wanted, int ranks) {
  for (const auto key : wanted.keys) {
    const Rule* best = nullptr;
    for (const Rule& rule : profile.rules) {
      if (!is_row_of(rule, key, wanted, ranks)) continue;
      const auto bytes = *rule.benchmark.number("bytes");
      const auto best_bytes = best == nullptr ? bytes : *best->benchmark.number("bytes");
      if (best == nullptr || (wanted.is_large ? bytes > best_bytes : bytes < best_bytes)) best = &rule;
    }
    if (best == nullptr) continue;
    return training::StoredFigure{*best->limits.reference, best->benchmark,
                                  std::filesystem::path(best->at).filename().string()};
  }
  return std::nullopt;
}

/// Returns the GPUs of the shipped profiles, the smallest memory first, with their figures for this number of ranks.
/// The memory of each is the minimum of a healthy GPU.
std::vector<GpuKind> known_gpus(int ranks) {
  std::vector<GpuKind> gpus;
  for (const Profile& profile : load_profiles(beside_program("share/shakedown/thresholds"))) {
    for (const Rule& rule : profile.rules) {
      const bool is_memory = rule.benchmark == Key("preflight/of:gpu") && rule.metric == "memory_gb";
      if (!is_memory || !rule.limits.min) continue;
      gpus.push_back({profile.name, *rule.limits.min * 1e9, figure_of(profile, hbm_read, ranks),
                      figure_of(profile, small_sum, ranks), figure_of(profile, large_sum, ranks),
                      profile.peak.contains("fp8_e4m3_tflops")});
    }
  }
  std::ranges::stable_sort(gpus, {}, &GpuKind::bytes);
  return gpus;
}

/// Errors: InputError if the state cannot be in bf16.
DType masters_of(const PlannedStep& step) {
  if (step.masters == "f32") return DType::f32;
  if (step.inference) throw InputError("--masters: a decode has none; leave out one of the two");
  if (step.adapters) throw InputError("--masters=bf16: the masters of adapters are f32; leave out one of the two");
  if (step.tp > 1) throw InputError("--masters=bf16: it cannot be combined with --tp; leave out one of the two");
  return DType::bf16;
}

/// Errors: InputError if the state cannot be in the memory of the host.
training::StateMemory state_of(const PlannedStep& step) {
  if (step.state == "device") return training::StateMemory::device;
  if (step.inference) throw InputError("--state: a decode has none; leave out one of the two");
  if (step.adapters) throw InputError("--state=host: that of adapters is small; leave out one of the two");
  return training::StateMemory::host;
}

template <Trains trains>
std::string plan_training(const PlannedStep& step, DType dtype) {
  const StepSpec<trains> spec{.model = step.model,
                              .batch = step.batch.value_or(1),
                              .seq = step.seq.value_or(4096),
                              .dtype = dtype,
                              .ranks = step.ranks,
                              .masters = masters_of(step),
                              .state = state_of(step),
                              .tp = step.tp};
  const auto write = step.json ? training::memory_json<trains> : training::memory_text<trains>;
  return write(spec, known_gpus(step.ranks), step.largest);
}

std::string plan_inference(const PlannedStep& step, DType dtype) {
  masters_of(step);
  state_of(step);
  if (step.tp != 1) throw InputError("--tp: all ranks of a decode share the model; leave --tp out, --ranks=N says it");
  training::InferenceOrder order{.model = step.model, .dtype = dtype, .ranks = step.ranks};
  if (step.batch) order.batches = {*step.batch};
  if (step.seq) order.contexts = {*step.seq};
  const auto write = step.json ? training::inference_json : training::inference_text;
  return write(order, known_gpus(step.ranks), step.largest);
}

}  // namespace

std::string plan_memory(const PlannedStep& step) {
  const auto dtype = step.dtype == "fp8" ? DType::fp8_e4m3 : DType::bf16;
  if (step.inference && step.adapters) throw InputError("--adapters: a decode has none; leave out one of the two");
  if (step.inference) return plan_inference(step, dtype);
  return step.adapters ? plan_training<Trains::adapters>(step, dtype) : plan_training<Trains::all>(step, dtype);
}

}  // namespace shakedown
