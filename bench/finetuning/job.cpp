// Runs a fine-tuning on all ranks: settings, model, device, steps, results.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
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

constexpr double slow_disk = 20e6, slow_tokenizer = 0.2e6;  // bytes/s; slower ones count as hung

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
    enter(Phase::prepare, finetune::bytes_of_data(settings_), slow_tokenizer);
    if (flags_.prepare) return prepare_data();
    std::optional<finetune::ModelWeights> weights;
    agreed(usage, [&] {
      data_ = finetune::read_data(settings_, *model_, flags_.evaluate);
      std::optional<finetune::StoredAdapters> adapters;
      if (!flags_.from.empty()) adapters = finetune::read_adapters(flags_.from);
      if (adapters) settings_.lora = adapters->lora;
      weights.emplace(settings_.model, model_->shape, settings_.lora, settings_.seed, std::move(adapters));
    });
    if (data_->cut > 0 && job_.world.rank() == 0) {
      std::fprintf(stderr, "%s longer than %zu tokens: cut to that length\n", plural(data_->cut, "example").c_str(),
                   settings_.seq);
    }
    enter(Phase::prepare);
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
    std::string unwritten;
    const auto wrong = input_error_of([&] {
      try {
        step();
      } catch (const CannotWrite& error) {
        unwritten = error.what();
      }
    });
    agree(job_.world, could_not_run, unwritten, job_.world.size() > 1);
    agree(job_.world, code, wrong, job_.world.size() > 1);
  }

  /// Enters a phase in which ranks may wait until another has read or written `bytes` at `rate` in bytes/s.
  void enter(Phase phase, std::uintmax_t bytes = 0, double rate = slow_disk) const {
    job_.watchdog.enter(phase, "fine-tuning", job_.options.timeout + static_cast<double>(bytes) / rate);
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
      if (said->text.find("GB free") == std::string::npos) throw AgreedEnd{could_not_run, why};  // not for memory
    }
    throw AgreedEnd{could_not_run, why + fmt::format("; set batch (now {}) or seq (now {}) lower and accumulation "
                                                     "higher, or method: lora",
                                                     settings_.batch, settings_.seq)};
  }

  int train(training::Trainer& trainer) {
    auto& group = job_.world.operations();
    FineTuning run(settings_, *data_, trainer, group);
    run.while_working([this] { job_.watchdog.renew(); });
    run.before_checkpoint([&] { enter(Phase::sample, trainer.used_bytes()); });
    enter(Phase::sample, flags_.resume ? trainer.used_bytes() : 0);
    int code = usage;  // of wrong input, until the run writes files
    try {
      if (flags_.evaluate) {
        const double loss = run.evaluate();
        return print(fmt::format("evaluation: loss {:.6f}, perplexity {:.4f}, {}\n", loss, std::exp(loss),
                                 plural(data_->eval.size(), "example")));
      }
      flags_.resume ? run.resume() : run.require_no_checkpoint();
      code = could_not_run;
      enter(Phase::sample);
      std::optional<StepFigures> last;
      {
        const ProgressLine progress(job_.world.rank() == 0);
        run.run([&](const StepFigures& figures) {
          progress.show(figures);
          last = figures;
          enter(Phase::sample);  // after a checkpoint, the limit is that of a step again
        });
      }
      save(trainer);
      return print(last ? summary(*last)
                        : fmt::format("complete: {}\n{}\n", plural(run.steps(), "step"), result().string()));
    } catch (const finetune::Diverged& error) {
      throw AgreedEnd{error_rows, error.what()};
    } catch (const InputError& error) {  // the same on all ranks
      throw AgreedEnd{code, error.what()};
    }
  }

  void save(training::Trainer& trainer) const {
    const bool adapters = settings_.method == finetune::Method::lora;
    const bool writes_model = !adapters || flags_.merge;
    std::uintmax_t bytes = 0;
    together(job_.world.operations(), [&] {
      if (writes_model) bytes = finetune::bytes_of_weights(settings_.model);
    });
    enter(Phase::report, bytes);
    together(job_.world.operations(), [&] {
      if (job_.world.rank() != 0) return;
      if (adapters) finetune::save_adapters(settings_.out / "adapter", trainer, settings_.lora, settings_.model);
      if (!writes_model) return;
      finetune::save_model(settings_.out / "model", trainer, model_->shape, settings_.lora, settings_.model,
                           [this] { job_.watchdog.renew(); });
    });
  }

  std::string summary(const StepFigures& f) const {
    auto text = fmt::format("{} of {}: loss {:.6f}", plural(f.step, "step"), f.steps, f.loss);
    if (f.eval_loss) text += fmt::format(", evaluation {:.6f}", *f.eval_loss);
    return text + fmt::format("\n{}\n", result().string());
  }

  std::filesystem::path result() const {
    return settings_.out / (settings_.method == finetune::Method::lora ? "adapter" : "model");
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
