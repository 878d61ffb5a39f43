// Copies between the GPU and page-locked host memory by copy engine. For "both", one copy runs in each direction at a
// time, and the bytes of both are counted.
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/known_data.hpp"
#include "kernels/cuda/pinned.hpp"
#include "kernels/numa.hpp"
#include "kernels/ops/copy.hpp"

namespace shakedown::cuda {

namespace {

/// Bytes held by an idle rank, so that it has data to check.
constexpr std::size_t host_guard_bytes = 4096;

class PcieCopy final : public Work {
 public:
  PcieCopy(const PcieSpec& spec, const Gpu& gpu, std::optional<int> node) : spec_(spec), gpu_(gpu), trail_(spec.bytes) {
    if (!active()) {
      up_device_ = Buffer(host_guard_bytes);
      return;
    }
    if (spec.op != PcieOp::d2h) {
      up_ = std::make_unique<Pinned>(spec.bytes, node);
      up_device_ = Buffer(trail_.room());
    }
    if (spec.op != PcieOp::h2d) {
      down_ = std::make_unique<Pinned>(trail_.room(), node);
      down_device_ = Buffer(spec.bytes);
    }
  }

  ~PcieCopy() override { static_cast<void>(cudaStreamSynchronize(other_.get())); }

  void connect(Group& group) override {
    if (active()) credited_ = group.rank();
    id_ = static_cast<std::uint64_t>(group.rank());
    for (std::size_t i = 0; up_ && i < spec_.bytes / 8; ++i) {  // these words are never written again
      const auto word = reference::copy_word(i, id_);
      std::memcpy(up_->data() + 8 * i, &word, 8);
    }
  }

  void enqueue() override {
    if (!active()) return;
    trail_.next();
    if (up_ && down_) {  // the second stream starts with the first, and the first ends with the second
      check(cudaEventRecord(begin_.get(), gpu_.stream()));
      check(cudaStreamWaitEvent(other_.get(), begin_.get()));
      copy_down(other_.get());
      check(cudaEventRecord(end_.get(), other_.get()));
    }
    if (up_) {
      const auto* const from = up_->data();
      auto* const to = last_output(up_device_, trail_).data();
      check(cudaMemcpyAsync(to, from, spec_.bytes, cudaMemcpyHostToDevice, gpu_.stream()));
    }
    if (down_ && !up_) copy_down(gpu_.stream());
    if (up_ && down_) check(cudaStreamWaitEvent(gpu_.stream(), end_.get()));
  }

  void stage(int repeats) override {
    if (!active()) return;
    auto same = trail_;  // both directions use the same places
    if (down_) stage_trail(down_span(), same, repeats, poison_byte);
    if (up_) stage_trail(gpu_, up_device_, trail_, repeats, poison_byte);
    trail_ = up_ ? trail_ : same;
  }

  void reset() override {
    trail_.restart();
    if (!active()) {
      fill_words(gpu_, up_device_, id_);
    } else {
      if (up_) poison(gpu_, up_device_);
      if (down_) fill_words(gpu_, down_device_, id_);
    }
    gpu_.synchronize();
    if (down_) std::memset(down_->data(), poison_byte, down_->bytes());
  }

  /// Checks the data that arrived on the GPU and in host memory. An idle rank checks that its memory is unchanged.
  Check verify() override {
    Check total;
    if (!active()) return check_words(gpu_, up_device_, id_);
    if (up_) {
      total = check_words(gpu_, last_output(up_device_, trail_), id_);
      check_trail(gpu_, up_device_, trail_, total);
    }
    for (std::size_t i = 0; down_ && i < spec_.bytes / 8; ++i) {
      std::uint64_t got = 0;
      std::memcpy(&got, down_->data() + trail_.last() + 8 * i, 8);
      ++total.compared;
      if (got == reference::copy_word(i, id_) || total.mismatched++ > 0) continue;
      total.first = fmt::format("byte {} in the host's memory: word is 0x{:016x}, expected 0x{:016x}", 8 * i, got,
                                reference::copy_word(i, id_));
    }
    if (down_) check_trail(down_span(), trail_, total);
    return total;
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return up_device_.bytes() + down_device_.bytes(); }
  bool collective() const override { return false; }
  std::optional<int> credited_rank(int) const override { return credited_; }
  void corrupt() override {
    if (down_) {
      down_->data()[trail_.last() + spec_.bytes / 2] ^= std::byte{1};
    } else {
      flip_one_bit(gpu_, active() ? last_output(up_device_, trail_) : View(up_device_));
    }
  }

 private:
  bool active() const { return !spec_.active || *spec_.active == gpu_.local_rank(); }

  std::span<std::byte> down_span() const { return {down_->data(), down_->bytes()}; }

  void copy_down(cudaStream_t stream) const {
    check(cudaMemcpyAsync(down_->data() + trail_.last(), down_device_.data(), spec_.bytes, cudaMemcpyDeviceToHost,
                          stream));
  }

  PcieSpec spec_;
  const Gpu& gpu_;
  Trail trail_;
  std::unique_ptr<Pinned> up_, down_;
  Buffer up_device_, down_device_;
  Stream other_ = make_stream();
  Event begin_ = make_event(), end_ = make_event();
  std::uint64_t id_ = 0;
  std::optional<int> credited_;
};

}  // namespace

std::unique_ptr<Work> make(const PcieSpec& spec, CudaDevice& device) {
  device.wait_until_cleared();
  const Gpu& gpu = device.gpu();
  const auto pci = device.info().pci.value_or("");
  if (spec.bytes == 0 || spec.bytes % 8 != 0) throw std::invalid_argument("pcie needs a positive multiple of 8 bytes");
  if (spec.active && *spec.active >= gpu.local_size()) {
    throw Unsupported("this host has only " + std::to_string(gpu.local_size()) + " ranks");
  }
  auto node = host_node_of("/", pci);
  if (spec.far) {
    if (!node) throw Unsupported("Linux reports no NUMA node for the GPU " + pci + ": the far node is unknown");
    node = node_far_from("/", *node);
    if (!node) throw Unsupported("this host has only one NUMA node with CPUs and memory");
  }
  require_memory(footprint(spec));
  try {
    return std::make_unique<PcieCopy>(spec, gpu, node);
  } catch (const Unsupported&) {
    if (spec.far || !node) throw;
    return std::make_unique<PcieCopy>(spec, gpu,
                                      // A container may forbid mbind. The memory then follows the launcher's binding.
                                      std::nullopt);
  }
}

}  // namespace shakedown::cuda
