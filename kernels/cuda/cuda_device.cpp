// Selects the GPU of a rank and times operations on it.
#include "kernels/cuda/cuda_device.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/driver_library.hpp"
#include "kernels/backends.hpp"
#include "kernels/cuda/facts.hpp"

namespace shakedown::cuda {

namespace {

/// Shortest collective sample whose clock cycles are counted. Ranks enter a collective together, and work queued before
/// it lets them drift apart. In samples of at least this duration, the 3 us of the counter do not affect the next
/// sample.
constexpr double min_counted_seconds = 5e-4;

}  // namespace

int ordinal_for(const Placement& placement, int visible) {
  if (visible >= placement.local_size) return placement.local_rank;
  if (visible == 1) return 0;  // the scheduler gave each rank its own GPU; the fixtures compare the UUIDs of all ranks
  throw std::runtime_error(std::to_string(placement.local_size) + " ranks on this host but only " +
                           std::to_string(visible) + " visible GPUs; start one rank per GPU (mpirun -np " +
                           std::to_string(visible) + " ...), or let each rank see only its own GPU");
}

CudaDevice::CudaDevice(int ordinal, const Placement& placement)
    : gpu_(ordinal, placement), info_(read_facts(ordinal)), cycles_(gpu_) {
  info_.jit_seconds = seconds_of_jit();
}

DeviceInfo CudaDevice::info() const {
  auto info = info_;
  info.nccl_links = communicators_.links();
  return info;
}

double CudaDevice::seconds(Work& work, int repeats) {
  if (!work.credited_rank(0)) return 0;  // this rank is idle and has nothing to measure
  if (work.on_processor()) {
    const auto begin = std::chrono::steady_clock::now();
    work.enqueue_batch(repeats);
    const auto end = std::chrono::steady_clock::now();
    gpu_.synchronize();
    return std::chrono::duration<double>(end - begin).count();
  }
  const bool local = !work.collective();
  if (std::exchange(timed_, {&work, repeats}) != std::pair<const Work*, int>(&work, repeats)) long_ = false;
  const bool counts = local || long_;
  const int in_front = local ? operations_in_front(repeats) : work.needs_lead_in() ? 1 : 0;
  if (counts) cycles_.begin();
  for (int i = 0; i < in_front; ++i) work.enqueue();
  check(cudaEventRecord(begin_.get(), gpu_.stream()));
  work.enqueue_batch(repeats);
  check(cudaEventRecord(end_.get(), gpu_.stream()));
  if (counts) cycles_.end(repeats + in_front);
  if (local) {
    check(cudaEventSynchronize(end_.get()));
  } else {
    communicators_.wait(end_.get());
  }
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()));
  const double seconds = static_cast<double>(milliseconds) * 1e-3;
  long_ = long_ || seconds >= min_counted_seconds;
  return seconds;
}

std::unique_ptr<Work> CudaDevice::prepare(const Spec& spec) {
  timed_ = {};  // the next Work may have the same address as this one
  using Clock = std::chrono::steady_clock;
  const std::chrono::duration<double> clearing(static_cast<double>(prepared_bytes_) / clearing_rate(gpu_.properties()));
  cleared_ = std::max(cleared_, Clock::now()) + std::chrono::duration_cast<Clock::duration>(clearing);
  prepared_bytes_ = 0;
  if (!spec.cuda_maker) return Device::prepare(spec);
  auto work = spec.cuda_maker(*this);
  prepared_bytes_ = work->bytes();
  return work;
}

void CudaDevice::wait_until_cleared() const { std::this_thread::sleep_until(cleared_); }

/// Returns the number of devices, or none and CUDA's reason. A missing driver (error 35) and a missing GPU (error 100)
/// are treated alike.
Availability probe() {
  // cudart and NCCL look the library up by this name only, and then find the copy that is already open. It stays open.
  static_cast<void>(open_driver_library("libcuda.so.1").library.release());
  int devices = 0;
  const auto status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return {0, "CUDA finds no device: " + std::string(cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) +
                   ", " + std::to_string(static_cast<int>(status)) + ")"};
  }
  if (devices == 0) return {0, "CUDA finds no device (is CUDA_VISIBLE_DEVICES empty?)"};
  return {devices, ""};
}

std::unique_ptr<Device> open_device(const Placement& placement) {
  const auto available = probe();
  if (available.devices == 0) throw std::runtime_error(available.reason);
  static_cast<void>(blas());  // fails here, not in a measurement
  return std::make_unique<CudaDevice>(ordinal_for(placement, available.devices), placement);
}

}  // namespace shakedown::cuda
