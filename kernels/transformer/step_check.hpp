// Decides from what the steps left behind whether a series of training steps went well, and if not, which rank is at
// fault and since which step. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/transformer/ops.hpp"
#include "kernels/transformer/step_spec.hpp"

namespace shakedown::training {

/// The loss of a step on the tokens and random weights that every measurement of a model has.
struct GoldenLoss {
  std::size_t step;
  double loss;
};

/// Of this measurement, as healthy machines have computed them, by model and precision; empty where nobody has. They
/// are within 0.1 % of each other, whatever algorithms are chosen: wrong attention or a wrong update, which the
/// loss of random weights does not show, move the later ones.
template <Trains trains>
std::vector<GoldenLoss> golden_losses(const StepSpec<trains>&);

/// Sequences that ranks have taken from a set, as each of them says.
struct Taken {
  std::size_t first, count;
  std::uint64_t checksum;  // of their tokens and targets
};
/// What is wrong with a set of `count` sequences that ranks have cut among them, or nothing: a sequence that two ranks
/// have, one that nobody has, or tokens that are not those of the set.
std::optional<std::string> check_cover(const std::vector<Taken>& by_rank, std::size_t count, std::uint64_t checksum);

/// What the steps of a series must show.
struct Expected {
  std::size_t steps;            // how many there were
  double first_loss;            // within 3 %: the weights are random, the loss of the first step is nearly theirs alone
  bool same_bits;               // all ranks have equal devices, so that the same work gives the same bits
  bool deterministic = true;    // the same work gives the same bits at all, else the gradients of ranks differ
  bool same_tokens = true;      // else their gradients differ
  bool same_parameters = true;  // each rank updates all of them
  bool falling = true;          // the batch is always the same, so that the last loss is below the first
  std::vector<GoldenLoss> golden = {};  // within 1 %
  int together = 1;  // ranks, neighbours, that compute a model: what has the same bits is with each the same part of it
  bool fetched = false;     // each rank tells what came from the others for its share of the sums
  DType sums = DType::f32;  // in which gradients travel: how far rounding may move what they sum up to
};

/// What `rank` has to complain about; by_rank[r] are the records of rank r, oldest first. When
/// one rank is at fault only that one complains, so that the first complaint names it. Steps count from 1. The lines:
///   step 3: loss nan, 64 values of its gradient are not finite; expected finite numbers (no rank updates from them)
///   step 3: checksum of its gradient is 1f.., expected 2e.. as on 3 other ranks
///   step 3: the summed gradient is not the sum of those of all ranks: 1.2 as a projection on signs, expected 4.8 ...
///   step 3: checksum of what it fetched of the gradients of others is 1f.., expected 2e.. as they had it
Check check_steps(const std::vector<std::vector<Record>>& by_rank, int rank, const Expected&);

}  // namespace shakedown::training
