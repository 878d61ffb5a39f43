// The GPU of this rank: its position on the host, its stream, its memory, and the counters of checks.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/handle.hpp"
#include "kernels/device.hpp"
#include "kernels/gpu_sizes.hpp"

namespace shakedown::cuda {

inline constexpr unsigned long long no_index = ~0ULL;

/// Counters of a checking kernel, in device memory and on the host.
struct Tally {
  unsigned long long compared = 0;
  unsigned long long mismatched = 0;
  unsigned long long first = no_index;  // lowest index with a mismatch
  unsigned worst = 0;                   // the largest error as a fraction of its tolerance, as the bits of a float
  double got = 0, want = 0;             // values at the index to report
};

/// A part of device memory that another object owns.
class View {
 public:
  View(void* begin, std::size_t bytes) : begin_(static_cast<std::byte*>(begin)), bytes_(bytes) {}

  template <class T = void>
  T* data() const {
    return static_cast<T*>(static_cast<void*>(begin_));
  }
  std::byte* at(std::size_t offset) const { return begin_ + offset; }
  std::size_t bytes() const { return bytes_; }
  View part(std::size_t offset, std::size_t bytes) const { return {at(offset), bytes}; }

 private:
  std::byte* begin_;
  std::size_t bytes_;
};

/// Device memory. The memory is padded to whole 16-byte vectors, so that kernels can access whole words. The memory of
/// a shared buffer is padded to 2 MiB, because CUDA IPC shares whole allocation blocks of that size.
class Buffer {
 public:
  Buffer() = default;
  /// Errors: Unsupported if the buffer does not fit into the free memory.
  explicit Buffer(std::size_t bytes, std::size_t granule = 16);
  /// Takes over memory that is at least as large as `bytes` with its padding.
  Buffer(DeviceMemory memory, std::size_t bytes) : memory_(std::move(memory)), bytes_(bytes) {}

  static constexpr std::size_t shareable = std::size_t{2} << 20;

  template <class T = void>
  T* data() const {
    return static_cast<T*>(memory_.get());
  }
  std::byte* at(std::size_t offset) const { return data<std::byte>() + offset; }
  std::size_t bytes() const { return bytes_; }
  /// Returns the size including the padding to whole vectors.
  std::size_t padded_bytes() const { return (bytes_ + 15) / 16 * 16; }
  explicit operator bool() const { return memory_ != nullptr; }
  operator View() const { return {data(), bytes_}; }

 private:
  DeviceMemory memory_;
  std::size_t bytes_ = 0;
};

class Gpu {
 public:
  /// Selects this device for the calling thread and all later calls.
  Gpu(int ordinal, const Placement&);

  int ordinal() const { return ordinal_; }
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  int multiprocessors() const { return properties_.multiprocessors; }
  const GpuProperties& properties() const { return properties_; }
  /// Returns the major compute capability: 9 for 9.0.
  int major() const { return major_; }
  cudaStream_t stream() const { return stream_.get(); }

  void synchronize() const;

  /// Sets a function that long work calls after each part that is done (Device::while_working).
  void while_working(std::function<void()> sign) { sign_ = std::move(sign); }
  void made_progress() const {
    if (sign_) sign_();
  }

  /// Copy to and from device memory after all queued work on the stream; return when the copy is done.
  void read(void* to, const void* device, std::size_t bytes) const;
  void write(void* device, const void* from, std::size_t bytes) const;
  template <class T>
  T read(const T* device) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    read(&value, device, sizeof value);
    return value;
  }

  /// Queues a fill of the buffer, including its padding, with `value` in every byte.
  void fill(const Buffer&, int value) const;
  /// Queues a fill of the view with `value` in every byte.
  void fill(const View&, int value) const;

  /// Resets the counters for the next check and returns them.
  Tally* start_tally() const;
  /// Waits for the check and returns its counters.
  Tally finish_tally() const;
  /// Resets a word for sums and returns it.
  unsigned long long* start_sum() const;

  /// Keeps memory that another process may still have mapped: freeing it before the mapping is closed is undefined
  /// (CUDA, cudaIpcCloseMemHandle).
  void retire(Buffer buffer) { retired_.push_back(std::move(buffer)); }
  /// Frees the retired memory. All processes must have closed their mappings.
  void free_retired() { retired_.clear(); }

 private:
  int ordinal_, local_rank_, local_size_;
  int major_ = 0;
  GpuProperties properties_;
  Stream stream_;
  Buffer tally_, sum_;
  std::vector<Buffer> retired_;
  std::function<void()> sign_;
};

/// Returns the number of local operations that run untimed before `repeats` timed ones; see CudaDevice::seconds.
constexpr int operations_in_front(int repeats) { return repeats > 1 ? 1 : 0; }

/// Returns the bytes of free GPU memory.
std::size_t free_memory();

/// Throws Unsupported, with the bytes needed and free, if `bytes` more plus the allocations of NCCL and cuBLASLt would
/// not fit.
void require_memory(std::size_t bytes);

}  // namespace shakedown::cuda
