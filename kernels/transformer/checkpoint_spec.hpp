// A checkpoint of a training step: the state of a model to a disk, or back.
#pragma once

#include "kernels/transformer/parameters.hpp"
#include "kernels/transformer/step_spec.hpp"

namespace shakedown {

enum class CheckpointOp { write, read };
constexpr auto words(CheckpointOp) { return names("write", "read"); }

/// All ranks write what they keep of the state of this step into a folder, or read it; see transformer/checkpoint.hpp.
struct CheckpointSpec {
  static constexpr std::string_view description = "a checkpoint";

  CheckpointOp op;
  TrainStepSpec step;       // its batch is for what proves that training goes on, and is not timed
  int steps = 10;           // before it is written, and after it is read
  std::string folder = {};  // in which a new one is made, and removed in the end; that of rank 0 counts
  bool asked_for = false;   // by the user: that it cannot be written is a failure then
};

/// checkpoint/op:write/model:gpt2_124m, and what is not the default
inline std::string key(const CheckpointSpec& s) {
  const TrainStepSpec usual;
  Key key("checkpoint");
  key.set("op", s.op).set("model", s.step.model).set_unless(usual.dtype, "dtype", s.step.dtype);
  return key.set_unless(usual.shard, "shard", s.step.shard).text();
}
/// Parameters and two moments, of all ranks together.
inline Cost cost(const CheckpointSpec& s) {
  const auto values = 3 * training::parameters(training::preset(s.step.model).model, training::no_adapters).total();
  return {0, static_cast<double>(values * std::max<std::size_t>(size_of(s.step.dtype), 4))};
}
inline std::size_t footprint(const CheckpointSpec& s) { return footprint(s.step); }

}  // namespace shakedown
