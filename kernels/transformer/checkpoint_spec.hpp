// A checkpoint of a training step, which moves the state of a model to a disk or back.
#pragma once

#include "kernels/transformer/parameters.hpp"
#include "kernels/transformer/step_spec.hpp"

namespace shakedown {

enum class CheckpointOp { write, read };
constexpr auto words(CheckpointOp) { return names("write", "read"); }

/// All ranks write their part of the state of this step to a folder, or read it (see transformer/checkpoint.hpp).
struct CheckpointSpec {
  static constexpr std::string_view description = "a checkpoint";

  CheckpointOp op;
  TrainStepSpec step;       // its batch is only used to verify that training continues, and is not timed
  int steps = 10;           // before writing, and after reading
  std::string folder = {};  // parent of a temporary folder that is removed at the end; rank 0's value is used
  bool asked_for = false;   // true if the user chose the folder; it is then a failure if it cannot be written
};

/// Returns the key, such as checkpoint/op:write/model:gpt2_124m, followed by settings that differ from the default.
inline std::string key(const CheckpointSpec& s) {
  const TrainStepSpec usual;
  Key key("checkpoint");
  key.set("op", s.op).set("model", s.step.model).set_unless(usual.dtype, "dtype", s.step.dtype);
  return key.set_unless(usual.shard, "shard", s.step.shard).text();
}
/// Counts parameters and two moments, summed over all ranks.
inline Cost cost(const CheckpointSpec& s) {
  const auto values = 3 * training::parameters(training::preset(s.step.model).model, training::no_adapters).total();
  return {0, static_cast<double>(values * std::max<std::size_t>(size_of(s.step.dtype), 4))};
}
inline std::size_t footprint(const CheckpointSpec& s) { return footprint(s.step); }

}  // namespace shakedown
