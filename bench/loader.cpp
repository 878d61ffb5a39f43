// Batches of a data loader: documents of tokens from a disk, in seeded order, packed into sequences, to the device.
// Each rank makes its documents in --checkpoint-dir, in a file without a name, and reads them without the page cache.
//
//   mpirun -np 4 build/bench/bench_loader --checkpoint-dir=/scratch --benchmark_filter='loader/workers'
#include "kernels/ops/loader.hpp"

#include <algorithm>

#include "fixtures/plan/session.hpp"

namespace shakedown {

namespace {

/// The LoRA step with two sequences of 4,096 tokens takes this time on an H200 (ci/baselines/h200-sxm).
constexpr double step_seconds_of_gpu = 0.45, step_seconds_of_host = 0.01;

}  // namespace

/// The rows run only on request, because they write a file. The waived row says so.
void register_loader(Session& session) {
  session.add_on_request("loader/of:tokens", "loader/workers");
  LoaderSpec spec{.folder = session.options().checkpoint_folder(), .rank = session.rank(), .ranks = session.ranks()};
  const double step = session.has_gpus() ? step_seconds_of_gpu : step_seconds_of_host;
  if (!session.has_gpus()) {
    spec.documents = 2048;
    spec.seq = 512;
  }
  for (const int workers : {1, 4}) {
    spec.workers = workers;
    const double samples = static_cast<double>(spec.batches * spec.batch);
    Measurement row =
        measurement_of(spec, [samples, step, batches = spec.batches](const Cost& cost, double seconds, int) -> Metrics {
          const double late = std::max(0.0, seconds / static_cast<double>(batches) - step);
          return {{"samples_per_s", samples / seconds},
                  {"loader_gb_per_s", cost.bytes / seconds / 1e9},
                  {"starved_ms", late * 1e3}};
        });
    row.on_request = true;
    session.add(std::move(row));
  }
}

}  // namespace shakedown
