// CUDA IPC handles of whole arenas between the ranks of a host.
#include "kernels/transformer/cuda/peer_arenas.hpp"

#include <exception>
#include <span>

namespace shakedown::cuda {

namespace {

bool succeeded(cudaError_t status) {
  static_cast<void>(cudaGetLastError());  // otherwise the next launch would report this error again
  return status == cudaSuccess;
}

}  // namespace

/// Closes the mappings, then waits for the other ranks: freeing memory that another process has mapped is undefined
/// (CUDA, cudaIpcCloseMemHandle). While an exception propagates it does not wait, because other ranks may never arrive.
PeerArenas::~PeerArenas() {
  if (!mapped()) return;
  static_cast<void>(cudaDeviceSynchronize());  // copies may still be queued
  mappings_.clear();
  if (std::uncaught_exceptions() == 0) group_->barrier();
}

void PeerArenas::connect(Group& group) {
  if (group.on_host().size() != group.size()) return;
  cudaIpcMemHandle_t own{};
  // The function takes a non-const pointer. The handle refers to the whole allocation and opens at its beginning.
  if (!group.all(succeeded(cudaIpcGetMemHandle(&own, const_cast<std::byte*>(arena_))))) return;
  std::vector<cudaIpcMemHandle_t> handles(static_cast<std::size_t>(group.size()));
  group.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(handles)));
  bool good = true;
  for (int rank = 0; rank < group.size(); ++rank) {
    void* memory = nullptr;
    if (rank != group.rank()) {
      const auto& handle = handles[static_cast<std::size_t>(rank)];
      good = good && succeeded(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess));
    }
    mappings_.emplace_back(memory);
  }
  if (group.all(good)) {
    group_ = &group;
    return;
  }
  mappings_.clear();
  group.barrier();  // no rank may free its arena before this point
}

}  // namespace shakedown::cuda
