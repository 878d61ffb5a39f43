// One block per multiprocessor reads its cycle counter (clock64) and the GPU's timer (%globaltimer), once at each end
// of an interval; PTX ISA, section Special Registers. A multiprocessor that missed an end is not counted. Each interval
// has its own sum, so that the cycles of an operation are a median over samples, as its time is.
#include <chrono>
#include <utility>
#include <vector>

#include "base/statistics.hpp"
#include "kernels/cuda/cycles.hpp"
#include "kernels/cuda/handle.hpp"

namespace shakedown::cuda {

namespace {

/// Readings of one multiprocessor at the begin of an interval. `open` is set between its two ends.
struct Begin {
  unsigned long long cycles, ns;
  unsigned open;
};

/// Sums of one interval over the multiprocessors that saw both of its ends.
struct Sum {
  unsigned long long cycles, ns;
  unsigned counting;
};

/// Maximum number of counted intervals; later ones are ignored.
constexpr std::size_t max_sums = 4096;

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

__global__ void begin_kernel(Begin* begins, unsigned most) {
  const auto own = multiprocessor();
  if (own >= most) return;
  begins[own] = {static_cast<unsigned long long>(clock64()), nanoseconds(), 1};
}

__global__ void end_kernel(Begin* begins, unsigned most, Sum* sum) {
  const auto cycles = static_cast<unsigned long long>(clock64());
  const auto now = nanoseconds();
  const auto own = multiprocessor();
  if (own >= most || atomicExch(&begins[own].open, 0U) == 0) return;  // two blocks may run on the same multiprocessor
  if (cycles <= begins[own].cycles || now <= begins[own].ns) return;
  atomicAdd(&sum->cycles, cycles - begins[own].cycles);
  atomicAdd(&sum->ns, now - begins[own].ns);
  atomicAdd(&sum->counting, 1U);
}

unsigned blocks(const Gpu& gpu) { return static_cast<unsigned>(gpu.multiprocessors()); }

}  // namespace

/// The driver compiles PTX for the GPU itself, whose version is then above that of the PTX. Machine code for an older
/// GPU of the same major version has the version of its PTX.
double seconds_of_jit() {
  using Clock = std::chrono::steady_clock;
  cudaFuncAttributes attributes{};
  const auto begin = Clock::now();
  check(cudaFuncGetAttributes(&attributes, begin_kernel));
  const std::chrono::duration<double> took = Clock::now() - begin;
  return attributes.ptxVersion < attributes.binaryVersion ? took.count() : 0;
}

CycleCounter::CycleCounter(const Gpu& gpu)
    : gpu_(gpu),
      begins_(static_cast<std::size_t>(gpu.multiprocessors()) * sizeof(Begin)),
      sums_(max_sums * sizeof(Sum)) {
  gpu_.fill(begins_, 0);
  gpu_.fill(sums_, 0);
}

void CycleCounter::begin() {
  begin_kernel<<<blocks(gpu_), 1, 0, gpu_.stream()>>>(begins_.data<Begin>(), blocks(gpu_));
  check(cudaGetLastError());
}

void CycleCounter::end(int operations) {
  if (operations_.size() == max_sums) return;
  operations_.push_back(operations);
  end_kernel<<<blocks(gpu_), 1, 0, gpu_.stream()>>>(begins_.data<Begin>(), blocks(gpu_),
                                                    sums_.data<Sum>() + (operations_.size() - 1));
  check(cudaGetLastError());
}

std::optional<ClockCount> CycleCounter::take() {
  const auto operations = std::exchange(operations_, {});
  if (operations.empty()) return std::nullopt;
  std::vector<Sum> sums(operations.size());
  gpu_.read(sums.data(), sums_.data(), sums.size() * sizeof(Sum));
  gpu_.fill(sums_, 0);
  double cycles = 0, ns = 0;
  std::vector<double> each;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i].counting == 0 || operations[i] <= 0) continue;
    cycles += static_cast<double>(sums[i].cycles);
    ns += static_cast<double>(sums[i].ns);
    each.push_back(static_cast<double>(sums[i].cycles) / sums[i].counting / operations[i]);
  }
  if (each.empty() || ns <= 0) return std::nullopt;
  return ClockCount{cycles / ns * 1e3, median(std::move(each))};
}

}  // namespace shakedown::cuda
