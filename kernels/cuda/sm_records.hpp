// The records of all SMs in GPU memory.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/tile_run.hpp"

namespace shakedown::cuda {

class SmRecords {
 public:
  explicit SmRecords(const Gpu& gpu) : gpu_(gpu), memory_(max_sms * sizeof(SmRecord)) {}

  /// Returns the record of SM 0 in GPU memory; the others follow in order.
  SmRecord* data() const { return memory_.data<SmRecord>(); }
  std::size_t bytes() const { return memory_.bytes(); }
  /// Returns the number of SMs of this GPU.
  std::size_t sms() const { return static_cast<std::size_t>(gpu_.multiprocessors()); }

  /// Queues the writing of zeros.
  void clear() const { gpu_.fill(memory_, 0); }
  /// Returns a record for each possible number of an SM. Waits for the GPU.
  std::vector<SmRecord> read() const {
    std::vector<SmRecord> records(max_sms);
    gpu_.read(records.data(), memory_.data(), memory_.bytes());
    return records;
  }

 private:
  const Gpu& gpu_;
  const Buffer memory_;
};

}  // namespace shakedown::cuda
