// The sum of a few values over the ranks of one host, through memory that the ranks share. Each rank writes its
// summands to a mailbox of each other rank, and each rank adds all of them in the same order, so that all ranks get the
// same bits. Half of each 8-byte word is the number of the sum, so that a reader needs no other signal (protocol LL of
// NCCL).
#include "kernels/transformer/cuda/decode_kernels.hpp"
#include "kernels/transformer/cuda/decode_overlap.cuh"
#include "kernels/transformer/cuda/vector.cuh"

namespace shakedown::cuda {

namespace {

constexpr int sum_threads = 256, message_values = 4;  // values in a message
/// If another rank does not answer in this time, the sum is NaN, and later sums do not wait, so that the check fails
/// and the GPU is not blocked.
constexpr unsigned long long patience_ns = 30'000'000'000;
constexpr std::uint32_t two_nan = 0x7fc07fc0U;

__device__ void send(uint4* to, uint2 values, unsigned number) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(values.x), "r"(number), "r"(values.y),
               "r"(number)
               : "memory");
}

__device__ unsigned long long now_ns() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// Waits for a message of this sum. After a timeout, sets `lost`, and `patience` to 0.
__device__ uint2 receive(const uint4* from, unsigned number, unsigned long long& patience, unsigned& lost) {
  const auto begin = now_ns();
  do {
    uint4 message;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(message.x), "=r"(message.y), "=r"(message.z), "=r"(message.w)
                 : "l"(from)
                 : "memory");
    if (message.y == number && message.w == number) return {message.x, message.z};
  } while (now_ns() - begin < patience);
  patience = 0;
  lost = 1;
  return {two_nan, two_nan};
}

/// A rank can be at most one sum ahead of another, so two mailboxes that alternate are enough.
__global__ void __launch_bounds__(sum_threads)
    add_up_kernel(const Bf16* own, Bf16* all, std::size_t messages, Mailboxes boxes) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const unsigned number = boxes.numbers[blockIdx.x] + 1;
  unsigned& lost = boxes.numbers[gridDim.x];
  auto patience = lost == 0 ? patience_ns : 0;
  const auto i = static_cast<std::size_t>(blockIdx.x) * sum_threads + threadIdx.x;
  if (i < messages) {
    const auto at = number % 2 * messages + i;
    const uint2 mine = reinterpret_cast<const uint2*>(own)[i];
    for (int distance = 1; distance < boxes.ranks; ++distance) send(boxes.to[distance - 1] + at, mine, number);
    float sum[message_values] = {};
    for (int rank = 0; rank < boxes.ranks; ++rank) {
      const int distance = (boxes.rank - rank + boxes.ranks) % boxes.ranks;
      const uint2 values = distance == 0 ? mine : receive(boxes.from[distance - 1] + at, number, patience, lost);
      sum[0] += __uint_as_float(values.x << 16);
      sum[1] += __uint_as_float(values.x & 0xffff0000U);
      sum[2] += __uint_as_float(values.y << 16);
      sum[3] += __uint_as_float(values.y & 0xffff0000U);
    }
    const __nv_bfloat162 low = __floats2bfloat162_rn(sum[0], sum[1]), high = __floats2bfloat162_rn(sum[2], sum[3]);
    reinterpret_cast<uint2*>(all)[i] = {*reinterpret_cast<const std::uint32_t*>(&low),
                                        *reinterpret_cast<const std::uint32_t*>(&high)};
  }
  __syncthreads();
  if (threadIdx.x == 0) boxes.numbers[blockIdx.x] = number;
}

constexpr std::size_t blocks_of(std::size_t count) { return (count / message_values + sum_threads - 1) / sum_threads; }

}  // namespace

std::size_t mailbox_bytes(std::size_t count) { return 2 * count / message_values * sizeof(uint4); }
std::size_t mailbox_numbers(std::size_t count) { return blocks_of(count) + 1; }

void add_up(cudaStream_t stream, const Bf16* own, Bf16* all, std::size_t count, const Mailboxes& boxes,
            const DecodeGpu& gpu) {
  launch_overlapping(add_up_kernel, dim3(static_cast<unsigned>(blocks_of(count))), sum_threads, 0, stream,
                     gpu.can_overlap, own, all, count / message_values, boxes);
}

}  // namespace shakedown::cuda
