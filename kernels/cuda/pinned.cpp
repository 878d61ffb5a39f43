// mbind(2) before the first touch places the pages; cudaHostRegister then locks them. The code uses the system call
// directly, because libnuma is not installed everywhere.
#include "kernels/cuda/pinned.hpp"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "kernels/cuda/handle.hpp"
#include "kernels/numa.hpp"

namespace shakedown::cuda {

namespace {

bool bind_to(void* begin, std::size_t bytes, int node) {
  constexpr int bits = 8 * sizeof(unsigned long);
  std::array<unsigned long, max_numa_nodes / bits> mask{};
  mask[static_cast<std::size_t>(node / bits)] = 1UL << (node % bits);
  return syscall(SYS_mbind, begin, bytes, MPOL_BIND, mask.data(), static_cast<unsigned long>(max_numa_nodes), 0U) == 0;
}

/// Writes all bytes, which places their pages. Several threads do it if there is much memory: one writes a few GB/s.
void touch(std::byte* begin, std::size_t bytes) {
  constexpr std::size_t of_a_thread = std::size_t{1} << 30;
  const auto count = std::clamp<std::size_t>(bytes / of_a_thread, 1, std::max(1U, std::thread::hardware_concurrency()));
  const auto share = (bytes + count - 1) / count;
  std::vector<std::jthread> threads;
  for (std::size_t first = 0; first < bytes; first += share) {
    threads.emplace_back([=] { std::memset(begin + first, 0xa5, std::min(share, bytes - first)); });
  }
}

}  // namespace

Pinned::Pinned(std::size_t bytes, std::optional<int> node) : bytes_(bytes) {
  void* begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) throw Unsupported("the host has no memory for " + std::to_string(bytes) + " bytes");
  begin_ = static_cast<std::byte*>(begin);
  if (node && !bind_to(begin, bytes, *node)) {
    const std::string why = std::strerror(errno);
    release();
    throw Unsupported("mbind to NUMA node " + std::to_string(*node) + ": " + why);
  }
  static_cast<void>(madvise(begin, bytes, MADV_HUGEPAGE));  // huge pages are faster to fault in and to lock, but
                                                            // optional
  touch(begin_, bytes);                                     // the first touch places the pages on that node
  const auto status = cudaHostRegister(begin, bytes, cudaHostRegisterDefault);
  registered_ = status == cudaSuccess;
  if (registered_) return;
  static_cast<void>(cudaGetLastError());
  release();
  throw Unsupported("cudaHostRegister: " + std::string(cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) +
                    "); see ulimit -l");
}

Pinned::~Pinned() { release(); }

void Pinned::release() noexcept {
  if (registered_) static_cast<void>(cudaHostUnregister(begin_));
  munmap(begin_, bytes_);
}

}  // namespace shakedown::cuda
