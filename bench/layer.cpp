// The forward pass of one transformer layer of hidden size 8192 with 32 x 4096 tokens, in bf16 and in fp8, as
// benchmarks of fp8 define it. All GPUs compute the same layer at once. A machine without GPUs computes a small layer.
//
//   mpirun -np 4 build/bench/bench_layer --benchmark_filter='layer/.*dtype'
//   build/bench/bench_layer --benchmark_filter='layer/.*dtype:fp8'
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
  row.on_request = true;
  session.add(std::move(row));
}

}  // namespace

/// The rows run only on request, because a run for every node must be short. The waived row says so.
void register_layer(Session& session) {
  session.add_on_request("layer/model:h8192", "layer/.*dtype");
  if (!session.has_gpus()) {
    for (const auto dtype : {DType::f32, DType::fp8_e4m3}) {
      add(session, {.model = "h64", .dtype = dtype, .batch = 2, .seq = 16});
    }
    return;
  }
  for (const bool causal : {true, false}) {
    for (const auto dtype : {DType::bf16, DType::fp8_e4m3}) {
      add(session, {.model = "h8192", .dtype = dtype, .batch = 32, .seq = 4096, .causal = causal});
    }
  }
}

}  // namespace shakedown
