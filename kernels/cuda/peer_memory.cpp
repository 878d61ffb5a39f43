// CUDA IPC handles between the ranks of a host.
#include "kernels/cuda/peer_memory.hpp"

#include <cstring>
#include <stdexcept>
#include <utility>

namespace shakedown::cuda {

namespace {

bool failed(cudaError_t status, const char* call, std::string& trouble) {
  if (status == cudaSuccess) return false;
  static_cast<void>(cudaGetLastError());  // otherwise the next launch would report this error again
  trouble = std::string(call) + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")";
  return true;
}

}  // namespace

PeerMemory::PeerMemory(Gpu& gpu, std::size_t shared_bytes) : gpu_(gpu) {
  if (shared_bytes > 0) shared_ = Buffer(shared_bytes, Buffer::shareable);
}

PeerMemory::~PeerMemory() {
  mapped_.clear();
  if (given_out_) gpu_.retire(std::move(shared_));
}

void PeerMemory::exchange(Group& local, std::optional<int> owner) {
  exchange(local, owner ? std::vector{*owner} : std::vector<int>());
}

void PeerMemory::exchange_all(Group& local) {
  std::vector<int> others;
  for (int rank = 0; rank < local.size(); ++rank) {
    if (rank != local.rank()) others.push_back(rank);
  }
  exchange(local, others);
}

void PeerMemory::exchange(Group& local, const std::vector<int>& owners) {
  local.barrier();
  gpu_.free_retired();  // all ranks of this host have arrived, so no mapping of an earlier Work is left
  std::string trouble;
  const auto handles = local.gather(shared_ ? share(trouble) : "");
  for (const int owner : owners) {
    const auto& handle = handles[static_cast<std::size_t>(owner)];
    if (!handle.empty()) map(owner, handle, trouble);
  }
  const auto troubles = local.gather(trouble);
  for (std::size_t r = 0; r < troubles.size(); ++r) {
    if (troubles[r].empty()) continue;
    throw Unsupported("local rank " + std::to_string(r) + ": " + troubles[r] +
                      "; CUDA IPC needs every rank to see both GPUs, in one IPC and process namespace");
  }
}

/// Returns the handle of this rank's buffer as bytes. On failure returns an empty string and sets `trouble`.
std::string PeerMemory::share(std::string& trouble) {
  cudaIpcMemHandle_t handle{};
  if (failed(cudaIpcGetMemHandle(&handle, shared_.data()), "cudaIpcGetMemHandle", trouble)) return "";
  given_out_ = true;
  return {reinterpret_cast<const char*>(&handle), sizeof handle};
}

void PeerMemory::map(int owner, const std::string& bytes, std::string& trouble) {
  cudaIpcMemHandle_t handle{};
  if (bytes.size() != sizeof handle) throw std::runtime_error("p2p: the handle of the peer has a wrong size");
  std::memcpy(&handle, bytes.data(), sizeof handle);
  void* memory = nullptr;
  const auto status = cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess);
  if (!failed(status, "cudaIpcOpenMemHandle", trouble)) mapped_[owner].reset(memory);
}

}  // namespace shakedown::cuda
