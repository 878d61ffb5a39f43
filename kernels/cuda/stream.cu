// Streams through registers. A block processes tiles of threads x unroll vectors. Consecutive threads load consecutive
// vectors. Each thread issues `unroll` independent loads from each array before it uses the first load, which hides the
// memory latency.
#include "kernels/cuda/stream.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "kernels/cuda/bulk.hpp"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/handle.hpp"
#include "kernels/reference.hpp"

namespace shakedown::cuda {

namespace {

template <Hint hint>
__device__ uint4 load(const uint4* from) {
  if constexpr (hint == Hint::streaming) {
    return __ldcs(from);
  } else if constexpr (hint == Hint::wide) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
  } else {
    return *from;
  }
}

template <Hint hint>
__device__ void store(uint4* to, uint4 v) {
  if constexpr (hint == Hint::streaming) {
    __stcs(to, v);
  } else if constexpr (hint == Hint::wide) {
    asm volatile("st.global.L1::no_allocate.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
  } else {
    *to = v;
  }
}

/// Number of vectors that a thread loads or stores with one access.
constexpr int vectors_at_once(Hint hint) { return hint == Hint::pairs ? 2 : 1; }

// Whether kernels can access 32 bytes at once, which PTX ISA 8.8 offers for sm_100 and later. The assembler of other
// architectures rejects the instruction, so it must be left out when this file is compiled for them.
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1209 && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr bool has_pairs = true;
#else
constexpr bool has_pairs = false;
#endif

template <Hint hint>
__device__ void load(uint4* to, const uint4* from) {
  if constexpr (hint != Hint::pairs) {
    *to = load<hint>(from);
  } else if constexpr (has_pairs) {
    asm volatile("ld.global.nc.L1::no_allocate.v8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                 : "=r"(to[0].x), "=r"(to[0].y), "=r"(to[0].z), "=r"(to[0].w), "=r"(to[1].x), "=r"(to[1].y),
                   "=r"(to[1].z), "=r"(to[1].w)
                 : "l"(from));
  } else {
    to[0] = from[0];
    to[1] = from[1];
  }
}

template <Hint hint>
__device__ void store(uint4* to, const uint4* from) {
  if constexpr (hint != Hint::pairs) {
    store<hint>(to, *from);
  } else if constexpr (has_pairs) {
    asm volatile("st.global.L1::no_allocate.v8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"l"(to), "r"(from[0].x),
                 "r"(from[0].y), "r"(from[0].z), "r"(from[0].w), "r"(from[1].x), "r"(from[1].y), "r"(from[1].z),
                 "r"(from[1].w)
                 : "memory");
  } else {
    to[0] = from[0];
    to[1] = from[1];
  }
}

constexpr bool reads_b(HbmOp op) { return op == HbmOp::add || op == HbmOp::triad; }
constexpr bool reads_a(HbmOp op) { return op != HbmOp::write; }
constexpr bool writes(HbmOp op) { return op != HbmOp::read; }

__device__ double number(std::uint64_t bits) { return __longlong_as_double(static_cast<long long>(bits)); }
__device__ std::uint64_t bits(double number) { return static_cast<std::uint64_t>(__double_as_longlong(number)); }

/// Returns one word of c, from the words of a and b at index i.
template <HbmOp op>
__device__ std::uint64_t word_of(std::uint64_t a, std::uint64_t b, std::size_t i, std::uint64_t writer) {
  if constexpr (op == HbmOp::write) {
    return reference::written_word(i, writer);
  } else if constexpr (op == HbmOp::scale) {
    return bits(reference::stream_factor * number(a));
  } else if constexpr (op == HbmOp::add) {
    return bits(number(a) + number(b));
  } else if constexpr (op == HbmOp::triad) {
    return bits(number(a) + reference::stream_factor * number(b));
  } else {
    return a;
  }
}

__device__ std::uint64_t low(uint4 v) { return static_cast<std::uint64_t>(v.y) << 32 | v.x; }
__device__ std::uint64_t high(uint4 v) { return static_cast<std::uint64_t>(v.w) << 32 | v.z; }

/// Returns vector i of c.
template <HbmOp op>
__device__ uint4 vector_of(uint4 a, uint4 b, std::size_t i, std::uint64_t writer) {
  if constexpr (op == HbmOp::copy) {
    return a;
  } else {
    const auto first = word_of<op>(low(a), low(b), 2 * i, writer);
    const auto second = word_of<op>(high(a), high(b), 2 * i + 1, writer);
    return {static_cast<unsigned>(first), static_cast<unsigned>(first >> 32), static_cast<unsigned>(second),
            static_cast<unsigned>(second >> 32)};
  }
}

/// Processes the remainder of an array after the last whole vector, with the threads of one block.
template <HbmOp op>
__device__ std::uint64_t finish(const Operands& o, std::size_t begin) {
  if constexpr (op == HbmOp::copy) {
    const auto i = begin + threadIdx.x;
    if (i < o.bytes) static_cast<unsigned char*>(o.c)[i] = static_cast<const unsigned char*>(o.a)[i];
    return 0;
  } else {
    const auto i = begin / sizeof(std::uint64_t);
    if (threadIdx.x != 0 || i >= o.bytes / sizeof(std::uint64_t)) return 0;
    std::uint64_t a = 0, b = 0;
    if constexpr (reads_a(op)) a = static_cast<const std::uint64_t*>(o.a)[i];
    if constexpr (reads_b(op)) b = static_cast<const std::uint64_t*>(o.b)[i];
    if constexpr (writes(op)) static_cast<std::uint64_t*>(o.c)[i] = word_of<op>(a, b, i, o.writer);
    return a;
  }
}

/// Returns the launch bound. A bound of 1024 threads leaves each thread 64 registers. With two or more vectors of two
/// arrays the compiler then spills on sm_100 (up to 524 bytes), though not on sm_80 and sm_90; ptxas warns about it.
constexpr int most_threads(int unroll) { return unroll == 1 ? 1024 : 512; }

template <HbmOp op, int unroll, Hint hint>
__global__ void __launch_bounds__(most_threads(unroll)) stream_kernel(Operands o) {
  const auto* const a = static_cast<const uint4*>(o.a);
  const auto* const b = static_cast<const uint4*>(o.b);
  auto* const c = static_cast<uint4*>(o.c);
  const std::size_t vectors = o.bytes / sizeof(uint4);
  const std::size_t tile = static_cast<std::size_t>(blockDim.x) * unroll;
  const std::size_t tiles = vectors / tile;
  std::uint64_t sum = 0;
  for (std::size_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    constexpr int at_once = vectors_at_once(hint);
    const std::size_t begin = t * tile + threadIdx.x * at_once;
    uint4 x[unroll] = {}, y[unroll] = {};
#pragma unroll
    for (int i = 0; i < unroll; i += at_once) {
      if constexpr (reads_a(op)) load<hint>(x + i, a + begin + i * blockDim.x);
      if constexpr (reads_b(op)) load<hint>(y + i, b + begin + i * blockDim.x);
    }
#pragma unroll
    for (int i = 0; i < unroll; i += at_once) {
      const std::size_t at = begin + i * blockDim.x;
      uint4 z[at_once];
#pragma unroll
      for (int j = 0; j < at_once; ++j) {
        z[j] = vector_of<op>(x[i + j], y[i + j], at + j, o.writer);
        if constexpr (op == HbmOp::read) sum += low(x[i + j]) + high(x[i + j]);
      }
      if constexpr (writes(op)) store<hint>(c + at, z);
    }
  }
  // The last block also processes the partial tile and the partial vector at the end.
  if (blockIdx.x + 1 == gridDim.x) {
    for (std::size_t i = tiles * tile + threadIdx.x; i < vectors; i += blockDim.x) {
      uint4 x{}, y{};
      if constexpr (reads_a(op)) x = a[i];
      if constexpr (reads_b(op)) y = b[i];
      if constexpr (writes(op)) c[i] = vector_of<op>(x, y, i, o.writer);
      if constexpr (op == HbmOp::read) sum += low(x) + high(x);
    }
    sum += finish<op>(o, vectors * sizeof(uint4));
    if constexpr (writes(op)) {
      if (threadIdx.x == 0 && o.mark != nullptr) *o.mark = o.bytes;
    }
  }
  if constexpr (op == HbmOp::read) store_block_sum(sum, o.sums + blockIdx.x);
}

constexpr Hint plain = Hint::none, streaming = Hint::streaming, wide = Hint::wide, pairs = Hint::pairs;
constexpr int kib = 1024;

// A copy of gigabytes is fastest with one vector for each thread and a small block for each tile (H200, 4 GiB: 4,296
// GB/s; all of 700 other shapes and hints are below 4,200). With this shape the hardware starts blocks in the order of
// the addresses.
constexpr std::array copy_shapes{
    StreamShape{256, 1, 0, plain},
    StreamShape{256, 2, 0, pairs},
    StreamShape{512, 4, 0, pairs},
    StreamShape{32, 4, 0, streaming, 8 * kib},
    StreamShape{32, 2, 0, streaming, 16 * kib},
    StreamShape{32, 4, 0, plain, 8 * kib},
    StreamShape{32, 4, 0, streaming, 16 * kib},
    StreamShape{32, 6, 1, streaming, 32 * kib},
    StreamShape{32, 6, 2, streaming, 16 * kib},
    StreamShape{32, 2, 0, streaming, 8 * kib},
    StreamShape{512, 4, 0, streaming},
    StreamShape{256, 4, 0, wide},
    StreamShape{512, 8, 0, wide},
    StreamShape{512, 2, 0, wide},
    StreamShape{256, 1, 0, streaming},
    StreamShape{256, 8, 0, streaming},
    StreamShape{512, 8, 2, streaming},
};
constexpr std::array read_shapes{
    StreamShape{512, 8, 4, wide},
    StreamShape{512, 8, 4, pairs},
    StreamShape{512, 8, 0, pairs},
    StreamShape{512, 8, 0, wide},
    StreamShape{256, 4, 0, streaming},
    StreamShape{512, 4, 4, streaming},
    StreamShape{512, 8, 2, streaming},
    StreamShape{512, 4, 4, wide},
    StreamShape{256, 4, 1, streaming, 32 * kib},
    StreamShape{256, 4, 2, streaming, 16 * kib},
    StreamShape{256, 4, 0, streaming, 16 * kib},
    StreamShape{128, 4, 0, plain, 8 * kib},
};
constexpr std::array write_shapes{
    StreamShape{512, 4, 0, plain},     StreamShape{512, 4, 0, pairs},     StreamShape{256, 2, 0, pairs},
    StreamShape{512, 4, 0, streaming}, StreamShape{256, 4, 0, wide},      StreamShape{256, 8, 0, plain},
    StreamShape{512, 2, 0, plain},     StreamShape{512, 8, 2, streaming}, StreamShape{512, 4, 4, plain},
    StreamShape{256, 2, 0, streaming}, StreamShape{256, 1, 0, plain},
};
constexpr std::array arithmetic_shapes{
    StreamShape{512, 4, 0, streaming}, StreamShape{512, 4, 0, pairs},     StreamShape{512, 2, 0, wide},
    StreamShape{256, 4, 0, wide},      StreamShape{512, 2, 0, streaming}, StreamShape{256, 8, 0, streaming},
    StreamShape{512, 4, 0, plain},     StreamShape{512, 8, 0, wide},      StreamShape{512, 4, 4, streaming},
    StreamShape{256, 1, 0, plain},
};

/// True if the kernels support the shape. The kernels need one thread for each byte of the remainder, and stages of
/// whole cache lines.
constexpr bool usable(const StreamShape& shape) {
  if (shape.bulk()) return shape.threads >= 32 && shape.stage_bytes % 128 == 0 && shape.unroll <= max_bulk_stages;
  return shape.threads >= static_cast<int>(sizeof(uint4)) && shape.threads <= most_threads(shape.unroll) &&
         shape.unroll % vectors_at_once(shape.hint) == 0;
}
static_assert(std::all_of(copy_shapes.begin(), copy_shapes.end(), usable));
static_assert(std::all_of(read_shapes.begin(), read_shapes.end(), usable));
static_assert(std::all_of(write_shapes.begin(), write_shapes.end(), usable));
static_assert(std::all_of(arithmetic_shapes.begin(), arithmetic_shapes.end(), usable));

using Kernel = void (*)(Operands);

template <HbmOp op, Hint hint>
Kernel kernel_for(int unroll) {
  switch (unroll) {
    case 1:
      if constexpr (vectors_at_once(hint) == 1) return stream_kernel<op, 1, hint>;
      throw std::invalid_argument("stream: one vector is no pair");
    case 2: return stream_kernel<op, 2, hint>;
    case 4: return stream_kernel<op, 4, hint>;
    case 8: return stream_kernel<op, 8, hint>;
    default: throw std::invalid_argument("stream: unroll must be 1, 2, 4 or 8");
  }
}

template <HbmOp op>
Kernel kernel_for(const StreamShape& shape) {
  switch (shape.hint) {
    case Hint::none: return kernel_for<op, Hint::none>(shape.unroll);
    case Hint::streaming: return kernel_for<op, Hint::streaming>(shape.unroll);
    case Hint::wide: return kernel_for<op, Hint::wide>(shape.unroll);
    case Hint::pairs: return kernel_for<op, Hint::pairs>(shape.unroll);
  }
  throw std::invalid_argument("stream: unknown hint");
}

Kernel kernel_for(HbmOp op, const StreamShape& shape) {
  switch (op) {
    case HbmOp::copy: return kernel_for<HbmOp::copy>(shape);
    case HbmOp::read: return kernel_for<HbmOp::read>(shape);
    case HbmOp::write: return kernel_for<HbmOp::write>(shape);
    case HbmOp::scale: return kernel_for<HbmOp::scale>(shape);
    case HbmOp::add: return kernel_for<HbmOp::add>(shape);
    case HbmOp::triad: return kernel_for<HbmOp::triad>(shape);
  }
  throw std::invalid_argument("stream: unknown operation");
}

}  // namespace

std::span<const StreamShape> stream_shapes(HbmOp op) {
  switch (op) {
    case HbmOp::copy: return copy_shapes;
    case HbmOp::read: return read_shapes;
    case HbmOp::write: return write_shapes;
    case HbmOp::scale:
    case HbmOp::add:
    case HbmOp::triad: return arithmetic_shapes;
  }
  throw std::invalid_argument("stream: unknown operation");
}

unsigned stream_blocks(const StreamShape& shape, std::size_t bytes, int multiprocessors) {
  const auto vectors = static_cast<std::size_t>(shape.unroll) * static_cast<std::size_t>(shape.threads);
  const auto tile = shape.bulk() ? static_cast<std::size_t>(shape.unroll) * static_cast<std::size_t>(shape.stage_bytes)
                                 : vectors * sizeof(uint4);
  const auto most = shape.blocks_per_sm == 0
                        ? std::size_t{1} << 30
                        : static_cast<std::size_t>(shape.blocks_per_sm) * static_cast<std::size_t>(multiprocessors);
  // In a bulk copy no block takes the remainder, so the number of tiles is rounded up.
  const auto tiles = shape.bulk() ? (bytes + tile - 1) / tile : bytes / tile;
  return static_cast<unsigned>(std::clamp(tiles, std::size_t{1}, most));
}

unsigned most_stream_blocks(HbmOp op, std::size_t bytes, int multiprocessors) {
  unsigned most = 0;
  for (const auto& shape : stream_shapes(op)) most = std::max(most, stream_blocks(shape, bytes, multiprocessors));
  return most;
}

void stream_over(cudaStream_t stream, HbmOp op, const Operands& operands, const StreamShape& shape,
                 int multiprocessors) {
  const auto blocks = stream_blocks(shape, operands.bytes, multiprocessors);
  if (shape.bulk()) return bulk_over(stream, op, operands, shape, blocks);
  auto usable = shape;
  const auto together = reinterpret_cast<std::uintptr_t>(operands.a) | reinterpret_cast<std::uintptr_t>(operands.b) |
                        reinterpret_cast<std::uintptr_t>(operands.c);
  if (shape.hint == Hint::pairs && together % (2 * sizeof(uint4)) != 0) usable.hint = Hint::wide;
  kernel_for(op, usable)<<<blocks, static_cast<unsigned>(shape.threads), 0, stream>>>(operands);
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
