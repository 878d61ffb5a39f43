// Decides from the records of the steps if a series of training steps was correct; otherwise, which rank is at fault,
// and since which step. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/transformer/ops.hpp"
#include "kernels/transformer/step_spec.hpp"

namespace shakedown::training {

/// The expected loss of a step, with the tokens and random weights that every measurement of a model uses.
struct GoldenLoss {
  std::size_t step;
  double loss;
};

/// Returns the losses of this measurement on healthy machines, by model and precision; empty if unknown. The losses
/// agree within 0.1 % for any choice of algorithms. The loss of random weights does not reveal wrong attention or a
/// wrong update; the later losses do.
template <Trains trains>
std::vector<GoldenLoss> golden_losses(const StepSpec<trains>&);

/// Sequences that a rank has taken from a set, as reported by that rank.
struct Taken {
  std::size_t first, count;
  std::uint64_t checksum;  // of the tokens and targets of these sequences
};
/// Returns an error if ranks have divided a set of `count` sequences wrongly: a sequence on two ranks, a sequence on
/// none, or tokens that differ from the set. Returns nullopt if it is correct.
std::optional<std::string> check_cover(const std::vector<Taken>& by_rank, std::size_t count, std::uint64_t checksum);

/// Expected properties of the steps of a series.
struct Expected {
  std::size_t steps;            // number of steps
  double first_loss;            // within 3 %: the weights are random and almost alone determine the loss of the first
                                // step
  bool same_bits;               // all ranks have equal devices, so that equal work gives equal bits
  bool deterministic = true;    // equal work gives equal bits on one device; otherwise the gradients of ranks differ
  bool same_tokens = true;      // all ranks have the same tokens; otherwise their gradients differ
  bool same_parameters = true;  // each rank updates all parameters
  bool falling = true;          // the batch is always the same, so that the last loss is below the first
  std::vector<GoldenLoss> golden = {};  // stored losses, which the measured losses must meet within 1 %
  int together = 1;  // size of a tensor parallel group of neighbouring ranks; bits are compared between the same parts
                     // of the model
  bool fetched = false;     // each rank reports the checksum of the values from other ranks for its share of the sums
  DType sums = DType::f32;  // type of gradients in transfers, which limits the rounding error of their sums
};

/// Checks the steps and returns the complaints of `rank`; by_rank[r] are the records of rank r, oldest first. If one
/// rank is at fault, only that one complains, so that the first complaint names it. Steps count from 1. The messages:
///   step 3: loss nan, 64 values of its gradient are not finite; expected finite numbers (no rank updates ...)
///   step 3: checksum of its gradient is 1f.., expected 2e.. as on 3 other ranks
///   step 3: the summed gradient is not the sum of those of all ranks: 1.2 as a projection on signs, expected 4.8 ...
///   step 3: checksum of what it fetched of the gradients of others is 1f.., expected 2e.. as they had it
Check check_steps(const std::vector<std::vector<Record>>& by_rank, int rank, const Expected&);

}  // namespace shakedown::training
