// A data loader whose device is this host: batches are copied to other memory.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/host/host_device.hpp"
#include "kernels/loader/measured_loader.hpp"

namespace shakedown::host {

namespace {

class HostBatches final : public loader::BatchMemory {
 public:
  explicit HostBatches(const LoaderSpec& spec)
      : tokens_(spec.batch * spec.seq), slots_(static_cast<std::size_t>(spec.prefetch) * tokens_), device_(tokens_) {}

  std::span<loader::Token> slot(std::size_t i) override { return std::span(slots_).subspan(i * tokens_, tokens_); }
  void send(std::size_t i) override {
    std::ranges::copy(slot(i), device_.begin());
    sum_ += loader::checksum_of(device_);
  }
  std::vector<loader::Token> received() override { return device_; }
  std::uint64_t sum() override { return sum_; }
  void poison() override {
    std::ranges::fill(device_, ~loader::Token{0});
    sum_ = 0;
  }
  void flip_one_bit() override { device_[tokens_ / 2] ^= 1; }

 private:
  std::size_t tokens_;
  std::vector<loader::Token> slots_, device_;
  std::uint64_t sum_ = 0;
};

}  // namespace

std::unique_ptr<Work> make(const LoaderSpec& spec, HostDevice&) {
  return std::make_unique<loader::MeasuredLoader>(spec, std::make_unique<HostBatches>(spec));
}

}  // namespace shakedown::host
