// What the harness costs: AllReduce of 8 bytes through Work, Device and World against a bare MPI_Allreduce loop, in the
// same processes, in blocks that take turns. Prints both medians and their ratio; fails above --limit.
//
//   mpirun -np 2 build/tests/overhead [--limit=1.10]
#include <mpi.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/statistics.hpp"
#include "fixtures/world.hpp"
#include "kernels/device.hpp"

namespace shakedown {
namespace {

constexpr int blocks = 60, repeats = 2000;

double bare_seconds() {
  const std::array<float, 2> in{1, 2};
  std::array<float, 2> out{};
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) MPI_Allreduce(in.data(), out.data(), 2, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int compare(double limit) {
  std::atomic<std::uint64_t> steps{0};
  const auto world = make_world([&steps](bool) { steps.fetch_add(1, std::memory_order_relaxed); });
  const auto device = open_device(Backend::host, {});
  const auto work = device->prepare(CollectiveSpec{CollectiveOp::all_reduce, DType::f32, 8, world->size()});
  work->connect(*world);
  work->reset();
  std::vector<double> ours, bare;
  for (int i = 0; i < blocks; ++i) {
    world->barrier();
    ours.push_back(world->max(device->seconds(*work, repeats)));
    world->barrier();
    bare.push_back(world->max(bare_seconds()));
  }
  const double ratio = median(ours) / median(bare);
  if (world->rank() == 0) {
    std::printf("AllReduce of 8 bytes, %d ranks: harness %.4f us, bare MPI %.4f us, ratio %.3f (limit %.2f)\n",
                world->size(), median(ours) / repeats * 1e6, median(bare) / repeats * 1e6, ratio, limit);
  }
  return ratio <= limit ? 0 : 1;
}

}  // namespace
}  // namespace shakedown

int main(int argc, char** argv) {
  const bool given = argc > 1 && std::strncmp(argv[1], "--limit=", 8) == 0;
  return shakedown::compare(given ? std::atof(argv[1] + 8) : 1.10);
}
