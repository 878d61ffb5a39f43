// Each SM of a GPU computes the same tile products and reads the same pages, so that wrong bits name their SM on one
// GPU alone. On a machine without GPUs, worker threads take the place of SMs.
//
//   mpirun -np 4 build/bench/bench_sm --benchmark_filter='sm/.*(dtype|bytes)'
//   build/bench/bench_sm --benchmark_filter='sm/op:product.*load:sustained'
#include "kernels/ops/sm.hpp"
#include "fixtures/plan/session.hpp"

namespace shakedown {

namespace {

constexpr double short_seconds = 1, sustained_seconds = 60;
constexpr std::size_t read_bytes = std::size_t{1} << 30;

Metrics product_figures(const Cost& cost, double seconds, int) { return {{"tflops", cost.flops / seconds / 1e12}}; }
/// Counts the bytes that all SMs write and read. Most of the reads are from the L2 cache.
Metrics read_figures(const Cost& cost, double seconds, int) { return {{"read_gb_per_s", cost.bytes / seconds / 1e9}}; }

void add(Session& session, Measurement row, double seconds) {
  row.min_seconds = seconds;
  row.on_request = true;
  session.add(std::move(row));
}

}  // namespace

/// The rows run only on request, because they take a minute. The waived row says so.
void register_sm(Session& session) {
  session.add_on_request("sm/op:product", "sm/.*(dtype|bytes)");
  if (!session.has_gpus()) {
    const TileProductSpec small{.dtype = DType::f32, .m = 16, .n = 32, .k = 512, .products = 8};
    add(session, measurement_of(small, product_figures), 0);
    return;
  }
  add(session, measurement_of(TileProductSpec{}, product_figures), short_seconds);
  add(session, measurement_of(PageReadSpec{read_bytes}, read_figures), short_seconds);
  add(session, measurement_of(TileProductSpec{.load = Load::sustained}, product_figures), sustained_seconds);
}

}  // namespace shakedown
