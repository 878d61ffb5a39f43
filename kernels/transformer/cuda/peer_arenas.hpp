// The arenas of all ranks of a host, mapped through CUDA IPC, so that a copy engine of one rank can fetch from another.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/cuda/gpu.hpp"

namespace shakedown::cuda {

class PeerArenas {
 public:
  /// `arena` is an allocation by itself, a shareable Buffer that outlives this.
  explicit PeerArenas(const std::byte* arena) : arena_(arena) {}
  PeerArenas(const PeerArenas&) = delete;
  PeerArenas& operator=(const PeerArenas&) = delete;
  /// Collective where they are mapped: returns when nobody has this rank's arena any more, which may then be freed.
  ~PeerArenas();

  /// Collective: maps those of all ranks, or none on any rank where one of them cannot, or the group has several hosts.
  void connect(Group&);
  bool mapped() const { return group_ != nullptr; }

  /// What stands in the arena of `rank` where `own` stands in that of this rank.
  template <class T>
  const T* of(int rank, const T* own) const {
    const auto* const base = static_cast<const std::byte*>(mappings_[static_cast<std::size_t>(rank)].get());
    return reinterpret_cast<const T*>(base + (reinterpret_cast<const std::byte*>(own) - arena_));
  }

 private:
  const std::byte* arena_;
  Group* group_ = nullptr;            // where they are mapped
  std::vector<IpcMapping> mappings_;  // by rank; null for this one
};

}  // namespace shakedown::cuda
