// Known data in the buffers of collectives.
#include "kernels/cuda/exchange.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <fmt/format.h>

#include <string>

namespace shakedown::cuda {

namespace {

double element(const Gpu& gpu, const View& buffer, DType dtype, std::size_t i) {
  switch (dtype) {
    case DType::f16: return static_cast<double>(__half2float(gpu.read(buffer.data<const __half>() + i)));
    case DType::bf16: return static_cast<double>(__bfloat162float(gpu.read(buffer.data<const __nv_bfloat16>() + i)));
    default: return static_cast<double>(gpu.read(buffer.data<const float>() + i));
  }
}

}  // namespace

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return ncclFloat32;
    case DType::f16: return ncclFloat16;
    case DType::bf16: return ncclBfloat16;
    default: break;
  }
  throw Unsupported("the cuda backend sums f32, f16 and bf16 only, not " + std::string(name(dtype)));
}

std::int64_t largest_exact(DType dtype) {
  // One more than the stored bits of the significand.
  const int bits = dtype == DType::f32 ? 24 : dtype == DType::f16 ? 11 : 8;
  return std::int64_t{1} << bits;
}

void fill_addends(const Gpu& gpu, const View& buffer, DType dtype, const AddendPattern& pattern) {
  write_addends(gpu.stream(), buffer.data(), dtype, buffer.bytes() / size_of(dtype), pattern);
}

Check check_addends(const Gpu& gpu, const View& buffer, DType dtype, const AddendPattern& pattern) {
  const auto count = buffer.bytes() / size_of(dtype);
  count_wrong_addends(gpu.stream(), buffer.data(), dtype, count, pattern, gpu.start_tally());
  const auto tally = gpu.finish_tally();
  Check check{tally.compared, tally.mismatched, ""};
  if (check.mismatched > 0) {
    check.first = fmt::format("element {} is {:.9g}, expected {}", tally.first,
                              element(gpu, buffer, dtype, tally.first), pattern.at(tally.first));
  }
  return check;
}

void fill_parts(const Gpu& gpu, const View& buffer, const reference::Parts& parts) {
  write_parts(gpu.stream(), buffer.data<std::uint32_t>(), buffer.bytes() / sizeof(std::uint32_t), parts);
}

Check check_parts(const Gpu& gpu, const View& buffer, const reference::Parts& parts) {
  const auto* words = buffer.data<const std::uint32_t>();
  count_wrong_parts(gpu.stream(), words, buffer.bytes() / sizeof(std::uint32_t), parts, gpu.start_tally());
  const auto tally = gpu.finish_tally();
  Check check{tally.compared, tally.mismatched, ""};
  if (check.mismatched > 0) {
    check.first = fmt::format("word {} is 0x{:08x}, expected 0x{:08x}, word {} of rank {}", tally.first,
                              gpu.read(words + tally.first), parts.at(tally.first), parts.index(tally.first),
                              parts.rank(tally.first));
  }
  return check;
}

std::string warm_up(Work& work, const Gpu& gpu, Communicator& communicator) {
  return communicator.first_run([&] {
    const int repeats = work.bytes() > (std::size_t{128} << 20) ? 2 : 5;
    for (int i = 0; i < repeats; ++i) work.enqueue();
    wait(gpu, communicator);
  });
}

void wait(const Gpu& gpu, Communicator& communicator) {
  const auto done = make_event();
  check(cudaEventRecord(done.get(), gpu.stream()));
  communicator.wait(done.get());
}

}  // namespace shakedown::cuda
