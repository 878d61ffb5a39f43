// Memory, stream and counters of this rank's GPU.
#include "kernels/cuda/gpu.hpp"

#include <fmt/format.h>

namespace shakedown::cuda {

namespace {

/// Memory that the libraries use in addition to the buffers of Works: NCCL's channels and staging, kernels loaded on
/// first use.
constexpr std::size_t library_bytes = std::size_t{1} << 30;

[[noreturn]] void out_of_memory(std::size_t bytes, std::size_t available) {
  throw Unsupported(fmt::format("needs {:.1f} GB, {:.1f} GB free", static_cast<double>(bytes) / 1e9,
                                static_cast<double>(available) / 1e9));
}

DeviceMemory allocate(std::size_t bytes) {
  void* memory = nullptr;
  const auto status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    const auto available = free_memory();
    if (bytes > available) out_of_memory(bytes, available);
    throw Unsupported(fmt::format("the driver refused to allocate {:.1f} MB, {:.1f} GB free",
                                  static_cast<double>(bytes) / 1e6, static_cast<double>(available) / 1e9));
  }
  check(status);
  return DeviceMemory(memory);
}

int attribute(cudaDeviceAttr which, int ordinal) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, ordinal));
  return value;
}

/// CUDA states clocks in kHz and the bus in bits. The bus moves data twice per clock.
GpuProperties properties_of(int ordinal) {
  const double bus_bytes = attribute(cudaDevAttrGlobalMemoryBusWidth, ordinal) / 8.0;
  return {.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, ordinal),
          .clock_hz = 1e3 * attribute(cudaDevAttrClockRate, ordinal),
          .memory_bytes_per_s = 2e3 * attribute(cudaDevAttrMemoryClockRate, ordinal) * bus_bytes,
          .f64 = f64_of(attribute(cudaDevAttrComputeCapabilityMajor, ordinal),
                        attribute(cudaDevAttrComputeCapabilityMinor, ordinal),
                        attribute(cudaDevAttrSingleToDoublePrecisionPerfRatio, ordinal))};
}

}  // namespace

std::size_t free_memory() {
  std::size_t available = 0, total = 0;
  check(cudaMemGetInfo(&available, &total));
  return available;
}

void require_memory(std::size_t bytes) {
  const auto available = free_memory();
  if (bytes > available || available - bytes < library_bytes) out_of_memory(bytes + library_bytes, available);
}

Buffer::Buffer(std::size_t bytes, std::size_t granule)
    : memory_(allocate((bytes + granule - 1) / granule * granule)), bytes_(bytes) {}

Gpu::Gpu(int ordinal, const Placement& placement)
    : ordinal_(ordinal), local_rank_(placement.local_rank), local_size_(placement.local_size) {
  check(cudaSetDevice(ordinal));
  properties_ = properties_of(ordinal);
  major_ = attribute(cudaDevAttrComputeCapabilityMajor, ordinal);
  stream_ = make_stream();
  tally_ = Buffer(sizeof(Tally));
  sum_ = Buffer(sizeof(unsigned long long));
}

void Gpu::synchronize() const { check(cudaStreamSynchronize(stream())); }

void Gpu::read(void* to, const void* device, std::size_t bytes) const {
  check(cudaMemcpyAsync(to, device, bytes, cudaMemcpyDefault, stream()));
  synchronize();
}

void Gpu::write(void* device, const void* from, std::size_t bytes) const {
  check(cudaMemcpyAsync(device, from, bytes, cudaMemcpyDefault, stream()));
  synchronize();
}

void Gpu::fill(const Buffer& buffer, int value) const {
  check(cudaMemsetAsync(buffer.data(), value, buffer.padded_bytes(), stream()));
}

void Gpu::fill(const View& view, int value) const {
  check(cudaMemsetAsync(view.data(), value, view.bytes(), stream()));
}

Tally* Gpu::start_tally() const {
  const Tally zero;
  write(tally_.data(), &zero, sizeof zero);
  return tally_.data<Tally>();
}

Tally Gpu::finish_tally() const { return read(tally_.data<const Tally>()); }

unsigned long long* Gpu::start_sum() const {
  fill(sum_, 0);
  return sum_.data<unsigned long long>();
}

}  // namespace shakedown::cuda
