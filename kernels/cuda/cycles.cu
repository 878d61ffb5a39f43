// One block for each multiprocessor reads its counter of cycles (clock64) and the timer of the GPU (%globaltimer), once
// at each end of an interval; PTX ISA, section Special Registers. One that missed an end is left out.
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cuda/cycles.hpp"
#include "kernels/cuda/handle.hpp"

namespace shakedown::cuda {

namespace {

/// Of one multiprocessor. `open` between the ends of an interval.
struct Count {
  unsigned long long begin_cycles, begin_ns, cycles, ns;
  unsigned open, intervals;
};

__device__ unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ unsigned multiprocessor() {
  unsigned number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
}

__global__ void begin_kernel(Count* counts, unsigned most) {
  const auto own = multiprocessor();
  if (own >= most) return;
  counts[own].begin_cycles = static_cast<unsigned long long>(clock64());
  counts[own].begin_ns = nanoseconds();
  counts[own].open = 1;
}

__global__ void end_kernel(Count* counts, unsigned most) {
  const auto cycles = static_cast<unsigned long long>(clock64());
  const auto now = nanoseconds();
  const auto own = multiprocessor();
  if (own >= most || atomicExch(&counts[own].open, 0U) == 0) return;  // two blocks may share a multiprocessor
  if (cycles <= counts[own].begin_cycles || now <= counts[own].begin_ns) return;
  counts[own].cycles += cycles - counts[own].begin_cycles;
  counts[own].ns += now - counts[own].begin_ns;
  ++counts[own].intervals;
}

unsigned blocks(const Gpu& gpu) { return static_cast<unsigned>(gpu.multiprocessors()); }

}  // namespace

CycleCounter::CycleCounter(const Gpu& gpu)
    : gpu_(gpu), counts_(static_cast<std::size_t>(gpu.multiprocessors()) * sizeof(Count)) {
  gpu_.fill(counts_, 0);
}

void CycleCounter::begin() {
  begin_kernel<<<blocks(gpu_), 1, 0, gpu_.stream()>>>(counts_.data<Count>(), blocks(gpu_));
  check(cudaGetLastError());
}

void CycleCounter::end(int operations) {
  operations_ += operations;
  ++intervals_;
  end_kernel<<<blocks(gpu_), 1, 0, gpu_.stream()>>>(counts_.data<Count>(), blocks(gpu_));
  check(cudaGetLastError());
}

/// The ends of an interval are the same for all multiprocessors, so that the mean over those that count is good enough.
std::optional<ClockCount> CycleCounter::take() {
  std::vector<Count> counts(static_cast<std::size_t>(gpu_.multiprocessors()));
  gpu_.read(counts.data(), counts_.data(), counts_.bytes());
  gpu_.fill(counts_, 0);
  double cycles = 0, ns = 0;
  std::size_t counting = 0;
  for (const auto& count : counts) {
    if (count.intervals != intervals_) continue;  // it missed an end
    ++counting;
    cycles += static_cast<double>(count.cycles);
    ns += static_cast<double>(count.ns);
  }
  const auto operations = std::exchange(operations_, 0);
  intervals_ = 0;
  if (counting == 0 || ns <= 0 || operations <= 0) return std::nullopt;
  return ClockCount{cycles / ns * 1e3, cycles / static_cast<double>(counting) / operations};
}

}  // namespace shakedown::cuda
