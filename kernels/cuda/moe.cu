// One warp moves one token. The last block of a kernel tells the other ranks that this rank has finished, and waits for
// them.
#include <cuda_bf16.h>

#include <algorithm>

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/known_data.cuh"
#include "kernels/cuda/moe.hpp"

namespace shakedown::cuda {

namespace {

constexpr unsigned moe_block = 512, warp_lanes = 32;
constexpr unsigned blocks_per_multiprocessor = 4;  // all threads that a multiprocessor can have
constexpr unsigned long long wait_limit_ns = 10'000'000'000;

/// Tells a peer that this rank has finished operation `number`. The writes of all blocks are visible to the peer first.
__device__ void tell(unsigned* finished, unsigned number) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(finished), "r"(number) : "memory");
}

/// Returns true after a peer has finished operation `number`, and false after the time limit.
__device__ bool wait_for(const unsigned* finished, unsigned number) {
  unsigned long long begin = 0, now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    unsigned seen = 0;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(finished) : "memory");
    if (static_cast<int>(seen - number) >= 0) return true;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < wait_limit_ns);
  return false;
}

/// Called by all threads at the end of an operation.
__device__ void finish(const MoePeers& peers, unsigned number, MoeProgress* progress) {
  __shared__ bool is_last;
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(&progress->blocks_done, 1) == gridDim.x - 1;
  __syncthreads();
  if (!is_last) return;
  __threadfence_system();
  if (threadIdx.x == 0) progress->blocks_done = 0;
  const int peer = static_cast<int>(threadIdx.x);
  if (peer >= peers.ranks) return;
  tell(peers.finished[peer] + peers.rank, number);
  if (*static_cast<volatile unsigned*>(&progress->late) != 0) return;
  if (!wait_for(peers.finished[peers.rank] + peer, number)) progress->late = 1 + static_cast<unsigned>(peer);
}

__global__ void __launch_bounds__(moe_block)
    dispatch_kernel(MoeCopies tokens, MoePeers peers, const uint4* in, std::size_t offset, unsigned number,
                    MoeProgress* progress) {
  const auto lane = threadIdx.x % warp_lanes;
  for (auto token = static_cast<std::uint32_t>(first_index() / warp_lanes); token < tokens.tokens;
       token += static_cast<std::uint32_t>(stride() / warp_lanes)) {
    const auto begin = tokens.first[token], end = tokens.first[token + 1];
    const auto* const from = in + static_cast<std::size_t>(token) * tokens.vectors;
#pragma unroll 4
    for (auto v = lane; v < tokens.vectors; v += warp_lanes) {
      const uint4 values = __ldg(from + v);
      for (auto c = begin; c < end; ++c) {
        const MoeCopy copy = tokens.copies[c];
        auto* const to = reinterpret_cast<uint4*>(peers.data[copy.rank] + offset);
        to[static_cast<std::size_t>(copy.place) * tokens.vectors + v] = values;
      }
    }
  }
  finish(peers, number, progress);
}

/// Adds the eight bf16 numbers of a vector, weighted.
__device__ void add_weighted(const uint4& values, float weight, float (&sums)[8]) {
  const unsigned words[4] = {values.x, values.y, values.z, values.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sums[2 * i] += weight * __uint_as_float(words[i] << 16);
    sums[2 * i + 1] += weight * __uint_as_float(words[i] & 0xffff0000U);
  }
}

__device__ unsigned pack(float low, float high) {
  return static_cast<unsigned>(__bfloat16_as_ushort(__float2bfloat16_rn(low))) |
         static_cast<unsigned>(__bfloat16_as_ushort(__float2bfloat16_rn(high))) << 16;
}

/// The least number of blocks of a combine per multiprocessor. With 0, ptxas picks the registers itself, and spills one
/// from sm_100 on. sm_120 has no NVLink, so PCIe limits it, not the number of blocks.
#if __CUDA_ARCH__ >= 1200
constexpr unsigned min_combine_blocks = 2;
#elif __CUDA_ARCH__ >= 1000
constexpr unsigned min_combine_blocks = 3;
#else
constexpr unsigned min_combine_blocks = 0;
#endif

__global__ void __launch_bounds__(moe_block, min_combine_blocks)
    combine_kernel(MoeCopies tokens, MoePeers peers, uint4* out, unsigned number, MoeProgress* progress) {
  const auto lane = threadIdx.x % warp_lanes;
  for (auto token = static_cast<std::uint32_t>(first_index() / warp_lanes); token < tokens.tokens;
       token += static_cast<std::uint32_t>(stride() / warp_lanes)) {
    const auto begin = tokens.first[token], end = tokens.first[token + 1];
#pragma unroll 2
    for (auto v = lane; v < tokens.vectors; v += warp_lanes) {
      float sums[8] = {};
      for (auto c = begin; c < end; ++c) {
        const MoeCopy copy = tokens.copies[c];
        const auto* const from = reinterpret_cast<const uint4*>(peers.data[copy.rank]);
        add_weighted(__ldcs(from + static_cast<std::size_t>(copy.place) * tokens.vectors + v), copy.weight, sums);
      }
      out[static_cast<std::size_t>(token) * tokens.vectors + v] =
          make_uint4(pack(sums[0], sums[1]), pack(sums[2], sums[3]), pack(sums[4], sums[5]), pack(sums[6], sums[7]));
    }
  }
  finish(peers, number, progress);
}

__global__ void fill_outputs_kernel(std::uint16_t* to, std::size_t count, const MoeToken* tokens, MoeNumbers numbers,
                                    unsigned at) {
  for (auto i = first_index(); i < count; i += stride()) {
    const auto token = tokens[i / numbers.hidden];
    to[i] = MoeNumbers::bits(numbers.output(token.of, at, token.index, i % numbers.hidden));
  }
}

__global__ void count_wrong_tokens_kernel(const std::uint32_t* got, std::size_t count, const MoeToken* tokens,
                                          std::size_t words, std::size_t sent, Tally* tally) {
  LocalTally mine;
  for (auto i = first_index(); i < count; i += stride()) {
    const auto token = tokens[i / words];
    mine.add(got[i] == reference::Parts{sent, 0, token.of}.at(token.index * words + i % words), i);
  }
  mine.add_to(tally);
}

__global__ void count_wrong_sums_kernel(const std::uint16_t* got, std::size_t count, MoeCopies tokens,
                                        MoeNumbers numbers, unsigned of, Tally* tally) {
  LocalTally mine;
  for (auto i = first_index(); i < count; i += stride()) {
    const auto token = i / numbers.hidden;
    unsigned sum = 0;
    for (auto c = tokens.first[token]; c < tokens.first[token + 1]; ++c) {
      const auto at = tokens.copies[c].rank;
      sum += numbers.weight(of, at, token) * numbers.output(of, at, token, i % numbers.hidden);
    }
    mine.add(got[i] == MoeNumbers::bits(sum), i);
  }
  mine.add_to(tally);
}

/// Returns a warp for each token, up to the number that fills the GPU.
unsigned moe_blocks(const Gpu& gpu, const MoeCopies& tokens) {
  constexpr unsigned tokens_per_block = moe_block / warp_lanes;
  return std::min(blocks_per_multiprocessor * static_cast<unsigned>(gpu.multiprocessors()),
                  (tokens.tokens + tokens_per_block - 1) / tokens_per_block);
}

}  // namespace

void dispatch_tokens(const Gpu& gpu, const MoeCopies& tokens, const MoePeers& peers, const void* in, std::size_t offset,
                     unsigned number, MoeProgress* progress) {
  dispatch_kernel<<<moe_blocks(gpu, tokens), moe_block, 0, gpu.stream()>>>(tokens, peers, static_cast<const uint4*>(in),
                                                                           offset, number, progress);
  check(cudaGetLastError());
}

void combine_tokens(const Gpu& gpu, const MoeCopies& tokens, const MoePeers& peers, void* out, unsigned number,
                    MoeProgress* progress) {
  combine_kernel<<<moe_blocks(gpu, tokens), moe_block, 0, gpu.stream()>>>(tokens, peers, static_cast<uint4*>(out),
                                                                          number, progress);
  check(cudaGetLastError());
}

void fill_outputs(const Gpu& gpu, const View& buffer, const MoeToken* tokens, const MoeNumbers& numbers, int at) {
  const auto count = buffer.bytes() / sizeof(std::uint16_t);
  fill_outputs_kernel<<<blocks_for(count), block, 0, gpu.stream()>>>(buffer.data<std::uint16_t>(), count, tokens,
                                                                     numbers, static_cast<unsigned>(at));
  check(cudaGetLastError());
}

Tally count_wrong_tokens(const Gpu& gpu, const View& buffer, const MoeToken* tokens, const MoeSpec& spec) {
  const auto count = buffer.bytes() / sizeof(std::uint32_t), words = token_bytes(spec) / sizeof(std::uint32_t);
  auto* const tally = gpu.start_tally();
  count_wrong_tokens_kernel<<<blocks_for(count), block, 0, gpu.stream()>>>(buffer.data<const std::uint32_t>(), count,
                                                                           tokens, words, spec.tokens * words, tally);
  check(cudaGetLastError());
  return gpu.finish_tally();
}

Tally count_wrong_sums(const Gpu& gpu, const View& buffer, const MoeCopies& tokens, const MoeNumbers& numbers, int of) {
  const auto count = buffer.bytes() / sizeof(std::uint16_t);
  auto* const tally = gpu.start_tally();
  count_wrong_sums_kernel<<<blocks_for(count), block, 0, gpu.stream()>>>(
      buffer.data<const std::uint16_t>(), count, tokens, numbers, static_cast<unsigned>(of), tally);
  check(cudaGetLastError());
  return gpu.finish_tally();
}

}  // namespace shakedown::cuda
