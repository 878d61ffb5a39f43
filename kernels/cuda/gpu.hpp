// The GPU of this rank as its Works see it: where it stands, its stream, its memory, and the counters of checks.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/handle.hpp"
#include "kernels/device.hpp"

namespace shakedown::cuda {

inline constexpr unsigned long long no_index = ~0ULL;

/// What a checking kernel counts, in device memory and on the host.
struct Tally {
  unsigned long long compared = 0;
  unsigned long long mismatched = 0;
  unsigned long long first = no_index;  // lowest index that was wrong
  unsigned worst = 0;                   // bits of the float: largest error as a part of its tolerance
  double got = 0, want = 0;             // at the index that the kernel was told to report
};

/// A part of somebody's device memory.
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

/// Device memory. Its end is padded to whole 16-byte vectors, so that kernels may use whole words; the memory of a
/// shared buffer is padded to 2 MiB, because CUDA IPC shares whole allocation blocks of that size.
class Buffer {
 public:
  Buffer() = default;
  /// Errors: Unsupported if it does not fit into the free memory.
  explicit Buffer(std::size_t bytes, std::size_t granule = 16);

  static constexpr std::size_t shareable = std::size_t{2} << 20;

  template <class T = void>
  T* data() const {
    return static_cast<T*>(memory_.get());
  }
  std::byte* at(std::size_t offset) const { return data<std::byte>() + offset; }
  std::size_t bytes() const { return bytes_; }
  /// With the padding to whole vectors.
  std::size_t padded_bytes() const { return (bytes_ + 15) / 16 * 16; }
  explicit operator bool() const { return memory_ != nullptr; }
  operator View() const { return {data(), bytes_}; }

 private:
  DeviceMemory memory_;
  std::size_t bytes_ = 0;
};

class Gpu {
 public:
  /// Takes the device with this number for the calling thread and all later calls.
  Gpu(int ordinal, const Placement&);

  int ordinal() const { return ordinal_; }
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  int multiprocessors() const { return multiprocessors_; }
  /// The first number of the compute capability: 9 of 9.0.
  int major() const { return major_; }
  cudaStream_t stream() const { return stream_.get(); }

  void synchronize() const;

  /// Copies to and from device memory, behind what is on the stream; returns when it is done.
  void read(void* to, const void* device, std::size_t bytes) const;
  void write(void* device, const void* from, std::size_t bytes) const;
  template <class T>
  T read(const T* device) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    read(&value, device, sizeof value);
    return value;
  }

  /// Queues `value` into every byte of the buffer, its padding included.
  void fill(const Buffer&, int value) const;
  /// Queues `value` into every byte of these.
  void fill(const View&, int value) const;

  /// The counters of the next check, set back to zero.
  Tally* start_tally() const;
  /// The counters of that check, when it is done.
  Tally finish_tally() const;
  /// One word for sums, set back to zero.
  unsigned long long* start_sum() const;

  /// Keeps memory that another process may still have mapped: freeing it first is undefined (CUDA,
  /// cudaIpcCloseMemHandle).
  void retire(Buffer buffer) { retired_.push_back(std::move(buffer)); }
  /// Frees it. All processes have closed their mappings.
  void free_retired() { retired_.clear(); }

 private:
  int ordinal_, local_rank_, local_size_;
  int multiprocessors_ = 0, major_ = 0;
  Stream stream_;
  Buffer tally_, sum_;
  std::vector<Buffer> retired_;
};

/// Of local operations, how many run untimed in front of so many timed ones: see CudaDevice::seconds.
constexpr int operations_in_front(int repeats) { return repeats > 1 ? 1 : 0; }

/// Bytes of memory that nobody has.
std::size_t free_memory();

/// Throws Unsupported with the bytes needed and free if `bytes` more, and what NCCL and cuBLASLt allocate by
/// themselves, would not fit.
void require_memory(std::size_t bytes);

}  // namespace shakedown::cuda
