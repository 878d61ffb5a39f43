// Summaries of gradients and the AdamW update, over flat arrays.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/handle.hpp"
#include "kernels/transformer/cuda/kernels.hpp"
#include "kernels/transformer/cuda/vector.cuh"
#include "kernels/transformer/rounding.hpp"
#include "kernels/transformer/wide_sums.hpp"

namespace shakedown::cuda {

namespace {

using training::Summary;

constexpr int update_threads = 256;
constexpr unsigned blocks_per_segment = 48;
/// Number of 16-byte loads per array that a thread of AdamW has in flight before it uses the first. The order of its
/// sums is the same for any number.
constexpr int unroll = 2;

template <class T>
struct FourOf {
  T at[4];
};
using Four = FourOf<float>;
__device__ FourOf<Bf16> load_four(const Bf16* from) {
  const auto low = *reinterpret_cast<const __nv_bfloat162*>(from);
  const auto high = *reinterpret_cast<const __nv_bfloat162*>(from + 2);
  return {{low.x, low.y, high.x, high.y}};
}
__device__ Four load_four(const float* from) {
  const float4 raw = *reinterpret_cast<const float4*>(from);
  return {{raw.x, raw.y, raw.z, raw.w}};
}
__device__ void store_four(float* to, const Four& values) {
  *reinterpret_cast<float4*>(to) = float4{values.at[0], values.at[1], values.at[2], values.at[3]};
}
/// Streaming access, for data that is not reused soon.
__device__ Four stream_four(const float* from) {
  const float4 raw = __ldcs(reinterpret_cast<const float4*>(from));
  return {{raw.x, raw.y, raw.z, raw.w}};
}
__device__ void stream_four(float* to, const Four& values) {
  __stcs(reinterpret_cast<float4*>(to), float4{values.at[0], values.at[1], values.at[2], values.at[3]});
}

/// The sums of one thread in f64. For parameters the projection is never needed, so their update, which is
/// compute-bound enough, omits it.
template <bool projects>
class DoubleSums {
 public:
  static constexpr bool has_projection = projects;

  __device__ void add(float value, std::uint32_t signs) {
    const double wide = value;
    squares_ += wide * wide;
    if constexpr (!projects) return;
    const auto high = static_cast<unsigned>(__double2hiint(wide)) ^ (signs & 0x80000000U);
    projection_ += __hiloint2double(static_cast<int>(high), __double2loint(wide));
  }
  __device__ void normalize() {}
  __device__ double squares() const { return squares_; }
  __device__ double projection() const { return projection_; }

 private:
  double squares_ = 0, projection_ = 0;
};

/// The same sums in two floats.
class FloatSums : public training::WideSums {
 public:
  static constexpr bool has_projection = true;

  __device__ void add(float value, std::uint32_t signs) {
    WideSums::add(value, __uint_as_float(__float_as_uint(value) ^ (signs & 0x80000000U)));
  }
};

/// The partial summary of one thread.
template <class Sums>
struct SummingOf {
  Sums sums;
  unsigned long long checksum = 0;
  unsigned non_finite = 0;  // 32 bits are enough for one thread, but not for a Summary

  /// Adds four values from `index` on, a multiple of four. The checksum is linear in the bits, so their sum needs only
  /// one wide product.
  template <class T>
  __device__ void add(const FourOf<T>& values, std::uint64_t index) {
    const auto signs = training::signs_from(index);
    unsigned long long bits = 0;
#pragma unroll
    for (unsigned j = 0; j < 4; ++j) {
      const unsigned own = bits_of(values.at[j]);
      bits += own;
      checksum += static_cast<unsigned long long>(own) * (2 * j);
      see(values.at[j], signs << j);
    }
    checksum += training::checksum_term(bits, index);
    sums.normalize();
  }
  template <class T>
  __device__ void add(T value, std::uint64_t index) {
    checksum += training::checksum_term(bits_of(value), index);
    see(value, training::signs_from(index));
  }
  /// Reduces the summary over the block. Called by all threads; the result is valid in every thread.
  __device__ Summary of_block() const {
    return {sum_block(sums.squares()), sum_block(static_cast<unsigned long long>(non_finite)), sum_block(checksum),
            Sums::has_projection ? sum_block(sums.projection()) : 0.0};
  }

 private:
  __device__ static unsigned bits_of(float value) { return __float_as_uint(value); }
  __device__ static unsigned bits_of(Bf16 value) { return __bfloat16_as_ushort(value); }

  template <class T>
  __device__ void see(T raw, std::uint32_t signs) {
    const auto value = static_cast<float>(raw);
    sums.add(value, signs);
    non_finite += isfinite(value) ? 0 : 1;
  }
};

template <F64 f64>
using Summing = SummingOf<std::conditional_t<f64 == F64::fast, DoubleSums<true>, FloatSums>>;

template <F64 f64, class T>
__global__ void __launch_bounds__(update_threads)
    summarize_kernel(const T* values, std::uint64_t first, std::size_t count, Summary* partials) {
  Summing<f64> mine;
  const auto whole = count / 4 * 4;
  for (auto i = 4 * (static_cast<std::size_t>(blockIdx.x) * update_threads + threadIdx.x); i < whole;
       i += 4 * static_cast<std::size_t>(gridDim.x) * update_threads) {
    mine.add(load_four(values + i), first + i);
  }
  if (blockIdx.x == 0 && threadIdx.x < count - whole) {
    const auto last = whole + threadIdx.x;
    mine.add(values[last], first + last);
  }
  const auto sum = mine.of_block();
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

constexpr int adding_threads = 1024;

__device__ Summary sum_of(const Summary& a, const Summary& b) {
  return {a.squared_norm + b.squared_norm, a.non_finite + b.non_finite, a.checksum + b.checksum,
          a.projection + b.projection};
}

__global__ void __launch_bounds__(adding_threads)
    add_partials_kernel(const Summary* partials, std::size_t count, Summary* to) {
  Summary mine{};
  for (std::size_t i = threadIdx.x; i < count; i += adding_threads) mine = sum_of(mine, partials[i]);
  mine = {sum_block(mine.squared_norm), sum_block(mine.non_finite), sum_block(mine.checksum),
          sum_block(mine.projection)};
  if (threadIdx.x == 0) *to = sum_of(*to, mine);
}

/// Stores four values times scale, rounded, with one access of 8 bytes.
__device__ void store_rounded(Bf16* to, const Four& values, float scale) {
  const __nv_bfloat162 low = __floats2bfloat162_rn(values.at[0] * scale, values.at[1] * scale);
  const __nv_bfloat162 high = __floats2bfloat162_rn(values.at[2] * scale, values.at[3] * scale);
  *reinterpret_cast<uint2*>(to) =
      uint2{*reinterpret_cast<const unsigned*>(&low), *reinterpret_cast<const unsigned*>(&high)};
}

/// Writes four elements of a row of copy[r][c] at once.
__device__ void store_copy(const Segment& segment, std::size_t inside, const Four& values) {
  const auto columns = static_cast<unsigned>(segment.copy.cols), at = static_cast<unsigned>(inside);
  store_rounded(segment.copy.data + at / columns * segment.copy.stride + at % columns, values, segment.scale);
}

__global__ void round_to_bf16_kernel(const float* from, Bf16* to, std::size_t count) {
  for (auto i = 4 * first_index(); i < count; i += 4 * stride()) store_rounded(to + i, load_four(from + i), 1);
}

/// Returns four bf16 values, which are in memory as `raw`.
__device__ Four widened(uint2 raw) {
  return {{__uint_as_float(raw.x << 16), __uint_as_float(raw.x & 0xffff0000U), __uint_as_float(raw.y << 16),
           __uint_as_float(raw.y & 0xffff0000U)}};
}

__global__ void widen_to_f32_kernel(const Bf16* from, float* to, std::size_t count) {
  for (auto i = 4 * first_index(); i < count; i += 4 * stride()) {
    store_four(to + i, widened(*reinterpret_cast<const uint2*>(from + i)));
  }
}

__device__ Four operator+(const Four& a, const Four& b) {
  return {{a.at[0] + b.at[0], a.at[1] + b.at[1], a.at[2] + b.at[2], a.at[3] + b.at[3]}};
}

__global__ void add_f32_kernel(const float* from, float* to, std::size_t count) {
  for (auto i = 4 * first_index(); i < count; i += 4 * stride()) {
    store_four(to + i, load_four(from + i) + load_four(to + i));
  }
}

template <F64 f64>
__global__ void __launch_bounds__(update_threads)
    sum_f32_kernel(const float* mine, OfOthers others, float* to, std::size_t count, bool add, Told told) {
  Summing<f64> was, is;
  unsigned long long came = 0;
  for (auto i = 4 * first_index(); i < count; i += 4 * stride()) {
    const Four here = stream_four(mine + i);
    Four sum{};
    unsigned long long bits = 0;
    const float* theirs = others.values + i;
    for (int rank = 0; rank < others.ranks; ++rank) {
      const Four value = rank == others.rank ? here : stream_four(theirs);
      sum = rank == 0 ? value : sum + value;
      if (rank == others.rank) continue;
      theirs += others.stride;
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) {
        const unsigned own = __float_as_uint(value.at[j]);
        bits += own;
        came += static_cast<unsigned long long>(own) * (2 * j);
      }
    }
    if (add) sum = load_four(to + i) + sum;
    store_four(to + i, sum);
    came += training::checksum_term(bits, told.first + i);  // this is the same formula as in SummingOf
    if (told.before != nullptr) was.add(here, told.first + i);
    if (told.after != nullptr) is.add(sum, told.first + i);
  }
  const Summary had = was.of_block(), has = is.of_block();
  came = sum_block(came);
  if (threadIdx.x != 0) return;
  if (told.before != nullptr) told.before[blockIdx.x] = had;
  if (told.after != nullptr) told.after[blockIdx.x] = has;
  if (told.fetched != nullptr) told.fetched[blockIdx.x] = {0, 0, came};
}

/// Settings of one update, with powers and quotients computed in advance.
struct Update {
  float beta1, beta2, rate, root_correction, epsilon, decay;
  double max_norm;
};

/// Updates one parameter and its moments with a clipped gradient. `kept` is the factor of weight decay.
__device__ void apply(const Update& update, float kept, float gradient, float& parameter, float& first, float& second) {
  first = update.beta1 * first + (1.0F - update.beta1) * gradient;
  second = update.beta2 * second + (1.0F - update.beta2) * gradient * gradient;
  const float root = sqrtf(second) * update.root_correction + update.epsilon;
  parameter = parameter * kept - update.rate * first / root;
}

__device__ bool is_finite(const Summary& gradient) {
  return gradient.non_finite == 0 && isfinite(gradient.squared_norm);
}

__device__ float clip_of(const Update& update, const Summary& gradient) {
  return static_cast<float>(fmin(1.0, update.max_norm / (sqrt(gradient.squared_norm) + 1e-6)));
}

__global__ void __launch_bounds__(update_threads)
    adamw_kernel(const Segment* segments, training::FlatState<float> state, Update update, const Summary* summary,
                 Summary* partials) {
  const bool skip = !is_finite(*summary);
  SummingOf<DoubleSums<false>> mine;  // with 30 bytes of memory per value, f64 is nowhere the limit
  const float clip = clip_of(update, *summary);
  const Segment segment = segments[blockIdx.y];
  const float kept = segment.decays ? update.decay : 1.0F;
  const auto count = segment.copy.rows * segment.copy.cols;
  const auto begin = 4 * (static_cast<std::size_t>(blockIdx.x) * update_threads + threadIdx.x);
  const auto step = 4 * static_cast<std::size_t>(gridDim.x) * update_threads;
  for (auto i = begin; skip && i < count; i += step) {
    const auto at = segment.offset + i;
    mine.add(load_four(state.parameters + at), at);
  }
  for (auto i = begin; !skip && i < count; i += unroll * step) {
    Four parameter[unroll], first[unroll], second[unroll], gradient[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      if (i + u * step >= count) break;
      const auto at = segment.offset + i + u * step;
      parameter[u] = stream_four(state.parameters + at);
      first[u] = stream_four(state.first_moment + at);
      second[u] = stream_four(state.second_moment + at);
      gradient[u] = stream_four(state.gradient + at + segment.gradient_behind);
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      if (i + u * step >= count) break;
      const auto at = segment.offset + i + u * step;
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) {
        apply(update, kept, gradient[u].at[j] * clip, parameter[u].at[j], first[u].at[j], second[u].at[j]);
      }
      mine.add(parameter[u], at);
      stream_four(state.parameters + at, parameter[u]);
      stream_four(state.first_moment + at, first[u]);
      stream_four(state.second_moment + at, second[u]);
      store_copy(segment, i + u * step, parameter[u]);
    }
  }
  const auto sum = mine.of_block();
  if (threadIdx.x == 0) partials[static_cast<std::size_t>(blockIdx.y) * gridDim.x + blockIdx.x] = sum;
}

/// Rounds four values with a random number for each.
template <class Random>
__device__ FourOf<std::uint16_t> rounded_at_random(const Four& values, const Random& random) {
  FourOf<std::uint16_t> rounded;
#pragma unroll
  for (unsigned j = 0; j < 4; ++j) {
    rounded.at[j] = training::rounded_at_random(__float_as_uint(values.at[j]), random(j));
  }
  return rounded;
}
__device__ FourOf<Bf16> as_bf16(const FourOf<std::uint16_t>& bits) {
  return {{__ushort_as_bfloat16(bits.at[0]), __ushort_as_bfloat16(bits.at[1]), __ushort_as_bfloat16(bits.at[2]),
           __ushort_as_bfloat16(bits.at[3])}};
}
__device__ uint2 stream_four(const Bf16* from) { return __ldcs(reinterpret_cast<const uint2*>(from)); }
__device__ void stream_four(Bf16* to, const FourOf<std::uint16_t>& bits) {
  __stcs(reinterpret_cast<uint2*>(to), uint2{bits.at[0] | static_cast<unsigned>(bits.at[1]) << 16,
                                             bits.at[2] | static_cast<unsigned>(bits.at[3]) << 16});
}

/// Settings of the rounding of one update.
struct Rounding {
  std::uint64_t seed, step;
};

__global__ void __launch_bounds__(update_threads)
    adamw_bf16_kernel(const Segment* segments, training::Bf16State<Bf16, float> state, Update update, Rounding rounding,
                      const Summary* summary, Summary* partials) {
  const bool skip = !is_finite(*summary);
  SummingOf<DoubleSums<false>> mine;
  const float clip = clip_of(update, *summary);
  const Segment segment = segments[blockIdx.y];
  const float kept = segment.decays ? update.decay : 1.0F;
  const auto count = segment.copy.rows * segment.copy.cols;
  const auto begin = 4 * (static_cast<std::size_t>(blockIdx.x) * update_threads + threadIdx.x);
  const auto step = 4 * static_cast<std::size_t>(gridDim.x) * update_threads;
  for (auto i = begin; skip && i < count; i += step) {
    const auto at = segment.offset + i;
    mine.add(load_four(state.parameters + at), at);
  }
  for (auto i = begin; !skip && i < count; i += unroll * step) {
    uint2 parameters[unroll], firsts[unroll], seconds[unroll];
    Four gradients[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      if (i + u * step >= count) break;
      const auto at = segment.offset + i + u * step;
      parameters[u] = stream_four(state.parameters + at);
      firsts[u] = stream_four(state.first_moment + at);
      seconds[u] = stream_four(state.second_moment + at);
      gradients[u] = stream_four(state.gradient + at + segment.gradient_behind);
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      if (i + u * step >= count) break;
      const auto at = segment.offset + i + u * step;
      Four parameter = widened(parameters[u]), first = widened(firsts[u]), second = widened(seconds[u]);
      const training::RoundingOfFour random(rounding.seed, rounding.step, segment.position + i + u * step);
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) {
        apply(update, kept, gradients[u].at[j] * clip, parameter.at[j], first.at[j], second.at[j]);
      }
      const auto rounded = rounded_at_random(parameter, [&](unsigned j) { return random.parameter(j); });
      mine.add(as_bf16(rounded), at);
      stream_four(state.parameters + at, rounded);
      stream_four(state.first_moment + at,
                  rounded_at_random(first, [&](unsigned j) { return random.first_moment(j); }));
      stream_four(state.second_moment + at,
                  rounded_at_random(second, [&](unsigned j) { return random.second_moment(j); }));
    }
  }
  const auto sum = mine.of_block();
  if (threadIdx.x == 0) partials[static_cast<std::size_t>(blockIdx.y) * gridDim.x + blockIdx.x] = sum;
}

__global__ void __launch_bounds__(update_threads)
    write_copies_kernel(const Segment* segments, const float* parameters) {
  const Segment segment = segments[blockIdx.y];
  const auto count = segment.copy.rows * segment.copy.cols;
  for (auto i = 4 * (static_cast<std::size_t>(blockIdx.x) * update_threads + threadIdx.x); i < count;
       i += 4 * static_cast<std::size_t>(gridDim.x) * update_threads) {
    store_copy(segment, i, load_four(parameters + segment.offset + i));
  }
}

Update update_of(const training::AdamW& settings) {
  const auto step = static_cast<double>(settings.step);
  const double correction1 = 1 - std::pow(settings.beta1, step), correction2 = 1 - std::pow(settings.beta2, step);
  return {static_cast<float>(settings.beta1),
          static_cast<float>(settings.beta2),
          static_cast<float>(settings.lr / correction1),
          static_cast<float>(1 / std::sqrt(correction2)),
          static_cast<float>(settings.eps),
          static_cast<float>(1 - settings.lr * settings.weight_decay),
          settings.max_norm};
}

/// Errors: std::logic_error if `first` is not a multiple of 4: four values that are loaded at once must share their
/// signs.
void check_first(std::size_t first) {
  if (first % 4 != 0) throw std::logic_error("a summary from element " + std::to_string(first) + " on, not of fours");
}

template <class T>
void summarize_any(cudaStream_t stream, const T* values, std::size_t first, std::size_t count, Summary* partials,
                   Summary* summary, F64 f64) {
  check_first(first);
  const auto kernel = f64 == F64::fast ? summarize_kernel<F64::fast, T> : summarize_kernel<F64::slow, T>;
  kernel<<<summarizing_blocks, update_threads, 0, stream>>>(values, first, count, partials);
  check(cudaGetLastError());
  add_partials(stream, partials, summarizing_blocks, summary);
}

}  // namespace

void add_partials(cudaStream_t stream, const Summary* partials, std::size_t count, Summary* to) {
  add_partials_kernel<<<1, adding_threads, 0, stream>>>(partials, count, to);
  check(cudaGetLastError());
}

std::size_t partials_needed(std::size_t segments) {
  return std::max<std::size_t>(summarizing_blocks, blocks_per_segment * segments);
}

void summarize(cudaStream_t stream, const float* values, std::size_t first, std::size_t count, Summary* partials,
               Summary* summary, F64 f64) {
  summarize_any(stream, values, first, count, partials, summary, f64);
}
void summarize(cudaStream_t stream, const Bf16* values, std::size_t first, std::size_t count, Summary* partials,
               Summary* summary, F64 f64) {
  summarize_any(stream, values, first, count, partials, summary, f64);
}

void adamw(cudaStream_t stream, const Segment* segments, std::size_t count, const training::FlatState<float>& state,
           const training::AdamW& settings, const Summary* gradient, Summary* partials, Summary* updated) {
  if (count == 0) return;
  const dim3 grid(blocks_per_segment, static_cast<unsigned>(count));
  adamw_kernel<<<grid, update_threads, 0, stream>>>(segments, state, update_of(settings), gradient, partials);
  check(cudaGetLastError());
  add_partials(stream, partials, grid.x * grid.y, updated);
}

void adamw(cudaStream_t stream, const Segment* segments, std::size_t count,
           const training::Bf16State<Bf16, float>& state, const training::AdamW& settings, const Summary* gradient,
           Summary* partials, Summary* updated) {
  if (count == 0) return;
  const dim3 grid(blocks_per_segment, static_cast<unsigned>(count));
  adamw_bf16_kernel<<<grid, update_threads, 0, stream>>>(segments, state, update_of(settings),
                                                         {settings.seed, settings.step}, gradient, partials);
  check(cudaGetLastError());
  add_partials(stream, partials, grid.x * grid.y, updated);
}

void write_copies(cudaStream_t stream, const Segment* segments, std::size_t count, const float* parameters) {
  if (count == 0) return;
  const dim3 grid(blocks_per_segment, static_cast<unsigned>(count));
  write_copies_kernel<<<grid, update_threads, 0, stream>>>(segments, parameters);
  check(cudaGetLastError());
}

void round_to_bf16(cudaStream_t stream, const float* from, Bf16* to, std::size_t count) {
  round_to_bf16_kernel<<<blocks_for(count / 4), block, 0, stream>>>(from, to, count);
  check(cudaGetLastError());
}

void widen_to_f32(cudaStream_t stream, const Bf16* from, float* to, std::size_t count) {
  widen_to_f32_kernel<<<blocks_for(count / 4), block, 0, stream>>>(from, to, count);
  check(cudaGetLastError());
}

void add_f32(cudaStream_t stream, const float* from, float* to, std::size_t count) {
  add_f32_kernel<<<blocks_for(count / 4), block, 0, stream>>>(from, to, count);
  check(cudaGetLastError());
}

void sum_f32(cudaStream_t stream, const float* mine, const OfOthers& others, float* to, std::size_t count, bool add,
             const Told& told, F64 f64) {
  check_first(told.first);
  const auto kernel = f64 == F64::fast ? sum_f32_kernel<F64::fast> : sum_f32_kernel<F64::slow>;
  kernel<<<summarizing_blocks, update_threads, 0, stream>>>(mine, others, to, count, add, told);
  check(cudaGetLastError());
}

}  // namespace shakedown::cuda
