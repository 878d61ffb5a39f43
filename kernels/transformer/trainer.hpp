// A model that is trained step by step on tokens of the caller, on any backend.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "kernels/transformer/ops.hpp"

namespace shakedown::training {

/// Sets `out` to the values of a tensor from element `first` on, row by row. Errors: InputError.
using TensorValues = std::function<void(const ParameterTensor&, std::size_t first, std::span<float> out)>;

/// The tokens of this rank in a step: accumulation x batch x seq inputs and targets (TrainingStep::load).
struct TrainingTokens {
  std::vector<int> inputs, targets;
  double counted = 0;  // targets of all ranks in this step
};

/// Every call is collective over the ranks, except values() and used_bytes().
class Trainer {
 public:
  Trainer() = default;
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  virtual ~Trainer() = default;

  /// Sets all weights: first those that are frozen, then those that are trained. Starts at step 0.
  virtual void set_weights(const TensorValues&) = 0;
  /// Trains one step, and waits for it. The mean of Record::loss over the ranks is the mean over all targets.
  virtual Record train(const TrainingTokens&, const AdamW&) = 0;
  /// Returns the loss of this rank as train does, and changes no parameter.
  virtual double evaluate(const TrainingTokens&) = 0;
  /// Returns the number of steps, including those before a checkpoint that was read.
  virtual std::uint64_t steps() const = 0;
  /// Write and read a checkpoint (checkpoint.hpp). Errors: InputError.
  virtual void write(const std::filesystem::path& folder) = 0;
  virtual void read(const std::filesystem::path& folder) = 0;
  /// Returns the trained tensors, and the values of one of them.
  virtual const std::vector<ParameterTensor>& trained() const = 0;
  virtual std::vector<float> values(const ParameterTensor&) = 0;
  /// Returns the bytes of device memory in use.
  virtual std::size_t used_bytes() = 0;
};

}  // namespace shakedown::training
