// A checkpoint as a Work, for every backend: written to and read from a temporary folder. Verified by continuing
// training from it.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <string>

#include "base/archive.hpp"
#include "base/files.hpp"
#include "kernels/own_folder.hpp"
#include "kernels/transformer/checkpoint.hpp"
#include "kernels/transformer/checkpoint_spec.hpp"
#include "kernels/transformer/measured_step.hpp"

namespace shakedown::training {

template <TrainingOps Ops>
class MeasuredCheckpoint final : public Work {
 public:
  /// Allocates all memory. Errors: the backend's exception if there is not enough memory.
  MeasuredCheckpoint(const CheckpointSpec& spec, std::unique_ptr<Ops> ops)
      : spec_(spec), ops_(std::move(ops)), step_(*ops_, step_shape(spec.step)) {}
  ~MeasuredCheckpoint() override {
    if (group_ == nullptr || folder_.empty()) return;
    try {
      ops_->synchronize();
    } catch (const std::exception&) {  // another exception already reports the failure
    }
    remove_checkpoint(folder_, *group_);
    own_folder_.reset();
    remove_if_done(folder_);  // the last rank finds only the lock file
  }

  /// Trains for some steps, saves the state, and records the result of some more steps. Errors: Unsupported if the
  /// folder cannot hold the checkpoint.
  void connect(Group& group) override {
    if (group.size() != spec_.step.ranks) throw std::logic_error("a checkpoint prepared for another number of ranks");
    group_ = &group;
    ops_->connect(group);
    deterministic_ = group.all(ops_->is_deterministic());
    checkpoint_ = std::make_unique<Checkpoint<Ops>>(*ops_, step_, group);
    step_.initialize();
    load_tokens(step_, 0);
    train();
    saved_ = step_.parameter_summary().checksum;
    if (group.rank() == 0) own_folder_ = std::make_unique<OwnFolder>(spec_.folder, "checkpoint");
    folder_ = broadcast(group, own_folder_ ? own_folder_->path().string() : "");
    const auto write = [&] { checkpoint_->write(folder_); };
    if (const auto why = input_error_of(write); !why.empty()) throw Unsupported(why, spec_.asked_for);
    train();
    expected_ = step_.records().back().updated.checksum;
    checkpoint_->read(folder_);
  }

  void stage(int repeats) override { announced_ += repeats; }
  void enqueue() override {
    if (!obstacle_.empty()) return;
    obstacle_ = input_error_of(
        [&] { spec_.op == CheckpointOp::write ? checkpoint_->write(folder_) : checkpoint_->read(folder_); });
    ++done_;
  }
  void reset() override {
    announced_ = done_ = 0;
    obstacle_.clear();
  }

  /// Verifies the data on disk. Collective over all ranks. Every rank clears its state and reads the checkpoint;
  /// training that continues from it must give the same result as training from the saved state.
  Check verify() override {
    if (announced_ == 0) return {};
    Check check{1, 0, ""};
    const auto expect = [&](const char* what, auto got, auto want) {
      ++check.compared;
      if (got == want || check.mismatched++ > 0) return;
      check.first = fmt::format("{} {:x}, expected {:x}", what, got, want);
    };
    expect("checkpoints written or read:", done_, announced_);
    expect("the state now has the checksum", step_.parameter_summary().checksum, saved_);
    step_.initialize_parameters();
    const auto why = input_error_of([&] { checkpoint_->read(folder_); });
    if (!why.empty()) return {check.compared + 1, 1, why};
    expect("after reading, the state has the checksum", step_.parameter_summary().checksum, saved_);
    if (!deterministic_) return check;
    train();
    expect("steps after reading lead to the checksum", step_.records().back().updated.checksum, expected_);
    checkpoint_->read(folder_);
    return check;
  }

  std::string obstacle() const override { return obstacle_; }
  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return step_.bytes(); }
  bool collective() const override { return true; }
  bool on_processor() const override { return true; }
  std::string chosen() const override {
    const std::string access = checkpoint_ ? checkpoint_->access() : "";
    return deterministic_ ? access : access + "; " + nondeterministic_attention;
  }
  Metrics metrics() override { return {{"checkpoint_gb", cost().bytes / 1e9}}; }

  /// Flips one bit of the data that this rank has written.
  void corrupt() override {
    for (const auto& name : names_in(folder_).value_or(std::vector<std::string>())) {
      if (!name.ends_with(".rank" + std::to_string(group_->rank()))) continue;
      std::fstream file(std::filesystem::path(folder_) / name, std::ios::in | std::ios::out | std::ios::binary);
      const auto byte = static_cast<char>(file.get() ^ 1);
      file.seekp(0);
      file.put(byte);
    }
  }

 private:
  void train() {
    for (int i = 0; i < spec_.steps; ++i) step_.run(measured_update);
  }

  CheckpointSpec spec_;
  std::unique_ptr<Ops> ops_;
  TrainingStep<Ops> step_;
  Group* group_ = nullptr;
  bool deterministic_ = true;
  std::unique_ptr<Checkpoint<Ops>> checkpoint_;
  std::unique_ptr<OwnFolder> own_folder_;  // created by rank 0, for all ranks
  std::string folder_;
  std::uint64_t saved_ = 0, expected_ = 0;  // checksums of the parameters: when saved, and some steps later
  int announced_ = 0, done_ = 0;
  std::string obstacle_;  // the message of the first failure, which is the same on all ranks
};

}  // namespace shakedown::training
