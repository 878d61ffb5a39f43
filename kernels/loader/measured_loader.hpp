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

/// The packed sequences of made documents, found without Packing: the documents follow each other in their order.
class MadeStream {
 public:
  MadeStream(const MadeCorpus&, std::size_t seq, std::uint64_t seed);

  /// Writes a sequence. Fast for increasing sequences.
  void write(std::uint64_t sequence, std::span<Token> out);

 private:
  void begin(std::uint64_t epoch);

  MadeCorpus made_;
  std::size_t seq_;
  std::uint64_t seed_, sequences_ = 0;  // sequences_: in an epoch
  std::uint64_t epoch_ = 0;
  std::vector<std::uint32_t> order_;
  std::size_t place_ = 0;
  std::uint64_t first_ = 0;  // the token of the epoch with which the document at place_ begins
};

/// Slots in host memory, and the memory of the device to which one of them is copied.
class BatchMemory {
 public:
  BatchMemory() = default;
  BatchMemory(const BatchMemory&) = delete;
  BatchMemory& operator=(const BatchMemory&) = delete;
  virtual ~BatchMemory() = default;

  virtual std::span<Token> slot(std::size_t) = 0;
  /// Copies a slot to the device, adds the checksum of what arrived there to a sum, and returns when that is done.
  virtual void send(std::size_t slot) = 0;
  virtual std::vector<Token> received() = 0;
  /// Returns the sum of the checksums (checksum_of) since the last poison, modulo 2^64.
  virtual std::uint64_t sum() = 0;
  /// Overwrites the memory of the device, and sets the sum to 0.
  virtual void poison() = 0;
  virtual void flip_one_bit() = 0;
};

/// Returns the sum over the words of 8 bytes, each mixed with its position (cuda/known_data.cu).
std::uint64_t checksum_of(std::span<const Token>);

class MeasuredLoader final : public Work {
 public:
  MeasuredLoader(const LoaderSpec&, std::unique_ptr<BatchMemory>);

  /// Makes the file of this rank. If a rank cannot, obstacle() says why on all ranks.
  void connect(Group&) override;
  /// Drops what was read ahead and the page cache of the file, so that the time of a sample includes all reads.
  void stage(int repeats) override;
  void enqueue() override;
  void reset() override;
  /// Compares each token of the last batch on the device with the made documents, and the checksums of all batches
  /// since the last stage.
  Check verify() override;

  std::string obstacle() const override { return obstacle_; }
  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return footprint(spec_); }
  bool collective() const override { return false; }
  bool on_processor() const override { return true; }
  void corrupt() override { memory_->flip_one_bit(); }

 private:
  Part part() const;
  std::vector<Token> expected(std::uint64_t step);

  const LoaderSpec spec_;
  MadeStream stream_;
  std::unique_ptr<BatchMemory> memory_;
  std::optional<Corpus> corpus_;
  std::unique_ptr<Loader> loader_;
  std::uint64_t first_ = 0, end_ = 0;  // the steps since the last stage
  std::string obstacle_, failed_;      // failed_: the error of a read
};

}  // namespace shakedown::loader
