// The data that a training step needs to continue another run: its parameters, their moments, and the number of steps.
// The data is stored in a folder that all ranks see:
//
//   checkpoint.json            the model, and for each file the ranges of values in it, with their digests
//   checkpoint.<id>.rank<r>    parameters, first and second moments of rank r; if ranks have identical data, a part
//                              of them
//
// Every checkpoint has a new id. checkpoint.json is renamed into place after all other files are on disk; then the
// files of the previous checkpoint are removed. The folder thus contains the complete old checkpoint up to that moment,
// and the complete new one afterwards. A checkpoint can be read with any number of ranks and any kind of sharding.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/group.hpp"
#include "kernels/block_io/block_file.hpp"
#include "kernels/transformer/step.hpp"

namespace shakedown::training {

/// A range of values. A range begins at `own` in a rank's arrays and at `first` in the model. The model is the sequence
/// of its tensors, without the padding of shares.
struct Run {
  std::size_t first, own, count;
  std::size_t end() const { return first + count; }
};

/// Returns all ranges that this rank keeps.
std::vector<Run> kept_runs(const StepShape&);
/// Returns the ranges that `rank` of `ranks` writes.
std::vector<Run> written_runs(const StepShape&, int rank, int ranks);
/// Returns the bytes of a checkpoint with values of this size, summed over all ranks.
std::size_t checkpoint_bytes(const StepShape&, std::size_t value);

enum class StateArray { parameters, first_moment, second_moment };
inline constexpr std::size_t state_arrays = 3;
constexpr auto words(StateArray) { return names("parameters", "first moments", "second moments"); }

/// Copies between the arrays of a step and host memory, from which blocks of files are written and into which they are
/// read.
class StateCopies {
 public:
  StateCopies() = default;
  StateCopies(const StateCopies&) = delete;
  StateCopies& operator=(const StateCopies&) = delete;
  virtual ~StateCopies() = default;

  /// Returns block_io::staging_bytes bytes that begin at a page.
  virtual std::byte* staging() = 0;
  /// Start to copy from byte `first` of an array to staging memory, or back.
  virtual void fetch(std::span<std::byte> to, StateArray, std::size_t first) = 0;
  virtual void bring(std::span<const std::byte> from, StateArray, std::size_t first) = 0;
  /// Waits for all copies.
  virtual void finish() = 0;
};

/// The state to save, the properties that a checkpoint records, and the folder.
struct Saved {
  const StepShape& shape;
  std::size_t element, master;  // the sizes in bytes of a weight and of a value of the arrays
  std::filesystem::path folder;
};

/// Writes a checkpoint. Returns how this rank's file was accessed, such as "io_uring, O_DIRECT". Collective over the
/// ranks. Errors: InputError, the same on all ranks, if the folder has too little space, is not writable, or the disk
/// becomes full. The previous content of the folder then remains valid.
std::string write_checkpoint(const Saved&, Group&, StateCopies&, std::uint64_t steps);

/// The number of steps at the time of writing, and how the files were accessed.
struct Loaded {
  std::uint64_t steps;
  std::string access;
};

/// Reads a checkpoint. Collective over the ranks. Errors: InputError, the same on all ranks, if the checkpoint is
/// missing, belongs to another model or type, is truncated, corrupt, or a mixture of several. The state is then
/// undefined.
Loaded read_checkpoint(const Saved&, Group&, StateCopies&);

/// Removes the files that this rank has written to the folder, and a part of the files that no rank of this group has
/// written.
void remove_checkpoint(const std::filesystem::path& folder, Group&);

template <TrainingOps Ops>
class DeviceCopies final : public StateCopies {
 public:
  DeviceCopies(Ops& ops, TrainingStep<Ops>& step)
      : ops_(ops), memory_(ops.host_memory(block_io::staging_bytes + block_io::page_bytes)) {
    step.with_state([this](const auto& state) {
      std::size_t next = 0;
      for (auto* const array : {state.parameters, state.first_moment, state.second_moment}) {
        arrays_[next++] = reinterpret_cast<std::byte*>(array);
      }
    });
  }

  std::byte* staging() override {
    void* begin = memory_.data();
    std::size_t room = block_io::staging_bytes + block_io::page_bytes;
    return static_cast<std::byte*>(std::align(block_io::page_bytes, block_io::staging_bytes, begin, room));
  }
  void fetch(std::span<std::byte> to, StateArray array, std::size_t first) override {
    ops_.begin_copy(to.data(), at(array, first), to.size(), 0);
  }
  void bring(std::span<const std::byte> from, StateArray array, std::size_t first) override {
    ops_.begin_copy(at(array, first), from.data(), from.size(), 0);
  }
  void finish() override { ops_.finish_copy(0); }

 private:
  std::byte* at(StateArray array, std::size_t first) const { return arrays_[static_cast<std::size_t>(array)] + first; }

  Ops& ops_;
  std::array<std::byte*, state_arrays> arrays_{};
  decltype(std::declval<Ops&>().host_memory(std::size_t{})) memory_;
};

/// A step and its checkpoints. All arguments of the constructor must outlive it.
template <TrainingOps Ops>
class Checkpoint {
 public:
  Checkpoint(Ops& ops, TrainingStep<Ops>& step, Group& group)
      : ops_(ops), step_(step), group_(group), copies_(ops, step) {}

  std::size_t bytes() const { return checkpoint_bytes(step_.shape(), value_bytes()); }

  /// Does the same as write_checkpoint, for the state after all queued work.
  void write(const std::filesystem::path& folder) {
    access_ = write_checkpoint(saved(folder), group_, copies_, step_.steps());
  }

  /// Does the same as read_checkpoint. The next step then continues the run that wrote the checkpoint.
  void read(const std::filesystem::path& folder) {
    // The padding of a share must be zero.
    step_.with_state([this](const auto& state) {
      for (auto* const array : {state.parameters, state.first_moment, state.second_moment}) {
        ops_.set_bytes(array, 0, state.count * sizeof *array);
      }
    });
    auto [steps, access] = read_checkpoint(saved(folder), group_, copies_);
    access_ = std::move(access);
    step_.go_on_after(steps);
  }

  /// Returns how the last checkpoint was accessed, such as "io_uring, O_DIRECT".
  const std::string& access() const { return access_; }

 private:
  std::size_t value_bytes() const {
    return step_.shape().in_bf16() ? sizeof(typename Ops::Element) : sizeof(typename Ops::Master);
  }
  Saved saved(const std::filesystem::path& folder) const {
    return {step_.shape(), sizeof(typename Ops::Element), value_bytes(), folder};
  }

  Ops& ops_;
  TrainingStep<Ops>& step_;
  Group& group_;
  DeviceCopies<Ops> copies_;
  std::string access_;
};

}  // namespace shakedown::training
