// Memory that a rank shares with other ranks of its host through CUDA IPC.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

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

  /// Maps the memory that each other rank shares. Otherwise like exchange.
  void exchange_all(Group& local);

  const Buffer& shared() const { return shared_; }
  /// Returns the memory of the owner; nullptr if there is none.
  void* mapped() const { return mapped_.empty() ? nullptr : mapped_.begin()->second.get(); }
  /// Returns the memory of another rank after exchange_all.
  void* mapped(int owner) const { return mapped_.at(owner).get(); }

 private:
  void exchange(Group& local, const std::vector<int>& owners);
  std::string share(std::string& trouble);
  void map(int owner, const std::string& handle, std::string& trouble);

  Gpu& gpu_;
  Buffer shared_;
  bool given_out_ = false;
  std::map<int, IpcMapping> mapped_;  // by owner
};

}  // namespace shakedown::cuda
