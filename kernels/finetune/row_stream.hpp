// The rows of all epochs one after another, and the share of a rank in each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/group.hpp"
#include "kernels/finetune/packing.hpp"
#include "kernels/transformer/trainer.hpp"

namespace shakedown::finetune {

/// Whether the rows begin again after the last one, or empty rows follow.
enum class AfterLastRow { next_epoch, empty };

class RowStream {
 public:
  /// `examples` must outlive the object, and must not be empty.
  RowStream(std::span<const Example> examples, const PackingOptions&, AfterLastRow);

  /// Returns the rows in a number of epochs, which may have a fraction.
  std::uint64_t rows_in(double epochs);
  /// Returns the tokens of this rank in step `step`, which takes `rows` rows on each rank. Ranks take the rows in turn.
  /// Collective.
  training::TrainingTokens tokens(std::uint64_t step, std::size_t rows, Group&);

 private:
  Example row(std::uint64_t number);
  const Packing& packing(std::size_t epoch);

  std::span<const Example> examples_;
  PackingOptions options_;
  AfterLastRow after_;
  std::vector<std::uint64_t> ends_;  // by epoch: the number of the first row after it
  std::optional<Packing> packing_;   // of the last epoch that was needed
  std::size_t epoch_ = 0;
};

}  // namespace shakedown::finetune
