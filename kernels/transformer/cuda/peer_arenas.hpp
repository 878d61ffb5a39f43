// The arenas of all ranks of a host, mapped through CUDA IPC, so that a copy engine of one rank can read from another.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/cuda/gpu.hpp"

namespace shakedown::cuda {

class PeerArenas {
 public:
  /// `arena` must be an allocation of its own, a shareable Buffer that outlives this object.
  explicit PeerArenas(const std::byte* arena) : arena_(arena) {}
  PeerArenas(const PeerArenas&) = delete;
  PeerArenas& operator=(const PeerArenas&) = delete;
  /// Collective if the arenas are mapped: returns when no rank maps this rank's arena any more, so that it can be
  /// freed.
  ~PeerArenas();

  /// Maps the arenas of all ranks. Collective. Maps none on any rank if one rank fails, or if the group spans several
  /// hosts.
  void connect(Group&);
  bool mapped() const { return group_ != nullptr; }

  /// Returns the address in the arena of `rank` that corresponds to `own` in the arena of this rank.
  template <class T>
  const T* of(int rank, const T* own) const {
    const auto* const base = static_cast<const std::byte*>(mappings_[static_cast<std::size_t>(rank)].get());
    return reinterpret_cast<const T*>(base + (reinterpret_cast<const std::byte*>(own) - arena_));
  }

 private:
  const std::byte* arena_;
  Group* group_ = nullptr;            // set if the arenas are mapped
  std::vector<IpcMapping> mappings_;  // one arena for each rank; null for this rank
};

}  // namespace shakedown::cuda
