// Checkpoints of a training step: parameters and moments of GPT-2 to a disk by all ranks, atomically, and back, proved
// by what ten more steps lead to. Into --checkpoint-dir, which all ranks must see; what was written there goes in the
// end.
//
//   mpirun -np 4 build/bench/bench_checkpoint --tier=full --checkpoint-dir=/scratch
#include <fmt/format.h>

#include <filesystem>

#include "base/files.hpp"
#include "fixtures/plan/session.hpp"
#include "kernels/transformer/checkpoint.hpp"
#include "kernels/transformer/checkpoint_spec.hpp"

namespace shakedown {

namespace {

/// A disk's rate swings, and each costs seconds.
constexpr OneByOne checkpoints{5};

/// Of a folder that the user named it is said at the start that it is too small, not in the end. Errors: InputError.
void require_room(const Session& session, const TrainStepSpec& step) {
  const auto& folder = session.options().checkpoint_dir;
  if (folder.empty() || session.rank() != 0) return;
  training::remove_left_behind(folder);
  std::error_code error;
  const auto room = static_cast<double>(std::filesystem::space(folder, error).available);
  const double needed = 2 * cost(CheckpointSpec{CheckpointOp::write, step}).bytes;
  if (error || room >= needed) return;
  throw InputError(
      fmt::format("{}: has room for {:.3g} GB, and checkpoints need {:.3g} GB while one replaces another "
                  "(--checkpoint-dir); choose another folder",
                  folder, room / 1e9, needed / 1e9));
}

void add(Session& session, TrainStepSpec step) {
  step.ranks = session.ranks();
  step.rank = session.rank();
  for (const auto op : {CheckpointOp::write, CheckpointOp::read}) {
    // Plain loops on a processor take their time, and tests have proved those of the host with ten.
    const int steps = session.backend() == Backend::host ? 2 : 10;
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
  const bool host = session.backend() == Backend::host;
  const auto step = host ? TrainStepSpec{.model = "gpt2_tiny", .batch = 1, .seq = 16, .dtype = DType::f32}
                         : TrainStepSpec{.model = "gpt2_124m", .batch = 1, .seq = 1024};
  if (!host && !session.full()) {
    session.add({key(CheckpointSpec{CheckpointOp::write, step}),
                 {},
                 0,
                 [](Device&) -> std::unique_ptr<Work> { throw Unsupported("it is measured in the full tier alone"); },
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
