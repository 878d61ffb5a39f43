// Fine-tuning on one rank, for every backend: as a Trainer on weights and tokens of the caller, and as a Work on random
// weights and a made-up language, whose losses are checked.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/reference.hpp"
#include "kernels/transformer/checkpoint.hpp"
#include "kernels/transformer/finetune_spec.hpp"
#include "kernels/transformer/weight_transfer.hpp"

namespace shakedown::training {

/// Returns the row with this number of a language in which each token determines the next, except in one of eight
/// places. A model learns it in some steps.
inline std::vector<int> made_up_row(std::uint64_t row, std::size_t tokens, std::size_t vocab) {
  constexpr std::size_t words = 32, factor = 5, shift = 7;
  const auto used = std::min(words, vocab);
  std::vector<int> all;
  for (std::size_t i = 0, word = reference::mix(row) % used; i < tokens; ++i) {
    all.push_back(static_cast<int>(word));
    const auto noise = reference::mix((row << 20) + i + 1);
    word = noise % 8 == 0 ? (noise >> 8) % used : (factor * word + shift) % used;
  }
  return all;
}

template <TrainingOps Ops>
class MeasuredFinetune final : public Work, public Trainer {
 public:
  /// Allocates all memory. Errors: the backend's exception if there is not enough memory.
  MeasuredFinetune(const FinetuneSpec& spec, std::unique_ptr<Ops> ops, Device& device)
      : spec_(spec), device_(device), ops_(std::move(ops)), step_(*ops_, step_shape(spec)), transfer_(*ops_, step_) {}

  // Work

  /// Tunes the products, which leaves random weights.
  void connect(Group& group) override {
    if (group.size() != spec_.ranks) throw std::logic_error("fine-tuning prepared for another number of ranks");
    group_ = &group;
    ops_->connect(group);
    checkpoint_ = std::make_unique<Checkpoint<Ops>>(*ops_, step_, group);
    if (!tune(device_.remembered())) tune({});
    reset();
  }

  void reset() override {
    step_.initialize();
    losses_.clear();
    stored_.reset();
    expected_ = 0;
  }
  void stage(int repeats) override { expected_ += static_cast<std::size_t>(repeats); }

  /// Trains all steps from the same random weights.
  void enqueue() override {
    step_.initialize_parameters();
    for (int i = 0; i < spec_.steps; ++i) {
      load(made_up(static_cast<std::uint64_t>(i)));
      step_.run({.lr = spec_.rate, .weight_decay = 0});
    }
    losses_.push_back(step_.records().back().loss);
  }

  /// The losses of all operations must be the same bits, and far below the loss of a guess. Collective.
  Check verify() override {
    const auto wrong = complaint();
    stored_ = evaluate(made_up(held_out));
    return {losses_.size() + 2, wrong.empty() ? 0U : 1U, wrong};
  }

  Metrics metrics() override {
    if (losses_.empty() || !stored_) return {};
    const std::array<double, 2> own{losses_.back(), *stored_};
    std::array<double, 2> sum{};
    group_->sum(std::span<const double>(own), std::span<double>(sum));
    return {{"loss", sum[0] / spec_.ranks}, {"eval_loss", sum[1] / spec_.ranks}};
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return step_.bytes(); }
  bool collective() const override { return true; }
  bool on_processor() const override { return true; }
  std::string fallback() const override { return ops_->fallback(); }

  void corrupt() override {
    if (!losses_.empty()) losses_.back() += 1e-3;
  }
  void poison_input() override {
    ops_->set_bytes(step_.buffers().layers[0].norm1.gain, 0xff, sizeof(typename Ops::Element));
  }

  // Trainer

  void set_weights(const TensorValues& values) override { transfer_.set(values); }
  Record train(const TrainingTokens& tokens, const AdamW& settings) override {
    load(tokens);
    step_.run(settings);
    return step_.records().back();
  }
  double evaluate(const TrainingTokens& tokens) override {
    load(tokens);
    return step_.evaluate();
  }
  std::uint64_t steps() const override { return step_.steps(); }
  void write(const std::filesystem::path& folder) override { checkpoint_->write(folder); }
  void read(const std::filesystem::path& folder) override { checkpoint_->read(folder); }
  const std::vector<ParameterTensor>& trained() const override { return step_.tensors(); }
  std::vector<float> values(const ParameterTensor& t) override { return transfer_.values(t); }
  std::size_t used_bytes() override { return ops_->used_bytes(); }

 private:
  static constexpr std::uint64_t held_out = std::uint64_t{1} << 32;

  bool tune(const Choices& remembered) {
    step_.initialize();
    load(made_up(0));
    ops_->start_tuning(remembered, tuning_share(*group_, device_.info().name));
    step_.run({.lr = 0}, false);
    ops_->synchronize();
    return ops_->finish_tuning(*group_, &device_.choices(), &device_.tilings());
  }

  void load(const TrainingTokens& tokens) { step_.load(tokens.inputs, tokens.targets, tokens.counted); }

  TrainingTokens made_up(std::uint64_t step) const {
    const auto rows = spec_.batch * spec_.accumulation, ranks = static_cast<std::size_t>(spec_.ranks);
    TrainingTokens tokens;
    for (std::size_t i = 0; i < rows; ++i) {
      const auto row = made_up_row((step * rows + i) * ranks + static_cast<std::size_t>(spec_.rank), spec_.seq + 1,
                                   spec_.shape.vocab);
      tokens.inputs.insert(tokens.inputs.end(), row.begin(), row.end() - 1);
      tokens.targets.insert(tokens.targets.end(), row.begin() + 1, row.end());
    }
    tokens.counted = static_cast<double>(tokens.targets.size() * ranks);
    return tokens;
  }

  std::string complaint() const {
    if (losses_.size() != expected_) {
      return std::to_string(losses_.size()) + " runs have a loss, expected " + std::to_string(expected_);
    }
    const double guess = std::log(static_cast<double>(spec_.shape.vocab));
    for (const double loss : losses_) {
      if (!(loss < guess)) {
        return "the last loss is " + std::to_string(loss) + ", expected less than that of a guess, " +
               std::to_string(guess);
      }
      const bool same = std::bit_cast<std::uint64_t>(loss) == std::bit_cast<std::uint64_t>(losses_.front());
      if (same || !ops_->is_deterministic()) continue;
      return "the last loss is " + std::to_string(loss) + ", expected " + std::to_string(losses_.front()) +
             " as in the first run";
    }
    return "";
  }

  FinetuneSpec spec_;
  Device& device_;
  std::unique_ptr<Ops> ops_;
  TrainingStep<Ops> step_;
  WeightTransfer<Ops> transfer_;
  std::unique_ptr<Checkpoint<Ops>> checkpoint_;
  Group* group_ = nullptr;
  std::vector<double> losses_;    // of the last step of each operation since reset
  std::optional<double> stored_;  // loss on rows that were not trained
  std::size_t expected_ = 0;      // operations since reset
};

}  // namespace shakedown::training
