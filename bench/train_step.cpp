// A full training step, as used in cluster tests: forward, backward, AllReduce of the gradients, AdamW. The step trains
// every parameter of GPT-2 (124 million; LayerNorm, GELU, learned positions, tied head) in bf16 with fp32 master
// weights, on random weights. Runs with several ranks also have a variant with a sharded optimizer, and fully sharded
// GPT-2, Qwen2-7B and Llama-8B. On request, a 7B model trains with the products of its layers in fp8, or on one rank
// with its state in the memory of the host. Many cluster tests call encoder_163m GPT-2; it is included for comparison
// with their figures (see transformer/shape.hpp). A machine without GPUs runs two small layers of each.
//
//   mpirun -np 4 build/bench/bench_train_step --tier=full
//   build/bench/bench_train_step --backend=host --plan
//   mpirun -np 2 build/bench/bench_train_step --tier=full --benchmark_filter=gpt_7b_gqa
#include <array>

#include "bench/retest.hpp"
#include "bench/training.hpp"

namespace shakedown {

namespace {

/// A step that ranks share, or a step on one rank.
TrainStepSpec in_bf16(const Session& session, TrainStepSpec spec) {
  spec.masters = DType::bf16;
  spec.shard = session.ranks() > 1 ? training::Shard::weights : training::Shard::none;
  return spec;
}

/// Steps that train 7 and 8 billion parameters of several ranks.
constexpr std::array whole_models{"qwen2_7b", "llama_8b"};

/// Adds the variants with bf16 masters, which need half of the memory. Without a request they run only if the memory
/// was not enough for f32 masters.
void add_bf16_masters(Session& session) {
  using training::Retain, training::Shard;
  const auto add = [](Session& to, const char* model, bool on_request) {
    add_step(to, in_bf16(to, {.model = model, .batch = 1, .seq = 4096}), on_request);
  };
  for (const char* const model : whole_models) {
    add(session, model, true);
    add_step(session, in_bf16(session, {.model = model, .batch = 2, .seq = 4096, .retain = Retain::rebuild}), true);
  }
  session.then([add](Session& s, const auto& measured) {
    for (const char* const model : whole_models) {
      const TrainStepSpec spec{.model = model, .batch = 1, .seq = 4096, .shard = Shard::weights};
      if (is_waived(measured, key(spec)) && !s.requests(key(in_bf16(s, spec)))) add(s, model, false);
    }
  });
}

/// Adds a 7B model with its products in bf16 and in fp8, on request until profiles have limits: eight layers, which fit
/// on one GPU, and all of them on several GPUs.
void add_fp8_rows(Session& session) {
  constexpr bool on_request = true;
  for (const auto dtype : {DType::bf16, DType::fp8_e4m3}) {
    const auto add = [&](TrainStepSpec spec) {
      spec.batch = 2, spec.seq = 4096, spec.dtype = dtype;
      add_step(session, spec, on_request);
    };
    add({.model = "gpt_7b_gqa_8_layers"});
    if (session.ranks() < 2) continue;
    add({.model = "gpt_7b_gqa", .shard = training::Shard::weights});
    if (session.ranks() % 2 != 0) continue;
    add({.model = "gpt_7b_gqa_8_layers", .tp = 2});
    add({.model = "gpt_7b_gqa", .tp = 2});
  }
}

/// Adds small models for a machine without GPUs.
void add_host_rows(Session& session) {
  const auto add = [&](const TrainStepSpec& spec) { add_step(session, spec); };
  add({.model = "gpt2_tiny", .batch = 2, .seq = 16, .dtype = DType::f32});
  add({.model = "gpt2_tiny", .batch = 1, .seq = 16, .dtype = DType::f64, .accumulation = 2});
  add({.model = "encoder_tiny", .batch = 2, .seq = 16, .dtype = DType::f32});
  constexpr bool on_request = true;
  add_step(session, in_bf16(session, {.model = "gpt2_tiny", .batch = 2, .seq = 16, .dtype = DType::f32}), on_request);
  add_step(session,
           TrainStepSpec{
               .model = "gpt2_tiny", .batch = 2, .seq = 16, .dtype = DType::f32, .state = training::StateMemory::host},
           on_request);
  const auto add_fp8 = [&](training::Shard shard, int tp) {
    add_step(session,
             TrainStepSpec{.model = "tiny", .batch = 2, .seq = 16, .dtype = DType::fp8_e4m3, .shard = shard, .tp = tp},
             on_request);
  };
  add_fp8(training::Shard::none, 1);
  add_fp8(training::Shard::weights, 1);
  if (session.ranks() % 2 == 0) add_fp8(training::Shard::none, 2);
  // A single rank cannot shard its model, so these rows need several ranks.
  for (const auto shard : {training::Shard::optimizer, training::Shard::weights}) {
    if (session.ranks() < 2) continue;
    add({.model = "gpt2_tiny", .batch = 2, .seq = 16, .dtype = DType::f32, .shard = shard});
    add({.model = "tiny", .batch = 1, .seq = 16, .dtype = DType::f64, .shard = shard});
  }
  if (session.ranks() % 2 == 0) {
    add({.model = "gpt2_tiny", .batch = 2, .seq = 16, .dtype = DType::f32, .tp = 2});
    add({.model = "encoder_tiny", .batch = 2, .seq = 16, .dtype = DType::f32, .tp = 2});
    add({.model = "tiny", .batch = 1, .seq = 16, .dtype = DType::f64, .data = training::Data::rank, .tp = 2});
  }
  if (session.ranks() > 1) {
    add({.model = "gpt2_tiny", .batch = 2, .seq = 16, .dtype = DType::f32, .data = training::Data::rank});
  }
}

}  // namespace

void register_train_step(Session& session) {
  if (!session.has_gpus()) return add_host_rows(session);
  const auto add = [&](const TrainStepSpec& spec) { add_step(session, spec); };
  if (!session.full()) {
    session.add(
        {key(TrainStepSpec{.model = "gpt2_124m", .batch = 32, .seq = 1024}),
         {},
         0,
         [](Device&) -> std::unique_ptr<Work> { throw Unsupported("on GPUs it is measured only in the full tier"); },
         nullptr});
    return;
  }
  // Measures the cost of tensor parallelism with 8 layers of Qwen2-7B and Llama 3.1 8B, which fit on one GPU, and with
  // GPT-2. No rule judges these rows.
  constexpr bool on_request = true;
  for (const int tp : {1, 2, 4}) {
    if (session.ranks() % tp != 0) continue;
    for (const char* const model : {"qwen2_7b_8_layers", "llama_8b_8_layers"}) {
      add_step(session, TrainStepSpec{.model = model, .batch = 2, .seq = 4096, .tp = tp}, on_request);
    }
    if (tp > 1) add_step(session, TrainStepSpec{.model = "gpt2_124m", .batch = 32, .seq = 1024, .tp = tp}, on_request);
  }
  add_fp8_rows(session);
  // The same model on one rank. The losses of one rank must equal those of the sharded model. With its state in the
  // memory of the host it fits on a GPU with 80 GB.
  if (session.ranks() == 1) {
    for (const char* const model : {"qwen2_7b", "qwen2_7b_8_layers"}) {
      add_step(session, TrainStepSpec{.model = model, .batch = 1, .seq = 4096, .state = training::StateMemory::host},
               on_request);
    }
    add_step(session, TrainStepSpec{.model = "qwen2_7b", .batch = 1, .seq = 4096, .retain = training::Retain::inputs},
             on_request);
  }
  add({.model = "gpt2_124m", .batch = 32, .seq = 1024});
  add({.model = "gpt2_124m", .batch = 64, .seq = 1024});
  add({.model = "encoder_163m", .batch = 8, .seq = 512});
  if (session.ranks() < 2) return;
  add({.model = "gpt2_124m", .batch = 32, .seq = 1024, .data = training::Data::rank});
  add({.model = "gpt2_124m", .batch = 32, .seq = 1024, .shard = training::Shard::optimizer});
  add({.model = "gpt2_124m", .batch = 32, .seq = 1024, .shard = training::Shard::weights});
  for (const char* const model : whole_models) {
    add({.model = model, .batch = 1, .seq = 4096, .shard = training::Shard::weights});
  }
  add_bf16_masters(session);
}

}  // namespace shakedown
