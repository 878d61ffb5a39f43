// Turns the counters of the data checks into messages.
#include "kernels/cuda/known_data.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <fmt/format.h>

namespace shakedown::cuda {

namespace {

double element(const Gpu& gpu, const View& buffer, DType dtype, std::size_t i) {
  switch (dtype) {
    case DType::f16: return static_cast<double>(__half2float(gpu.read(buffer.data<const __half>() + i)));
    case DType::bf16: return static_cast<double>(__bfloat162float(gpu.read(buffer.data<const __nv_bfloat16>() + i)));
    default: return static_cast<double>(gpu.read(buffer.data<const float>() + i));
  }
}

/// `say` formats the message about the first mismatch.
template <class Say>
Check outcome(const Tally& tally, const Say& say) {
  return {tally.compared, tally.mismatched, tally.mismatched > 0 ? say(tally.first) : ""};
}

}  // namespace

void poison(const Gpu& gpu, const Buffer& buffer) { gpu.fill(buffer, poison_byte); }

void flip_one_bit(const Gpu& gpu, const View& buffer) {
  const auto* place = buffer.at(buffer.bytes() / 2);
  const auto flipped = gpu.read(place) ^ std::byte{1};
  gpu.write(buffer.at(buffer.bytes() / 2), &flipped, 1);
}

Check check_words(const Gpu& gpu, const View& buffer, std::uint64_t source, Content content) {
  const WordPattern pattern{buffer.bytes(), source, content};
  return outcome(count_wrong(gpu, buffer, pattern), [&](std::size_t i) {
    return fmt::format("byte {}: word is 0x{:016x}, expected 0x{:016x}", 8 * i,
                       gpu.read(buffer.data<const std::uint64_t>() + i), pattern.at(i));
  });
}

Check check_addends(const Gpu& gpu, const View& buffer, DType dtype, const AddendPattern& pattern) {
  return outcome(count_wrong(gpu, buffer, dtype, pattern), [&](std::size_t i) {
    return fmt::format("element {} is {:.9g}, expected {}", i, element(gpu, buffer, dtype, i), pattern.at(i));
  });
}

Check check_parts(const Gpu& gpu, const View& buffer, const reference::Parts& parts) {
  return outcome(count_wrong(gpu, buffer, parts), [&](std::size_t i) {
    return fmt::format("word {} is 0x{:08x}, expected 0x{:08x}, word {} of rank {}", i,
                       gpu.read(buffer.data<const std::uint32_t>() + i), parts.at(i), parts.index(i), parts.rank(i));
  });
}

}  // namespace shakedown::cuda
