// Memory that a rank shares with another rank of its host through CUDA IPC.
#pragma once

#include <optional>
#include <string>

#include "kernels/cuda/gpu.hpp"

namespace shakedown::cuda {

class PeerMemory {
 public:
  /// Allocates the memory that this rank shares; 0 bytes mean none.
  PeerMemory(Gpu&, std::size_t shared_bytes);
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;
  ~PeerMemory();

  /// Maps the memory that `owner` shares, if there is an owner. Collective over the ranks of the host; called once.
  /// Errors: Unsupported, on all ranks, with the call that failed.
  void exchange(Group& local, std::optional<int> owner);

  const Buffer& shared() const { return shared_; }
  void* mapped() const { return mapped_.get(); }

 private:
  std::string share(std::string& trouble);
  void map(const std::string& handle, std::string& trouble);

  Gpu& gpu_;
  Buffer shared_;
  bool given_out_ = false;
  IpcMapping mapped_;
};

}  // namespace shakedown::cuda
