// The forward pass of one transformer layer of hidden size 8192 with 32 x 4096 tokens, in bf16 and in fp8, as
// benchmarks of fp8 define it. All GPUs compute the same layer at once. A machine without GPUs computes a small layer.
//
//   mpirun -np 4 build/bench/bench_layer --tier=full
//   build/bench/bench_layer --tier=full --benchmark_filter=dtype:fp8
#include "fixtures/plan/session.hpp"
#include "kernels/transformer/layer_spec.hpp"

namespace shakedown {

namespace {

/// As for training steps, ten passes are timed one by one, because their spread matters.
constexpr int passes = 10;

void add(Session& session, const LayerSpec& spec) {
  auto row = measurement_of(spec, [of_layer = tokens(spec)](const Cost& cost, double seconds, int) -> Metrics {
    return {
        {"tokens_per_s", of_layer / seconds}, {"forward_ms", seconds * 1e3}, {"tflops", cost.flops / seconds / 1e12}};
  });
  row.one_by_one = OneByOne{passes};
  session.add(std::move(row));
}

}  // namespace

void register_layer(Session& session) {
  if (!session.has_gpus()) {
    add(session, {.model = "h64", .dtype = DType::f32, .batch = 2, .seq = 16});
    add(session, {.model = "h64", .dtype = DType::fp8_e4m3, .batch = 2, .seq = 16});
    return;
  }
  const LayerSpec layer{.model = "h8192", .batch = 32, .seq = 4096};
  if (!session.full()) {
    session.add(
        {key(layer),
         {},
         0,
         [](Device&) -> std::unique_ptr<Work> { throw Unsupported("on GPUs it is measured only in the full tier"); },
         nullptr});
    return;
  }
  for (const bool causal : {true, false}) {
    for (const auto dtype : {DType::bf16, DType::fp8_e4m3}) {
      auto spec = layer;
      spec.causal = causal;
      spec.dtype = dtype;
      add(session, spec);
    }
  }
}

}  // namespace shakedown
