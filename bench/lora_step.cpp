// A step of LoRA fine-tuning as users run it: forward, backward, sum of the gradients over all ranks, AdamW, on random
// weights of Qwen2-7B (161,480,704 trainable of 7.6 billion parameters), bf16 with fp32 masters, nothing computed
// twice. The full tier adds the ways to save memory (retain:rebuild, norms and SwiGLU twice; retain:inputs, all of the
// forward pass twice), a larger batch, accumulation, adapters on the attention only, and other portions and types of
// the sums. On a machine without GPUs two small layers.
//
//   mpirun -np 4 build/bench/bench_lora_step
//   mpirun -np 4 build/bench/bench_lora_step --tier=full --benchmark_filter=batch:4
#include "bench/training.hpp"

namespace shakedown {

void register_lora_step(Session& session) {
  using training::Retain;
  constexpr std::size_t mib = std::size_t{1} << 20;
  const auto add = [&](const LoraStepSpec& spec) { add_step(session, spec); };
  // 32.13 GFLOP per token of Qwen2-7B at 4096.
  if (session.backend() == Backend::host) {
    add({.model = "tiny", .batch = 2, .seq = 16, .dtype = DType::f32});
    add({.model = "tiny", .batch = 1, .seq = 16, .dtype = DType::f64, .accumulation = 2});
    return;
  }
  add({.model = "qwen2_7b", .batch = 2, .seq = 4096});
  if (!session.full()) return;
  add({.model = "qwen2_7b", .batch = 4, .seq = 4096, .retain = Retain::rebuild});
  add({.model = "qwen2_7b", .batch = 1, .seq = 4096, .accumulation = 4});
  add({.model = "qwen2_7b", .batch = 2, .seq = 4096, .retain = Retain::rebuild});
  add({.model = "qwen2_7b", .batch = 2, .seq = 4096, .retain = Retain::inputs});
  add({.model = "qwen2_7b_attention_only", .batch = 2, .seq = 4096});
  if (session.ranks() == 1) return;
  for (const std::size_t bucket : {mib, 1024 * mib}) {
    add({.model = "qwen2_7b", .batch = 2, .seq = 4096, .bucket = bucket});
  }
  add({.model = "qwen2_7b", .batch = 2, .seq = 4096, .sums = DType::bf16});
}

}  // namespace shakedown
