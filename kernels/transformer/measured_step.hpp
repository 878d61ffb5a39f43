// The training step as a Work, for every backend. Prepares it on random weights and tokens, checks the result of each
// step, and splits its time into phases and the cost of sums over ranks.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <type_traits>

#include "base/archive.hpp"
#include "base/statistics.hpp"
#include "kernels/effort.hpp"
#include "kernels/reference.hpp"
#include "kernels/transformer/profiled_ops.hpp"
#include "kernels/transformer/step.hpp"
#include "kernels/transformer/step_check.hpp"

namespace shakedown::training {

template <class Archive>
void members(Archive& archive, Summary& sum) {
  archive("squared_norm", sum.squared_norm)("non_finite", sum.non_finite)("checksum", sum.checksum);
  archive("projection", sum.projection);
}
template <class Archive>
void members(Archive& archive, Record& record) {
  archive("loss", record.loss)("local", record.local)("reduced", record.reduced)("updated", record.updated);
  archive("shared", record.shared)("share", record.share)("fetched", record.fetched);
}

template <class Archive>
void members(Archive& archive, Taken& taken) {
  archive("first", taken.first)("count", taken.count)("checksum", taken.checksum);
}

/// Return token i of the training text, and the token that follows it. The text is pseudo-random, and the same for all
/// ranks and for the peer script.
inline int input_token(std::uint64_t i, std::size_t vocab) { return static_cast<int>(reference::mix(i) % vocab); }
inline int target_token(std::uint64_t i, std::size_t vocab) {
  return static_cast<int>((reference::mix(i) >> 32) % vocab);
}

/// Loads a step's part of that text, starting at this sequence.
template <TrainingOps Ops>
void load_tokens(TrainingStep<Ops>& step, std::size_t first_sequence) {
  const auto& shape = step.shape();
  const auto first = first_sequence * shape.seq;
  std::vector<int> inputs, targets;
  for (std::size_t i = first; i < first + shape.accumulation * shape.tokens(); ++i) {
    inputs.push_back(input_token(i, shape.model.vocab));
    targets.push_back(target_token(i, shape.model.vocab));
  }
  step.load(inputs, targets);
}

/// Settings of the update. At this rate the loss falls clearly within ten steps. A model of 7 billion parameters has
/// memorized its batch after twenty steps (12.65 to 0.0018), at ten times the rate after eight.
inline constexpr AdamW measured_update{.lr = 1e-4};

/// The label of a row whose gradients are not compared bit by bit.
inline constexpr const char* nondeterministic_attention =
    "attention is not deterministic here, so gradients are not compared bit by bit";

template <TrainingOps Backend, Trains trains>
class MeasuredStep final : public Work {
 public:
  using Ops = ProfiledOps<Backend>;

  /// Allocates all memory. Errors: the backend's exception if there is not enough memory.
  MeasuredStep(const StepSpec<trains>& spec, std::unique_ptr<Ops> ops, Device& device)
      : spec_(spec), device_(device), ops_(std::move(ops)), step_(*ops_, step_shape(spec)) {}

  void connect(Group& group) override {
    const bool any_rank = spec_.shard == Shard::none && spec_.tp == 1;
    if (group.size() != spec_.ranks || (!any_rank && group.rank() != spec_.rank)) {
      throw std::logic_error("a training step prepared for another number of ranks, or another rank");
    }
    group_ = &group;
    equal_devices_ = group.all_same(device_.info().name + ", attention " + ops_->attention_name());
    deterministic_ = group.all(ops_->is_deterministic());
    if (spec_.tp == 1) {
      ops_->connect(group);
    } else {
      split(group);
      ops_->connect(*replicas_.group, together_.group.get());
    }
    if (!tune(device_.remembered())) tune({});
    begin();  // because results during tuning are invalid
    step_.run(measured_update);
    ops_->synchronize();
    step_seconds_ = slowest_seconds();
    step_.repeat();
    const bool has_choice = spec_.bucket == 0 && step_.shape().ranks > 1 && spec_.shard != Shard::weights;
    if (has_choice && bucket_trials(step_seconds_) > 0) choose_bucket();
  }

  void enqueue() override { step_.run(measured_update); }

  void stage(int repeats) override {
    note_phases();
    staged_ += static_cast<std::size_t>(repeats);
  }

  /// Restores the initial state while the GPU is under load.
  void reset() override {
    spoiled_ ? begin() : step_.initialize_parameters();
    for (int i = 0; i < warm_up_steps(step_seconds_); ++i) step_.run(measured_update);
    step_.initialize_parameters();
    staged_ = 0;
    phases_ = {};
  }

  /// Collective over all ranks.
  Check verify() override {
    const auto by_rank = gather(*group_, step_.records());
    auto check = check_steps(by_rank, group_->rank(),
                             {.steps = staged_,
                              .first_loss = expected_first_loss(step_.shape().model),
                              .same_bits = equal_devices_,
                              .deterministic = deterministic_,
                              .same_tokens = spec_.data == Data::same,
                              .same_parameters = spec_.shard == Shard::none,
                              .golden = golden_losses(spec_),
                              .together = spec_.tp,
                              .fetched = spec_.shard != Shard::none && ops_->fetches_sums(),
                              .sums = spec_.sums});
    const auto wrong = uncovered();  // the call is collective, so it precedes any return
    if (check.compared == 0 || check.mismatched > 0) return check;
    if (wrong) return {check.compared + 1, 1, *wrong};
    if (step_.shape().quantized) {
      const auto products = step_.check_quantized_products();
      check.compared += products.compared;
      check.mismatched += products.mismatched;
      if (products.mismatched > 0) check.first = "quantized products: " + products.first;
    }
    ++check.compared;
    const auto now = step_.parameter_summary().checksum, then = step_.records().back().updated.checksum;
    if (now != then) {
      ++check.mismatched;
      check.first = "the trainable parameters have the checksum " + std::to_string(now) + ", expected " +
                    std::to_string(then) + " as after the last step";
    }
    return check;
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return step_.bytes(); }
  bool collective() const override { return true; }
  double expected_seconds() const override { return step_seconds_; }
  std::string fallback() const override { return ops_->fallback(); }
  std::string chosen() const override { return deterministic_ ? "" : nondeterministic_attention; }

  /// Returns the phases of the checked steps, and the time of more steps without sums over ranks. One step before these
  /// brings the GPU back to its power limit, since it is faster for a while after each pause. Collective over all
  /// ranks.
  Metrics metrics() override {
    note_phases();
    const auto records = step_.records();
    if (records.empty()) return {};
    const auto gb = [](std::size_t bytes) { return static_cast<double>(bytes) / 1e9; };
    // Returns the sum over all parts if a tensor parallel group shares the model.
    std::uint64_t checksum = step_.weights_summary().checksum;
    if (together_.group) {
      const auto of_parts = gather(*together_.group, checksum);
      checksum = std::accumulate(of_parts.begin(), of_parts.end(), std::uint64_t{0});
    }
    Metrics metrics{{"first_loss", records.front().loss},
                    {"last_loss", records.back().loss},
                    {"planned_gb", gb(step_.bytes())},
                    {"peak_gb", gb(ops_->used_bytes())}};
    if (step_.host_bytes() > 0) metrics.emplace_back("host_gb", gb(step_.host_bytes()));
    if (deterministic_) metrics.emplace_back("checksum", static_cast<double>(reference::mix(checksum) >> 11));
    for (const std::size_t step : {2U, 5U, 10U}) {
      if (step <= records.size()) metrics.emplace_back("loss_" + std::to_string(step), records[step - 1].loss);
    }
    const auto& last = records.back();
    // The steps below are collective, so either all ranks run them or none does.
    const bool good = std::isfinite(last.loss) && std::isfinite(last.reduced.squared_norm) && !phases_.whole.empty();
    if (!group_->all(good)) return metrics;
    metrics.emplace_back("forward_ms", median(phases_.forward));
    metrics.emplace_back("backward_ms", median(phases_.backward));
    metrics.emplace_back("optimizer_ms", median(phases_.optimizer));
    // A tensor parallel group exchanges on the stream of the products, which does not wait.
    if (group_->size() > spec_.tp) metrics.emplace_back("exchange_wait_ms", median(phases_.wait));
    std::vector<double> alone, cycles;
    for (int i = 0; i < lead_in_steps(step_seconds_); ++i) step_.run(measured_update);
    for (int i = 0; i < steps_alone(step_seconds_); ++i) {
      const auto counted = ops_->cycles([this] { step_.run(measured_update, false); });
      alone.push_back(ops_->milliseconds(Mark::begin, Mark::end));
      if (counted) cycles.push_back(*counted);
    }
    metrics.emplace_back("compute_ms", median(alone));
    // Cycles of a rank's own work. A longer time at equal cycles is due to a lower clock, and so to power; more cycles
    // are due to the GPU.
    if (!cycles.empty()) {
      metrics.emplace_back("tokens_per_s_per_ghz", tokens(spec_) / median(cycles) * 1e9);
    }
    if (group_->size() > 1) {
      metrics.emplace_back("exposed_comm_ms", std::max(0.0, median(phases_.whole) - median(alone)));
      metrics.emplace_back("buckets", static_cast<double>(buckets_));
    }
    for (const auto& metric : ops_->metrics()) metrics.push_back(metric);
    return metrics;
  }

  std::optional<StepProfile> profile() override {
    constexpr int profiled_steps = 5;
    // Before the lead-in, because the GPU pauses until the library is loaded.
    ops_->start_kernel_times();
    for (int i = 0; i < lead_in_steps(step_seconds_); ++i) step_.run(measured_update);
    ops_->start_profile();
    for (int i = 0; i < profiled_steps; ++i) step_.run(measured_update);
    return ops_->finish_profile();
  }

  void corrupt() override {
    step_.with_state([this](const auto& state) {
      auto* const place = state.parameters + state.count / 2;
      std::remove_const_t<std::remove_reference_t<decltype(*place)>> value;
      ops_->copy_out(&value, place, sizeof value);
      value = static_cast<decltype(value)>(static_cast<float>(value) + 1);
      ops_->copy_in(place, &value, sizeof value);
    });
  }

  void poison_input() override {
    ops_->set_bytes(step_.buffers().layers[0].norm1.gain, 0xff, sizeof(typename Ops::Element));
    spoiled_ = true;
  }

 private:
  /// Milliseconds of some steps. With several micro-batches `forward` and `backward` are those of the last micro-batch.
  struct Phases {
    std::vector<double> forward, backward, optimizer, wait, whole;
  };

  /// Splits the ranks into tensor parallel groups. Errors: Unsupported, on all ranks, if a group spans several hosts.
  void split(Group& group) {
    together_.group = group.split(group.rank() / spec_.tp, group.rank());
    replicas_.group = group.split(group.rank() % spec_.tp, group.rank());
    const auto& hosts = together_.group->hosts();
    const bool one_host = std::all_of(hosts.begin(), hosts.end(), [&](const auto& host) { return host == hosts[0]; });
    if (!group.all(one_host)) {
      throw Unsupported("tp:" + std::to_string(spec_.tp) +
                        " needs neighbouring ranks on one host: start a multiple of " + std::to_string(spec_.tp) +
                        " on each");
    }
  }

  /// Runs a step with tuning. In a tensor parallel group it needs the collectives; otherwise products would read
  /// undefined data.
  bool tune(const Choices& remembered) {
    begin();
    ops_->start_tuning(remembered, tuning_share(*group_, device_.info().name));
    step_.run(measured_update, spec_.tp > 1);
    ops_->synchronize();
    return ops_->finish_tuning(*group_, &device_.choices(), &device_.tilings());
  }

  void begin() {
    step_.initialize();
    load_tokens(step_, first_sequence());
    spoiled_ = false;
  }

  /// Return the size of this rank's part of the set of sequences, and its first one. Each rank has the sequences of one
  /// step.
  std::size_t sequences() const { return step_.shape().accumulation * step_.shape().batch; }
  std::size_t first_sequence() const {
    return spec_.data == Data::same ? 0 : static_cast<std::size_t>(group_->rank() / spec_.tp) * sequences();
  }

  /// Returns an error if the tokens on the ranks' devices do not cover the set of sequences exactly once; nullopt if
  /// all ranks use the same tokens.
  std::optional<std::string> uncovered() {
    if (spec_.data == Data::same) return std::nullopt;
    const auto seq = step_.shape().seq, vocab = step_.shape().model.vocab,
               all = sequences() * static_cast<std::size_t>(spec_.ranks / spec_.tp);
    const auto checksum = [](std::size_t first, std::size_t count, const auto& token) {
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < count; ++i) sum += checksum_term(static_cast<std::uint64_t>(token(i)), first + i);
      return sum;
    };
    const auto first = first_sequence();
    std::vector<int> tokens(sequences() * seq);
    const auto on_device = [&](const int* at, std::size_t behind) {
      ops_->copy_out(tokens.data(), at, tokens.size() * sizeof(int));
      return checksum(behind + first * seq, tokens.size(),
                      [&](std::size_t i) { return tokens[i] < 0 ? 0 : tokens[i] + step_.first_token(); });
    };
    const auto& buffers = step_.buffers();
    const Taken mine{first, sequences(), on_device(buffers.inputs, 0) + on_device(buffers.targets, all * seq)};
    // In a tensor parallel group, each rank has only the tokens of its part of the vocabulary.
    std::vector<Taken> by_model;
    const auto by_rank = gather(*group_, mine);
    for (std::size_t r = 0; r < by_rank.size(); ++r) {
      r % static_cast<std::size_t>(spec_.tp) == 0 ? by_model.push_back(by_rank[r])
                                                  : void(by_model.back().checksum += by_rank[r].checksum);
    }
    const auto of_set = checksum(0, all * seq, [&](std::size_t i) { return input_token(i, vocab); }) +
                        checksum(all * seq, all * seq, [&](std::size_t i) { return target_token(i, vocab); });
    return check_cover(by_model, all, of_set);
  }

  /// Selects when gradients are summed over ranks. Sums during the backward pass are faster on a slow network. On a
  /// fast network they are slower: products need all multiprocessors, and NCCL occupies some of them until the last
  /// rank has arrived. There, one sum of nearly all gradients during the last attention, which needs fewer
  /// multiprocessors, is faster (2 x H200, two runs, steps in turns: 456.6 and 460.0 ms; all sums after it: 458.4 and
  /// 461.0). All ranks use the option that is faster on the slowest rank. Each option runs once in an even and once in
  /// an odd position, because power alternates with the steps. Warm-up steps bring the GPUs to their power limit:
  /// without them, two of three launches selected the slower option (4 x H200). The selection costs seven steps, and
  /// none if an earlier run has made it.
  void choose_bucket() {
    const std::array<std::size_t, 2> buckets = {1, step_.gradients() - 1};
    const auto choice = key(spec_) + "/ranks:" + std::to_string(group_->size()) + "/sums";
    constexpr std::array names{"by layer", "at the end"};
    if (const auto known = device_.remembered().find(choice); known != device_.remembered().end()) {
      step_.set_bucket(buckets[known->second == names[0] ? 0 : 1]);
      device_.choices()[choice] = known->second;
      return;
    }
    std::array<double, 2> milliseconds = {};
    for (int i = 0; i < warm_up_steps(step_seconds_); ++i) step_.run(measured_update);
    for (const std::size_t which : {0, 1, 1, 0}) {
      step_.set_bucket(buckets[which]);
      group_->barrier();
      step_.run(measured_update);
      milliseconds[which] += slowest_seconds() * 1e3;
    }
    constexpr double better_time_ratio = 0.99;
    const std::size_t best = milliseconds[0] < better_time_ratio * milliseconds[1] ? 0 : 1;
    step_.set_bucket(buckets[best]);
    device_.choices()[choice] = names[best];
  }

  /// Returns the seconds of the last step on the slowest rank. Collective.
  double slowest_seconds() {
    const auto all = gather(*group_, ops_->milliseconds(Mark::begin, Mark::end));
    return *std::max_element(all.begin(), all.end()) * 1e-3;
  }

  /// Records the phases of the step since the last call, if there was one. The marks of this step are the most recent
  /// marks.
  void note_phases() {
    if (phases_.whole.size() >= staged_) return;
    phases_.forward.push_back(ops_->milliseconds(Mark::forward_begin, Mark::forward_end));
    phases_.backward.push_back(ops_->milliseconds(Mark::forward_end, Mark::backward_end));
    phases_.optimizer.push_back(ops_->milliseconds(Mark::reduced, Mark::end));
    phases_.wait.push_back(ops_->exchange_wait());
    phases_.whole.push_back(ops_->milliseconds(Mark::begin, Mark::end));
    buckets_ = step_.buckets();
  }

  /// A subgroup of all ranks, released on destruction.
  struct Part {
    Device& device;
    std::unique_ptr<Group> group = nullptr;
    ~Part() {
      if (group) device.leave(*group);
    }
  };

  StepSpec<trains> spec_;
  Device& device_;
  Part together_{device_},
      replicas_{device_};  // the ranks that compute the model with this rank, and those that have the same part of it
  std::unique_ptr<Ops> ops_;
  TrainingStep<Ops> step_;
  Group* group_ = nullptr;
  bool equal_devices_ = true, deterministic_ = true;
  double step_seconds_ = 0;  // duration of the first step after tuning
  std::size_t staged_ = 0;   // number of steps announced since reset
  Phases phases_;            // phases of these steps
  std::size_t buckets_ = 0;
  bool spoiled_ = false;  // true if the weights in use have been corrupted
};

}  // namespace shakedown::training
