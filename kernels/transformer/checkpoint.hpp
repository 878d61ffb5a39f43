// What a training step needs to go on where another run of it ended: its parameters, their moments, and how many steps
// it has taken. In a folder that all ranks see:
//
//   checkpoint.json            what it is of, and of each other file which values stand there, with their digests
//   checkpoint.<id>.rank<r>    parameters, first and second moments of rank r, as it has them; of ranks that all have
//                              the same, a part of them
//
// An id is new each time. The first file is renamed into its place when all others are on the disk, and the others of
// the checkpoint before go then: until that moment the folder holds the old one whole, from then on the new one. Any
// number of ranks that share the state in any way can read what any other wrote.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/group.hpp"
#include "kernels/transformer/step.hpp"

namespace shakedown::training {

/// Values of a rank's arrays from `own` on, which of the model are those from `first` on: its tensors one behind the
/// other, without what fills up shares.
struct Run {
  std::size_t first, own, count;
  std::size_t end() const { return first + count; }
};

/// All that this rank keeps.
std::vector<Run> kept_runs(const StepShape&);
/// Of that what `rank` of `ranks` writes down.
std::vector<Run> written_runs(const StepShape&, int rank, int ranks);
/// Bytes of a checkpoint, all ranks together.
std::size_t checkpoint_bytes(const StepShape&, std::size_t master);

enum class StateArray { parameters, first_moment, second_moment };
inline constexpr std::size_t state_arrays = 3;
constexpr auto words(StateArray) { return names("parameters", "first moments", "second moments"); }

/// Between the arrays of a step and two chunks of the host's memory, which take turns: while one is written or read,
/// the other is on its way.
class StateCopies {
 public:
  static constexpr std::size_t chunk_bytes = std::size_t{16} << 20;

  StateCopies() = default;
  StateCopies(const StateCopies&) = delete;
  StateCopies& operator=(const StateCopies&) = delete;
  virtual ~StateCopies() = default;

  virtual std::byte* chunk(std::size_t turn) = 0;
  /// Begins to copy `bytes` from byte `first` of an array on to the begin of a chunk; or back from byte `at` of it.
  virtual void fetch(std::size_t turn, StateArray, std::size_t first, std::size_t bytes) = 0;
  virtual void bring(std::size_t turn, std::size_t at, StateArray, std::size_t first, std::size_t bytes) = 0;
  virtual void finish(std::size_t turn) = 0;
};

/// What is saved, as a checkpoint describes it, and where to.
struct Saved {
  const StepShape& shape;
  std::size_t element, master;  // bytes of the two types
  std::filesystem::path folder;
};

/// All ranks together. Errors: InputError, the same on all ranks, and what was in the folder stays as it was: for a
/// folder that has no room for it or cannot be written, and where the disk is full in the end.
void write_checkpoint(const Saved&, Group&, StateCopies&, std::uint64_t steps);

/// All ranks together; gives the steps that the one who wrote it had taken. Errors: InputError, the same on all ranks,
/// for what is not there, is of another model or type, cut off, not what was written, or mixed from several; then the
/// state is void.
std::uint64_t read_checkpoint(const Saved&, Group&, StateCopies&);

/// Removes what OwnFolders of this user's dead processes on this host have left there.
void remove_left_behind(const std::filesystem::path& parent);

/// Removes an OwnFolder in which nothing is left but its lock.
void remove_if_done(const std::filesystem::path& folder);

/// A folder of this process for checkpoints that shall not stay, in another: it goes with it, and with it goes what
/// processes of this user on this host that have died have left there. A lock inside tells who lives.
class OwnFolder {
 public:
  /// Where none can be made, path() names what is not there.
  explicit OwnFolder(const std::filesystem::path& parent);
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  ~OwnFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

/// What this rank has written there goes; of what no rank of this group wrote, a part.
void remove_checkpoint(const std::filesystem::path& folder, Group&);

template <TrainingOps Ops>
class DeviceCopies final : public StateCopies {
 public:
  DeviceCopies(Ops& ops, const FlatState<typename Ops::Master>& state)
      : ops_(ops),
        arrays_{state.parameters, state.first_moment, state.second_moment},
        memory_(ops.host_memory(2 * chunk_bytes)) {}

  std::byte* chunk(std::size_t turn) override { return memory_.data() + turn * chunk_bytes; }
  void fetch(std::size_t turn, StateArray array, std::size_t first, std::size_t bytes) override {
    ops_.begin_copy(chunk(turn), at(array, first), bytes, turn);
  }
  void bring(std::size_t turn, std::size_t from, StateArray array, std::size_t first, std::size_t bytes) override {
    ops_.begin_copy(at(array, first), chunk(turn) + from, bytes, turn);
  }
  void finish(std::size_t turn) override { ops_.finish_copy(turn); }

 private:
  std::byte* at(StateArray array, std::size_t first) const {
    return reinterpret_cast<std::byte*>(arrays_[static_cast<std::size_t>(array)]) + first;
  }

  Ops& ops_;
  std::array<typename Ops::Master*, state_arrays> arrays_;
  decltype(std::declval<Ops&>().host_memory(std::size_t{})) memory_;
};

/// A step and its checkpoints. All must outlive it.
template <TrainingOps Ops>
class Checkpoint {
 public:
  Checkpoint(Ops& ops, TrainingStep<Ops>& step, Group& group)
      : ops_(ops), step_(step), group_(group), copies_(ops, step.buffers().state) {}

  std::size_t bytes() const { return checkpoint_bytes(step_.shape(), sizeof(typename Ops::Master)); }

  /// As write_checkpoint, of the state as it is when all that was queued is done.
  void write(const std::filesystem::path& folder) { write_checkpoint(saved(folder), group_, copies_, step_.steps()); }

  /// As read_checkpoint: the next step is the one that would have followed there.
  void read(const std::filesystem::path& folder) {
    auto& state = step_.buffers().state;
    // What fills up a share is zero.
    for (auto* const array : {state.parameters, state.first_moment, state.second_moment}) {
      ops_.set_bytes(array, 0, state.count * sizeof *array);
    }
    step_.go_on_after(read_checkpoint(saved(folder), group_, copies_));
  }

 private:
  Saved saved(const std::filesystem::path& folder) const {
    return {step_.shape(), sizeof(typename Ops::Element), sizeof(typename Ops::Master), folder};
  }

  Ops& ops_;
  TrainingStep<Ops>& step_;
  Group& group_;
  DeviceCopies<Ops> copies_;
};

}  // namespace shakedown::training
