// A data loader with page-locked slots, from which a copy engine moves the batches to the GPU.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/known_data.hpp"
#include "kernels/cuda/pinned.hpp"
#include "kernels/loader/measured_loader.hpp"
#include "kernels/numa.hpp"

namespace shakedown::cuda {

namespace {

class CudaBatches final : public loader::BatchMemory {
 public:
  CudaBatches(const LoaderSpec& spec, const Gpu& gpu, std::optional<int> node)
      : tokens_(spec.batch * spec.seq),
        gpu_(gpu),
        slots_(static_cast<std::size_t>(spec.prefetch) * footprint(spec), node),
        device_(footprint(spec)) {}

  std::span<loader::Token> slot(std::size_t i) override {
    return {reinterpret_cast<loader::Token*>(slots_.data()) + i * tokens_, tokens_};
  }
  void send(std::size_t i) override {
    const auto from = std::as_bytes(slot(i));
    check(cudaMemcpyAsync(device_.data(), from.data(), from.size(), cudaMemcpyHostToDevice, gpu_.stream()));
    add_checksum(gpu_, static_cast<const std::uint64_t*>(device_.data()), from.size() / sizeof(std::uint64_t),
                 static_cast<unsigned long long*>(sum_.data()));
    gpu_.synchronize();
  }
  std::vector<loader::Token> received() override {
    std::vector<loader::Token> tokens(tokens_);
    const auto to = std::as_writable_bytes(std::span(tokens));
    check(cudaMemcpyAsync(to.data(), device_.data(), to.size(), cudaMemcpyDeviceToHost, gpu_.stream()));
    gpu_.synchronize();
    return tokens;
  }
  std::uint64_t sum() override {
    std::uint64_t value = 0;
    check(cudaMemcpyAsync(&value, sum_.data(), sizeof value, cudaMemcpyDeviceToHost, gpu_.stream()));
    gpu_.synchronize();
    return value;
  }
  void poison() override {
    cuda::poison(gpu_, device_);
    gpu_.fill(sum_, 0);
    gpu_.synchronize();
  }
  void flip_one_bit() override { cuda::flip_one_bit(gpu_, device_); }

 private:
  std::size_t tokens_;
  const Gpu& gpu_;
  Pinned slots_;
  Buffer device_, sum_{sizeof(std::uint64_t)};
};

}  // namespace

std::unique_ptr<Work> make(const LoaderSpec& spec, CudaDevice& device) {
  require_memory(footprint(spec));
  const auto node = host_node_of("/", device.info().pci.value_or(""));
  return std::make_unique<loader::MeasuredLoader>(spec, std::make_unique<CudaBatches>(spec, device.gpu(), node));
}

}  // namespace shakedown::cuda
