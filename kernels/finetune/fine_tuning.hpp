// A fine-tuning run: trains step by step, evaluates, and saves what a run needs to continue.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/finetune/event_file.hpp"
#include "kernels/finetune/row_stream.hpp"
#include "kernels/finetune/settings.hpp"

namespace shakedown::finetune {

/// The figures of a step, the same on all ranks.
struct StepFigures {
  std::int64_t step = 0, steps = 0;  // steps that are done, and all steps of the run
  double loss = 0;                   // mean over the targets of all ranks, before the update
  double lr = 0, gradient_norm = 0;
  double tokens_per_s = 0;  // of all ranks, padding included
  double memory_gb = 0;     // of the rank with the most
  double seconds_left = 0;
  std::optional<double> eval_loss;  // after this step
};

/// Thrown on all ranks if a loss or a gradient is not finite. The message is one line with the step and the rank.
struct Diverged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct TrainingData {
  std::vector<Example> train, eval;  // eval may be empty
  std::int32_t padding = 0;
  std::size_t cut = 0;  // examples that are longer than a row
};

class FineTuning {
 public:
  /// All arguments must outlive the object. The trainer must have its weights.
  FineTuning(const FinetuneSettings&, const TrainingData&, training::Trainer&, Group&);

  std::int64_t steps() const { return steps_; }
  /// Sets a function to call after each part of an evaluation, as in Device.
  void while_working(std::function<void()> call) { while_working_ = std::move(call); }

  /// Sets a function to call before a checkpoint is written, which takes longer than a step.
  void before_checkpoint(std::function<void()> call) { before_checkpoint_ = std::move(call); }

  /// Continues the run in the output folder from its last checkpoint. Errors: InputError if there is none, or if it is
  /// of a run with other settings or data. Collective.
  void resume();
  /// Errors: InputError if the output folder has a checkpoint, which a new run would replace. Collective.
  void require_no_checkpoint() const;

  /// Trains until all steps are done, or `end` steps. Calls `report` after each step on all ranks. Writes
  /// metrics.jsonl, an event file and checkpoints to the output folder. Errors: Diverged; InputError if there are no
  /// examples, or if a file cannot be written. Collective.
  void run(const std::function<void(const StepFigures&)>& report, std::optional<std::int64_t> end = std::nullopt);

  /// Returns the mean loss over all targets of the examples for evaluation. Errors: InputError if there is no target.
  /// Collective.
  double evaluate();

 private:
  StepFigures train_one();
  void require_finite(const training::Record&, std::int64_t step);
  std::map<std::string, std::string> identity() const;
  PackingOptions packing_options() const;
  std::filesystem::path checkpoint() const { return settings_.out / "checkpoint"; }
  std::size_t rows_of_rank() const { return settings_.batch * settings_.accumulation; }

  const FinetuneSettings& settings_;
  const TrainingData& data_;
  training::Trainer& trainer_;
  Group& group_;
  RowStream rows_;
  std::int64_t steps_ = 0;
  std::function<void()> while_working_ = [] {}, before_checkpoint_ = [] {};
};

}  // namespace shakedown::finetune
