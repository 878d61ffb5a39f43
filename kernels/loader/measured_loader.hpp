// A loader as an operation: takes a batch and copies it to the device.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/loader/loader.hpp"
#include "kernels/ops/loader.hpp"

namespace shakedown::loader {

/// Slots in host memory, and the memory of the device to which one of them is copied.
class BatchMemory {
 public:
  BatchMemory() = default;
  BatchMemory(const BatchMemory&) = delete;
  BatchMemory& operator=(const BatchMemory&) = delete;
  virtual ~BatchMemory() = default;

  virtual std::span<Token> slot(std::size_t) = 0;
  /// Copies a slot to the device, and returns when it is there.
  virtual void send(std::size_t slot) = 0;
  virtual std::vector<Token> received() = 0;
  virtual void poison() = 0;
  virtual void flip_one_bit() = 0;
};

class MeasuredLoader final : public Work {
 public:
  MeasuredLoader(const LoaderSpec&, std::unique_ptr<BatchMemory>);
  ~MeasuredLoader() override;

  /// Makes the file of this rank. If a rank cannot, obstacle() says why on all ranks.
  void connect(Group&) override;
  /// Drops what was read ahead, so that the time of a sample includes all reads.
  void stage(int repeats) override;
  void enqueue() override;
  void reset() override;
  /// Compares each token on the device with the made documents, whose order is followed from the first document on.
  Check verify() override;
  /// Returns how long a training step waits for its batch, as the median of several steps, in milliseconds.
  Metrics metrics() override;

  std::string obstacle() const override { return obstacle_; }
  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return footprint(spec_); }
  bool collective() const override { return false; }
  bool on_processor() const override { return true; }
  void corrupt() override { memory_->flip_one_bit(); }

 private:
  Part part() const;
  void take();
  void expect_sequence(std::uint64_t sequence, std::span<const Token> got, Checker&) const;

  const LoaderSpec spec_;
  const MadeCorpus made_;
  std::unique_ptr<BatchMemory> memory_;
  std::optional<Corpus> corpus_;
  std::unique_ptr<Loader> loader_;
  std::optional<std::uint64_t> last_;  // the step of the last batch on the device
  std::string obstacle_;
};

}  // namespace shakedown::loader
