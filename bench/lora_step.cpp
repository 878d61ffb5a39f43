// A step of LoRA fine-tuning as users run it: forward, backward, sum of the gradients over all ranks, AdamW, on random
// weights of Qwen2-7B (161,480,704 trainable of 7.6 billion parameters), bf16 with fp32 masters, nothing computed
// twice. The full tier adds the ways to save memory (retain:rebuild, norms and SwiGLU twice; retain:inputs, all of the
// forward pass twice), a larger batch, accumulation, adapters on the attention only, and other portions and types of
// the sums. On a machine without GPUs two small layers.
//
//   mpirun -np 4 build/bench/bench_lora_step
//   mpirun -np 4 build/bench/bench_lora_step --tier=full --benchmark_filter=batch:4
#include "fixtures/session.hpp"

namespace shakedown {

namespace {

/// Steps that are timed, one by one: their spread counts.
/// Ten differ by 0.3 %, their median by 0.1 % from that of twenty.
constexpr OneByOne steps{10};

constexpr std::size_t mib = std::size_t{1} << 20;

void add(Session& session, LoraStepSpec spec) {
  spec.ranks = session.ranks();
  const double tokens = static_cast<double>(spec.batch) * spec.seq * spec.accumulation;
  // tokens_per_s is one GPU's; model_tflops counts what the model needs, 32.13 GFLOP per token of Qwen2-7B at 4096,
  // whatever is computed a second time to save memory.
  const auto figures = [tokens](const Cost& cost, double seconds, int ranks) -> Metrics {
    return {{"tokens_per_s", tokens / seconds},
            {"tokens_per_s_total", tokens / seconds * ranks},
            {"step_ms", seconds * 1e3},
            {"model_tflops", cost.flops / seconds / 1e12}};
  };
  session.add(Measurement{key(spec), cost(spec), footprint(spec),
                          [spec](Device& device) { return device.prepare(spec); }, figures, 0, steps});
}

}  // namespace

void register_lora_step(Session& session) {
  using training::Retain;
  if (session.backend() == Backend::host) {
    add(session, {.model = "tiny", .batch = 2, .seq = 16, .dtype = DType::f32});
    add(session, {.model = "tiny", .batch = 1, .seq = 16, .dtype = DType::f64, .accumulation = 2});
    return;
  }
  add(session, {.model = "qwen2_7b", .batch = 2, .seq = 4096});
  if (!session.full()) return;
  add(session, {.model = "qwen2_7b", .batch = 4, .seq = 4096, .retain = Retain::rebuild});
  add(session, {.model = "qwen2_7b", .batch = 1, .seq = 4096, .accumulation = 4});
  add(session, {.model = "qwen2_7b", .batch = 2, .seq = 4096, .retain = Retain::rebuild});
  add(session, {.model = "qwen2_7b", .batch = 2, .seq = 4096, .retain = Retain::inputs});
  add(session, {.model = "qwen2_7b_attention_only", .batch = 2, .seq = 4096});
  if (session.ranks() == 1) return;
  for (const std::size_t bucket : {mib, 1024 * mib}) {
    add(session, {.model = "qwen2_7b", .batch = 2, .seq = 4096, .bucket = bucket});
  }
  add(session, {.model = "qwen2_7b", .batch = 2, .seq = 4096, .sums = DType::bf16});
}

}  // namespace shakedown
