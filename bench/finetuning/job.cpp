// Runs a fine-tuning on all ranks: settings, model, device, steps, results.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <optional>

#include "base/console.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "base/together.hpp"
#include "bench/finetuning/inputs.hpp"
#include "fixtures/program/family.hpp"
#include "fixtures/program/program.hpp"
#include "kernels/finetune/model_weights.hpp"
#include "kernels/transformer/finetune_spec.hpp"

namespace shakedown {

namespace {

using finetune::FinetuneSettings, finetune::FineTuning, finetune::ModelConfig, finetune::StepFigures;
using training::Retain;

FinetuneSpec spec_of(const FinetuneSettings& s, const ModelConfig& model, const World& world, Retain retain) {
  const bool full = s.method == finetune::Method::full;
  return {.model = s.model.filename().string(),
          .shape = model.shape,
          .lora = full ? training::no_adapters : s.lora,
          .trains = full ? training::Trains::all : training::Trains::adapters,
          .batch = s.batch,
          .seq = s.seq,
          .accumulation = s.accumulation,
          .dtype = s.precision == finetune::Precision::f32 ? DType::f32 : DType::bf16,
          .retain = retain,
          .ranks = world.size(),
          .rank = world.rank()};
}

std::string memory_text(const FinetuneSpec& spec) {
  const auto plan = training::planned(spec);
  std::string text;
  for (const auto& [use, bytes] : plan.by_use) {
    text += fmt::format("{:<12} {:9.3f} GB\n", name(use), static_cast<double>(bytes) / 1e9);
  }
  return text + fmt::format("{:<12} {:9.3f} GB on each rank (retain:{})\n", "all",
                            static_cast<double>(plan.bytes) / 1e9, name(spec.retain));
}

/// Prints the progress on rank 0: one line that changes on a terminal, else one line for each step.
class ProgressLine {
 public:
  explicit ProgressLine(bool shown) : shown_(shown), screen_(is_screen(STDERR_FILENO)) {}
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() {
    if (shown_ && screen_) std::fputc('\n', stderr);
  }

  void show(const StepFigures& f) const {
    if (!shown_) return;
    const auto minutes = static_cast<long>(f.seconds_left / 60), seconds = std::lround(f.seconds_left) % 60;
    std::string line =
        fmt::format("[{}/{}] loss {:.4f}, lr {:.3g}, norm {:.3g}, {:.0f} tokens/s, {:.1f} GB, {}:{:02} left", f.step,
                    f.steps, f.loss, f.lr, f.gradient_norm, f.tokens_per_s, f.memory_gb, minutes, seconds);
    if (f.eval_loss) line += fmt::format(", evaluation {:.4f}", *f.eval_loss);
    std::fprintf(stderr, screen_ ? "\r%s\x1b[K" : "%s\n", line.c_str());
    std::fflush(stderr);
  }

 private:
  bool shown_, screen_;
};

class FinetuneJob {
 public:
  explicit FinetuneJob(const Job& job) : job_(job), flags_(*job.options.finetune) {}

  int run() {
    job_.watchdog.enter(Phase::prepare, "fine-tuning", job_.options.timeout);
    const bool writes = !flags_.evaluate && !job_.options.plan;
    agreed(usage, [&] {
      settings_ = finetune::settings_of(flags_, job_.backend == Backend::host, writes);
      model_ = finetune::model_of(settings_);
      training::planned(spec(Retain::all));  // refuses a shape that cannot be trained
    });
    if (job_.options.plan) return print(memory_text(spec(Retain::all)) + memory_text(spec(Retain::inputs)));
    if (flags_.prepare) return prepare_data();
    std::optional<finetune::ModelWeights> weights;
    agreed(usage, [&] {
      data_ = finetune::read_data(settings_, *model_, flags_.evaluate);
      std::optional<finetune::StoredAdapters> adapters;
      if (!flags_.from.empty()) adapters = finetune::read_adapters(flags_.from);
      if (adapters) settings_.lora = adapters->lora;
      weights.emplace(settings_.model, model_->shape, settings_.lora, settings_.seed, std::move(adapters));
    });
    auto& device = job_.open_device();
    device.while_working([this] { job_.watchdog.renew(); });
    const auto work = prepare_work(device);
    auto* const trainer = dynamic_cast<training::Trainer*>(work.get());
    if (trainer == nullptr) {
      throw AgreedEnd{usage, "--backend: a fine-tuning needs host or cuda, and no injected fault; choose one of them"};
    }
    job_.watchdog.enter(Phase::connect, "fine-tuning", job_.options.timeout);
    work->connect(job_.world.operations());
    agreed(could_not_run, [&] { trainer->set_weights(renewing(weights->values())); });
    return train(*trainer);
  }

 private:
  FinetuneSpec spec(Retain retain) const { return spec_of(settings_, *model_, job_.world, retain); }

  /// Ends the program on all ranks if the step throws an InputError on one.
  template <class Step>
  void agreed(int code, const Step& step) const {
    agree(job_.world, code, input_error_of(step), job_.world.size() > 1);
  }

  int print(const std::string& text) const {
    if (job_.world.rank() == 0) job_.out << text;
    return complete;
  }

  int prepare_data() const {
    std::string text;
    agreed(usage, [&] {
      if (job_.world.rank() == 0) text = finetune::prepare(settings_, *model_);
    });
    return print(text);
  }

  /// Loading a model takes long on a slow disk, but each tensor must arrive in time.
  training::TensorValues renewing(training::TensorValues values) const {
    return [this, values = std::move(values)](const auto& tensor, std::size_t first, std::span<float> out) {
      values(tensor, first, out);
      job_.watchdog.renew();
    };
  }

  /// Keeps as many activations as fit in memory on all ranks.
  std::unique_ptr<Work> prepare_work(Device& device) const {
    std::string why;
    for (const auto retain : {Retain::all, Retain::rebuild, Retain::inputs}) {
      std::unique_ptr<Work> work;
      why.clear();
      try {
        work = device.prepare(spec(retain));
      } catch (const Unsupported& error) {
        why = error.what();
      }
      const auto said = first_remark(job_.world, why);
      if (!said) return work;
      why = job_.world.name_of(said->rank) + ": " + said->text;
    }
    throw AgreedEnd{could_not_run,
                    why + fmt::format("; if memory is short, set batch (now {}) or seq (now {}) lower and accumulation "
                                      "higher, or method: lora",
                                      settings_.batch, settings_.seq)};
  }

  int train(training::Trainer& trainer) {
    auto& group = job_.world.operations();
    FineTuning run(settings_, *data_, trainer, group);
    run.while_working([this] { job_.watchdog.renew(); });
    job_.watchdog.enter(Phase::sample, "fine-tuning", job_.options.timeout);
    try {
      if (flags_.evaluate) {
        const double loss = run.evaluate();
        return print(fmt::format("evaluation: loss {:.6f}, perplexity {:.4f}, {}\n", loss, std::exp(loss),
                                 plural(data_->eval.size(), "example")));
      }
      flags_.resume ? run.resume() : run.require_no_checkpoint();
      StepFigures last;
      {
        const ProgressLine progress(job_.world.rank() == 0);
        run.run([&](const StepFigures& figures) {
          progress.show(figures);
          last = figures;
          job_.watchdog.renew();
        });
      }
      save(trainer);
      return print(summary(last));
    } catch (const finetune::Diverged& error) {
      throw AgreedEnd{error_rows, error.what()};
    } catch (const InputError& error) {  // the same on all ranks
      throw AgreedEnd{could_not_run, error.what()};
    }
  }

  void save(training::Trainer& trainer) const {
    job_.watchdog.enter(Phase::report, "fine-tuning", job_.options.timeout);
    together(job_.world.operations(), [&] {
      if (job_.world.rank() != 0) return;
      const bool adapters = settings_.method == finetune::Method::lora;
      if (adapters) finetune::save_adapters(settings_.out / "adapter", trainer, settings_.lora, settings_.model);
      if (!adapters || flags_.merge) {
        finetune::save_model(settings_.out / "model", trainer, model_->shape, settings_.lora, settings_.model);
      }
    });
  }

  std::string summary(const StepFigures& f) const {
    auto text = fmt::format("{} of {}: loss {:.6f}", plural(f.step, "step"), f.steps, f.loss);
    if (f.eval_loss) text += fmt::format(", evaluation {:.6f}", *f.eval_loss);
    return text +
           fmt::format("\n{}\n",
                       (settings_.out / (settings_.method == finetune::Method::lora ? "adapter" : "model")).string());
  }

  const Job& job_;
  const FinetuneFlags& flags_;
  FinetuneSettings settings_;
  std::optional<ModelConfig> model_;
  std::optional<finetune::TrainingData> data_;
};

}  // namespace

int run_finetune(const Job& job) { return FinetuneJob(job).run(); }

}  // namespace shakedown
