// GEMM: TFLOPS of every GPU for dense products of random normal data, on all GPUs at once. The shapes are cubes and the
// linear layers of two language models.
//
//   mpirun -np 4 build/bench/bench_gemm --benchmark_filter=dtype:bf16
//   mpirun -np 4 build/bench/bench_gemm --benchmark_filter=load:sustained
#include "kernels/ops/gemm.hpp"
#include "fixtures/plan/session.hpp"

namespace shakedown {

namespace {

/// Counts 2 m n k operations, as vendors do. 1 TFLOPS is 1e12 operations per second, also for int8.
Metrics figures(const Cost& cost, double seconds, int) { return {{"tflops", cost.flops / seconds / 1e12}}; }

constexpr DType all_types[] = {DType::bf16,     DType::f16,  DType::tf32,  DType::f32,  DType::f64,
                               DType::fp8_e4m3, DType::int8, DType::nvfp4, DType::mxfp8};

/// The types that run on other hardware units than bf16. f16, tf32 and int8 are omitted because they run on the same
/// tensor cores as bf16.
constexpr DType quick_types[] = {DType::f32, DType::f64, DType::fp8_e4m3, DType::nvfp4, DType::mxfp8};

/// A type of 8 bits or less, and the way to accumulate and to scale it.
struct Narrow {
  DType dtype;
  Accumulate accumulate = Accumulate::fast;
  Scaling scaling = Scaling::tensor;
};
/// The products of fp8 training and of inference. The sums of blocks of 128 are promoted to f32 one by one, so they are
/// not measured with fast accumulation.
constexpr Narrow narrow[] = {
    {DType::fp8_e4m3},
    {DType::fp8_e4m3, Accumulate::exact},
    {DType::fp8_e4m3, Accumulate::fast, Scaling::row},
    {DType::fp8_e4m3, Accumulate::exact, Scaling::row},
    {DType::fp8_e4m3, Accumulate::exact, Scaling::block128},
    {DType::int8},
    {DType::mxfp8},
    {DType::nvfp4},
};

constexpr int tokens = 8192;
/// The power limit takes effect in less than one second. The full tier lasts longer, until the air is warm.
constexpr double short_sustained_seconds = 3, sustained_seconds = 10;

/// A linear layer with k input features and n output features.
struct Projection {
  int n, k;
};
/// The layers are: queries, keys and values as one product; attention output; gate and up as one product; down.
constexpr Projection qwen2_7b[] = {{4608, 3584}, {3584, 3584}, {37888, 3584}, {3584, 18944}};
// The attention output is omitted, because it is the 8192 cube.
constexpr Projection llama_70b[] = {{10240, 8192}, {57344, 8192}, {8192, 28672}};

class Plan {
 public:
  explicit Plan(Session& session) : session_(session) {}

  /// Adds cubes of the type that training uses most (bench_lora_step measures its layer shapes), and one size for each
  /// type that runs on other units. The sustained run shows the rate at the power limit, which is the rate of long
  /// jobs.
  void quick() {
    for (const int n : {4096, 8192, 16384}) cube(DType::bf16, n);
    for (const auto dtype : quick_types) cube(dtype, 8192);
    sustained(common, short_sustained_seconds);
  }

  /// Adds the type that training uses most, and one with twice its rate. Each is judged in two rows or by its peers.
  void gate() {
    if (session_.brief()) return cube(DType::bf16, 8192);
    for (const int n : {4096, 8192}) cube(DType::bf16, n);
    cube(DType::fp8_e4m3, 8192);
  }

  /// Adds every type in every shape, and rows that show the effects of zeros, exact sums, heat and neighbours. Takes
  /// about 110 s on a node.
  void full() {
    for (const auto dtype : all_types) {
      for (const int n : {4096, 8192, 16384}) cube(dtype, n);
      // No model uses these types, and they take the most time.
      if (dtype == DType::f32 || dtype == DType::f64) continue;
      for (const auto& p : qwen2_7b) session_.add(GemmSpec{dtype, tokens, p.n, p.k}, figures);
      for (const auto& p : llama_70b) session_.add(GemmSpec{dtype, tokens, p.n, p.k}, figures);
    }
    for (const int n : {4096, 8192, 16384}) {
      GemmSpec exact = {DType::fp8_e4m3, n, n, n};
      exact.accumulate = Accumulate::exact;
      session_.add(exact, figures);
    }
    GemmSpec zeros = common;
    zeros.data = MatrixData::zeros;
    session_.add(zeros, figures);
    sustained(common, sustained_seconds);
    for (const auto& type : narrow) sustained(narrow_cube(type), short_sustained_seconds);
    one_at_a_time();
  }

  /// The smallest cube is fast enough that a verified series can follow it.
  void host() {
    cube(DType::f32, 256);
    for (const auto dtype : {DType::f32, DType::f64}) {
      cube(dtype, 1024);
      if (session_.full()) cube(dtype, 2048);
    }
    for (const auto& type : narrow) {
      if (session_.full() && runs_on_host(type)) session_.add(narrow_cube(type, 256), figures);
    }
  }

 private:
  static bool runs_on_host(const Narrow& type) { return type.dtype == DType::fp8_e4m3 || type.dtype == DType::int8; }

  static constexpr GemmSpec common{DType::bf16, 8192, 8192, 8192};

  void cube(DType dtype, int n) { session_.add(GemmSpec{dtype, n, n, n}, figures); }

  static GemmSpec narrow_cube(const Narrow& type, int n = 8192) {
    GemmSpec spec{type.dtype, n, n, n};
    spec.accumulate = type.accumulate;
    spec.scaling = type.scaling;
    return spec;
  }

  void sustained(GemmSpec spec, double seconds) {
    spec.load = Load::sustained;
    session_.add(spec, figures, seconds);
  }

  /// Adds the cube on one GPU at a time. A GPU that is slow only when others work shares power or cooling with them.
  void one_at_a_time() {
    for (int rank = 0; session_.ranks_per_host() > 1 && rank < session_.ranks_per_host(); ++rank) {
      GemmSpec alone = common;
      alone.active = rank;
      session_.add(alone, figures);
    }
  }

  Session& session_;
};

}  // namespace

void register_gemm(Session& session) {
  Plan plan(session);
  if (!session.has_gpus()) {
    plan.host();
  } else if (session.gate()) {
    plan.gate();
  } else if (session.full()) {
    plan.full();
  } else {
    plan.quick();
  }
}

}  // namespace shakedown
