#include "kernels/finetune/fine_tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <system_error>

#include "base/archive.hpp"
#include "base/sha256.hpp"
#include "base/together.hpp"
#include "kernels/finetune/learning_rate.hpp"
#include "kernels/finetune/safetensors.hpp"

namespace shakedown::finetune {

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* identity_name = "run.json";

/// The settings and the data that determine the values of a run.
struct Identity {
  std::map<std::string, std::string> of;
};
template <class Archive>
void members(Archive& archive, Identity& identity) {
  archive("of", identity.of);
}

double sum_over_ranks(Group& group, double own) {
  double all = 0;
  group.sum(std::span<const double>(&own, 1), std::span<double>(&all, 1));
  return all;
}

/// "rank 16, alpha 32, q k v"
std::string lora_text(const training::LoraShape& lora) {
  auto text = fmt::format("rank {}, alpha {},", lora.rank, lora.alpha);
  for (std::size_t i = 0; i < training::modules; ++i) {
    if (lora.adapted.at(i)) text += " " + std::string(name(static_cast<training::Module>(i)));
  }
  return text;
}

std::string digest_of_examples(const std::vector<Example>& examples) {
  std::string bytes;
  for (const auto& [tokens, in_loss] : examples) {
    bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof tokens[0]);
    bytes.append(reinterpret_cast<const char*>(in_loss.data()), in_loss.size());
    bytes.push_back('\n');
  }
  return sha256(bytes);
}

}  // namespace

FineTuning::FineTuning(const FinetuneSettings& settings, const TrainingData& data, training::Trainer& trainer,
                       Group& group)
    : settings_(settings),
      data_(data),
      trainer_(trainer),
      group_(group),
      rows_(data_.train, packing_options(), AfterLastRow::next_epoch) {
  steps_ = settings.steps.value_or(0);
  if (settings.steps || data.train.empty()) return;
  const auto rows_of_step = static_cast<double>(rows_of_rank()) * group.size();
  steps_ = static_cast<std::int64_t>(std::ceil(static_cast<double>(rows_.rows_in(settings.epochs)) / rows_of_step));
}

PackingOptions FineTuning::packing_options() const {
  return {settings_.seq, settings_.shuffle, settings_.pack, settings_.seed, data_.padding};
}

std::map<std::string, std::string> FineTuning::identity() const {
  const auto text = [](auto value) { return fmt::format("{}", value); };
  return {
      {"batch", text(settings_.batch)},
      {"accumulation", text(settings_.accumulation)},
      {"the number of ranks", text(group_.size())},
      {"method", std::string(name(settings_.method))},
      {"precision", std::string(name(settings_.precision))},
      {"LoRA", settings_.method == Method::lora ? lora_text(settings_.lora) : "none"},
      {"the digest of the weights", digest_of_weights(settings_.model)},
      {"seq", text(settings_.seq)},
      {"steps", text(steps_)},
      {"lr", text(settings_.lr)},
      {"schedule", std::string(name(settings_.schedule))},
      {"warmup_steps", text(settings_.warmup_steps)},
      {"weight_decay", text(settings_.weight_decay)},
      {"the betas and epsilon of AdamW", fmt::format("{} {} {}", settings_.beta1, settings_.beta2, settings_.epsilon)},
      {"clip_norm", text(settings_.clip_norm)},
      {"pack", text(settings_.pack)},
      {"shuffle", text(settings_.shuffle)},
      {"seed", text(settings_.seed)},
      {"the SHA-256 of the examples", digest_of_examples(data_.train)}};
}

void FineTuning::require_no_checkpoint() const {
  together(group_, [&] {
    if (group_.rank() != 0 || !is_visible(checkpoint() / "checkpoint.json")) return;
    throw InputError(settings_.out.string() +
                     ": has a checkpoint of an earlier run: add --resume to continue it, or choose another folder");
  });
}

void FineTuning::resume() {
  together(group_, [&] {
    const auto file = settings_.out / identity_name;
    if (!is_visible(file) || !is_visible(checkpoint() / "checkpoint.json")) {
      throw InputError(settings_.out.string() + ": has no checkpoint to continue: leave out --resume");
    }
    const auto document = document_of_text(read_file(file));
    if (document.is_discarded()) throw InputError(file.string() + ": is damaged: start a new run");
    const auto theirs = read_as<Identity>(Field(file, "", document));
    for (const auto& [what, ours] : identity()) {
      const auto found = theirs.of.find(what);
      const auto value = found == theirs.of.end() ? "unknown" : found->second;
      if (value == ours) continue;
      throw InputError(
          fmt::format("{}: {} was {} in the run to continue, but is {} here: set it back, or start a new "
                      "run in another folder",
                      file.string(), what, value, ours));
    }
  });
  trainer_.read(checkpoint());
}

void FineTuning::run(const std::function<void(const StepFigures&)>& report, std::optional<std::int64_t> end) {
  std::optional<EventFile> events;
  together(group_, [&] {
    if (data_.train.empty()) throw InputError(settings_.data.string() + ": has no examples: name a file that has some");
    if (group_.rank() != 0) return;
    std::error_code error;
    std::filesystem::create_directories(checkpoint(), error);
    if (error) throw InputError(checkpoint().string() + ": cannot be created: " + error.message());
    replace_file(settings_.out / identity_name, json_text(Identity{identity()}, 1));
    events.emplace(settings_.out, static_cast<std::int64_t>(trainer_.steps()) + 1);
  });
  const auto last = std::min(end.value_or(steps_), steps_);
  const auto due = [this](std::int64_t step, std::int64_t interval) {
    return step == steps_ || (interval > 0 && step % interval == 0);
  };
  const auto began = static_cast<std::int64_t>(trainer_.steps());
  auto begin = Clock::now();
  for (auto step = began; step < last;) {
    auto figures = train_one();
    ++step;
    // The first step is slower, so that it is no part of the forecast.
    if (step == began + 1) begin = Clock::now();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (step > began + 1) {
      figures.seconds_left = seconds / static_cast<double>(step - began - 1) * static_cast<double>(steps_ - step);
    }
    if (!data_.eval.empty() && due(step, settings_.eval_steps)) figures.eval_loss = evaluate();
    together(group_, [&] {
      if (!events || !(due(step, settings_.log_steps) || figures.eval_loss)) return;
      std::vector<Scalar> scalars{{"train/loss", figures.loss},
                                  {"train/lr", figures.lr},
                                  {"train/grad_norm", figures.gradient_norm},
                                  {"train/tokens_per_s", figures.tokens_per_s},
                                  {"train/memory_gb", figures.memory_gb}};
      if (figures.eval_loss) scalars.push_back({"eval/loss", *figures.eval_loss});
      events->add(step, scalars);
    });
    if (due(step, settings_.save_steps)) {
      before_checkpoint_();
      trainer_.write(checkpoint());
    }
    report(figures);
  }
}

StepFigures FineTuning::train_one() {
  const auto begin = Clock::now();
  const auto step = static_cast<std::int64_t>(trainer_.steps());
  const auto tokens = rows_.tokens(static_cast<std::uint64_t>(step), rows_of_rank(), group_);
  constexpr double no_clipping = 1e30;
  const training::AdamW update{.lr = learning_rate(settings_, step, steps_),
                               .beta1 = settings_.beta1,
                               .beta2 = settings_.beta2,
                               .eps = settings_.epsilon,
                               .weight_decay = settings_.weight_decay,
                               .max_norm = settings_.clip_norm > 0 ? settings_.clip_norm : no_clipping};
  const auto record = trainer_.train(tokens, update);
  require_finite(record, step + 1);
  StepFigures figures;
  figures.step = step + 1;
  figures.steps = steps_;
  figures.lr = update.lr;
  figures.loss = sum_over_ranks(group_, record.loss) / group_.size();
  figures.gradient_norm = std::sqrt(record.reduced.squared_norm);
  const auto memory = gather(group_, static_cast<double>(trainer_.used_bytes()) / 1e9);
  figures.memory_gb = *std::max_element(memory.begin(), memory.end());
  const auto all = static_cast<double>(tokens.inputs.size()) * group_.size();
  figures.tokens_per_s = all / std::chrono::duration<double>(Clock::now() - begin).count();
  return figures;
}

void FineTuning::require_finite(const training::Record& record, std::int64_t step) {
  std::string what;
  if (!std::isfinite(record.loss)) {
    what = fmt::format("the loss is {}", record.loss);
  } else if (record.local.non_finite > 0 || !std::isfinite(record.reduced.squared_norm)) {
    what = fmt::format("{} values of the gradient are not finite", record.local.non_finite);
  }
  if (sum_over_ranks(group_, what.empty() ? 0 : 1) == 0) return;
  // All ranks have the summed gradient, so a rank with a bad value of its own is named if there is one.
  const auto own = group_.gather(!std::isfinite(record.loss) || record.local.non_finite > 0 ? what : "");
  const auto bad = std::find_if(own.begin(), own.end(), [](const auto& text) { return !text.empty(); });
  const auto rank = bad == own.end() ? 0 : bad - own.begin();
  throw Diverged(
      fmt::format("step {}, rank {}: {}; the parameters are those of step {}: lower lr, check the data, or resume the "
                  "last checkpoint",
                  step, rank, bad == own.end() ? "the norm of the summed gradient is not finite" : *bad, step - 1));
}

double FineTuning::evaluate() {
  if (data_.eval.empty()) throw InputError("no examples for the evaluation: name a file that has some");
  auto options = packing_options();
  options.shuffle = false;
  RowStream rows(data_.eval, options, AfterLastRow::empty);
  const auto of_step = rows_of_rank() * static_cast<std::size_t>(group_.size());
  const auto all = rows.rows_in(1);
  double loss = 0, targets = 0;
  for (std::uint64_t step = 0; step * of_step < all; ++step) {
    const auto tokens = rows.tokens(step, rows_of_rank(), group_);
    loss += sum_over_ranks(group_, trainer_.evaluate(tokens)) / group_.size() * tokens.counted;
    targets += tokens.counted;
    while_working_();
  }
  if (targets == 0) throw InputError("the examples for the evaluation have no target: set sequence_length higher");
  return loss / targets;
}

}  // namespace shakedown::finetune
