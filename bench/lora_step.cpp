// A step of LoRA fine-tuning as users run it: forward, backward, AllReduce of the gradients, AdamW. The step uses
// random weights of Qwen2-7B (161,480,704 trainable of 7.6 billion parameters) in bf16 with fp32 master weights, and
// recomputes nothing. The full tier adds activation recomputation: retain:rebuild recomputes norms and SwiGLU,
// retain:inputs the whole forward pass. The full tier also adds a larger batch, gradient accumulation, adapters on the
// attention only, and other bucket sizes and data types of the AllReduce. A machine without GPUs runs two small layers.
//
//   mpirun -np 4 build/bench/bench_lora_step
//   mpirun -np 4 build/bench/bench_lora_step --tier=full --benchmark_filter=batch:4
//   build/bench/bench_lora_step --benchmark_filter='lora_step/.*dtype:fp8'
#include "bench/training.hpp"

namespace shakedown {

void register_lora_step(Session& session) {
  using training::Retain;
  constexpr std::size_t mib = std::size_t{1} << 20;
  constexpr bool on_request = true;  // for fp8, because a run for every node must be short
  const auto add = [&](const LoraStepSpec& spec) { add_step(session, spec); };
  // Qwen2-7B needs 32.13 GFLOP per token at sequence length 4096.
  if (!session.has_gpus()) {
    add({.model = "tiny", .batch = 2, .seq = 16, .dtype = DType::f32});
    add({.model = "tiny", .batch = 1, .seq = 16, .dtype = DType::f64, .accumulation = 2});
    add_step(session, LoraStepSpec{.model = "tiny", .batch = 2, .seq = 16, .dtype = DType::fp8_e4m3}, on_request);
    return;
  }
  add({.model = "qwen2_7b", .batch = 2, .seq = 4096});
  add_step(session, LoraStepSpec{.model = "qwen2_7b", .batch = 2, .seq = 4096, .dtype = DType::fp8_e4m3}, on_request);
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
