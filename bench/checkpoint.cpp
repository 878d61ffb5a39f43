// Checkpoints of a training step: all ranks write parameters and moments of GPT-2 to a disk atomically and read them
// back. Ten more training steps verify the data. The files are in --checkpoint-dir, which all ranks must see, and are
// removed at the end.
//
//   mpirun -np 4 build/bench/bench_checkpoint --tier=full --checkpoint-dir=/scratch
#include <fmt/format.h>

#include <filesystem>

#include "base/files.hpp"
#include "fixtures/plan/session.hpp"
#include "kernels/own_folder.hpp"
#include "kernels/transformer/checkpoint.hpp"
#include "kernels/transformer/checkpoint_spec.hpp"

namespace shakedown {

namespace {

/// The rate of a disk varies, and each checkpoint takes seconds, so checkpoints are timed one by one.
constexpr OneByOne checkpoints{5};

/// Checks that the user's folder has enough space, so that a full disk is reported before the measurement. Errors:
/// InputError.
void require_room(const Session& session, const TrainStepSpec& step) {
  const auto& folder = session.options().checkpoint_dir;
  if (folder.empty() || session.rank() != 0) return;
  remove_left_behind(folder, "checkpoint");
  std::error_code error;
  const auto room = static_cast<double>(std::filesystem::space(folder, error).available);
  const double needed = 2 * cost(CheckpointSpec{CheckpointOp::write, step}).bytes;
  if (error || room >= needed) return;
  throw InputError(
      fmt::format("{}: has {:.3g} GB free, but checkpoints need {:.3g} GB while one replaces another "
                  "(--checkpoint-dir); choose another folder",
                  folder, room / 1e9, needed / 1e9));
}

void add(Session& session, TrainStepSpec step) {
  step.ranks = session.ranks();
  step.rank = session.rank();
  for (const auto op : {CheckpointOp::write, CheckpointOp::read}) {
    // Plain loops on a CPU are slow, and the tests already verify the host backend with ten steps.
    const int steps = !session.has_gpus() ? 2 : 10;
    const CheckpointSpec spec{op, step, steps, session.options().checkpoint_folder(),
                              !session.options().checkpoint_dir.empty()};
    if (const auto why = input_error_of([&] { static_cast<void>(footprint(spec)); }); !why.empty()) {
      session.add({key(spec), {}, 0, [why](Device&) -> std::unique_ptr<Work> { throw Unsupported(why); }, nullptr});
      continue;
    }
    const auto figures = [](const Cost& cost, double seconds, int) -> Metrics {
      return {{"checkpoint_gb_per_s", cost.bytes / seconds / 1e9}, {"checkpoint_ms", seconds * 1e3}};
    };
    session.add(Measurement{key(spec), cost(spec), footprint(spec),
                            [spec](Device& device) { return device.prepare(spec); }, figures, 0, checkpoints});
  }
}

}  // namespace

void register_checkpoint(Session& session) {
  using training::Shard;
  const bool host = !session.has_gpus();
  const auto step = host ? TrainStepSpec{.model = "gpt2_tiny", .batch = 1, .seq = 16, .dtype = DType::f32}
                         : TrainStepSpec{.model = "gpt2_124m", .batch = 1, .seq = 1024};
  if (!host && !session.full()) {
    session.add({key(CheckpointSpec{CheckpointOp::write, step}),
                 {},
                 0,
                 [](Device&) -> std::unique_ptr<Work> { throw Unsupported("it is measured only in the full tier"); },
                 nullptr});
    return;
  }
  require_room(session, step);
  add(session, step);
  if (session.ranks() < 2) return;
  auto shared = step;
  shared.shard = Shard::weights;
  add(session, shared);
}

}  // namespace shakedown
