// GEMM: how many TFLOPS every GPU reaches on dense square products of random normal data, all GPUs at once.
//
//   mpirun -np 4 build/bench/bench_gemm --benchmark_filter=dtype:bf16
#include "fixtures/session.hpp"

namespace shakedown {

namespace {

/// 2 m n k operations, counted as the vendors do; 1 TFLOPS = 1e12 per second.
Metrics figures(const Cost& cost, double seconds, int) { return {{"tflops", cost.flops / seconds / 1e12}}; }

}  // namespace

void register_benchmarks(Session& session) {
  const auto cube = [&session](DType dtype, int n) { session.add(GemmSpec{dtype, n, n, n}, figures); };
  if (session.backend() == Backend::cuda) {
    for (const int n : {4096, 8192, 16384}) cube(DType::bf16, n);
    cube(DType::f32, 8192);
  } else {
    for (const auto dtype : {DType::f32, DType::f64}) {
      for (const int n : {1024, 2048}) cube(dtype, n);
    }
  }
}

}  // namespace shakedown
