#include "bench/finetuning/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/files.hpp"
#include "base/text.hpp"
#include "kernels/finetune/safetensors.hpp"

namespace shakedown::finetune {

namespace {

namespace fs = std::filesystem;

/// What a file of tokens depends on in addition to the texts.
std::string origin_of(const Tokenizer& tokenizer, ChatTemplate chat) {
  return "tokenizer " + tokenizer.digest() + ", template " + std::string(name(chat));
}

class Reader {
 public:
  Reader(const FinetuneSettings& settings, const ModelConfig& model)
      : tokenizer_(settings.model), chat_(chat_template_of(settings.model, tokenizer_)), vocab_(model.shape.vocab) {}

  std::vector<Example> read(const fs::path& file) const {
    // A pipe would wait for a writer, and each rank would read a part.
    if (path_exists(file) && !fs::is_regular_file(file))
      throw InputError(file.string() + ": is no regular file; name a file of examples");
    const bool prepared = is_prepared(file);
    auto examples = prepared ? read_prepared(file, origin()) : read_examples(file, tokenizer_, chat_);
    for (const auto& example : examples) {
      for (const auto token : example.tokens) {
        if (token >= 0 && static_cast<std::size_t>(token) < vocab_) continue;
        throw InputError(
            fmt::format("{}: token {} is not one of the {} tokens of the model: tokenizer.json and "
                        "config.json must be of the same model",
                        file.string(), token, vocab_));
      }
    }
    return examples;
  }
  std::string origin() const { return origin_of(tokenizer_, chat_); }
  std::int32_t padding() const { return tokenizer_.end_of_text(); }

 private:
  Tokenizer tokenizer_;
  ChatTemplate chat_;
  std::size_t vocab_;
};

}  // namespace

FinetuneSettings settings_of(const FinetuneFlags& flags, bool on_host, bool writes) {
  FinetuneSettings settings;
  if (!flags.config.empty()) {
    settings = read_settings(flags.config);
  } else if (on_host) {
    settings.precision = Precision::f32;
  }
  const auto replace = [](fs::path& setting, const std::string& flag) {
    if (!flag.empty()) setting = flag;
  };
  replace(settings.model, flags.weights);
  replace(settings.data, flags.data);
  replace(settings.out, flags.out);
  const auto require = [](const fs::path& setting, const char* flag, const char* what) {
    if (setting.empty()) throw InputError(fmt::format("{}: is missing; name {}", flag, what));
  };
  require(settings.model, "--weights", "a model folder of Hugging Face");
  require(settings.data, "--data", "a file of examples");
  if (writes) require(settings.out, "--out", "a folder for the results");
  const std::pair<const char*, bool> modes[] = {
      {"--resume", flags.resume}, {"--evaluate", flags.evaluate}, {"--prepare", flags.prepare}};
  if (std::count_if(std::begin(modes), std::end(modes), [](const auto& mode) { return mode.second; }) > 1) {
    throw InputError("--resume, --evaluate and --prepare: are different runs; give one of them");
  }
  if (settings.shard != training::Shard::none) {
    throw InputError("shard: each rank of a fine-tuning has the whole state; leave it out, or set it to none");
  }
  if (!flags.from.empty() && settings.method == Method::full) {
    throw InputError("--from: a training of all parameters has no adapters; leave it out, or set method: lora");
  }
  return settings;
}

ModelConfig model_of(const FinetuneSettings& settings) {
  const auto model = read_model_config(settings.model);
  if (settings.seq > model.max_positions) {
    throw InputError(
        fmt::format("{}: the model has {} positions, and sequences of {} tokens do not fit: set seq to {} "
                    "or less",
                    settings.model.string(), model.max_positions, settings.seq, model.max_positions));
  }
  return model;
}

namespace {

/// Refuses examples without a target, from which nothing can be learned. Returns how many are cut.
std::size_t cut_of(const std::vector<Example>& examples, const FinetuneSettings& settings, const fs::path& file) {
  const Packing packing(examples, {.seq = settings.seq, .shuffle = false, .pack = false}, 0);
  if (packing.targets() > 0) return packing.cut();
  throw InputError(fmt::format("{}: {} without a target in {}: add examples, or set sequence_length higher",
                               file.string(), plural(examples.size(), "example"), plural(settings.seq, "token")));
}

}  // namespace

TrainingData read_data(const FinetuneSettings& settings, const ModelConfig& model, bool evaluates) {
  const Reader reader(settings, model);
  TrainingData data;
  data.padding = reader.padding();
  if (evaluates) {
    const auto& file = settings.eval_data.empty() ? settings.data : settings.eval_data;
    data.eval = reader.read(file);
    data.cut = cut_of(data.eval, settings, file);
    return data;
  }
  data.train = reader.read(settings.data);
  if (!settings.eval_data.empty()) {
    data.eval = reader.read(settings.eval_data);
  } else if (settings.eval_share > 0) {
    const auto all = static_cast<double>(data.train.size());
    const auto kept = static_cast<std::ptrdiff_t>(std::floor(all * (1 - settings.eval_share)));
    data.eval.assign(std::make_move_iterator(data.train.begin() + kept), std::make_move_iterator(data.train.end()));
    data.train.resize(static_cast<std::size_t>(kept));
  }
  data.cut = cut_of(data.train, settings, settings.data);
  if (!data.eval.empty())
    data.cut += cut_of(data.eval, settings, settings.eval_data.empty() ? settings.data : settings.eval_data);
  return data;
}

std::uintmax_t bytes_of_data(const FinetuneSettings& settings) {
  std::uintmax_t bytes = 0;
  for (const auto& file : {settings.data, settings.eval_data}) {
    std::error_code error;
    const auto size = fs::file_size(file, error);
    if (!error) bytes += size;
  }
  return bytes;
}

std::uintmax_t bytes_of_weights(const fs::path& folder) {
  std::uintmax_t bytes = 0;
  for (const auto& file : SafetensorsFile(folder).files()) bytes += fs::file_size(file);
  return bytes;
}

std::string prepare(const FinetuneSettings& settings, const ModelConfig& model) {
  const Reader reader(settings, model);
  const auto examples = reader.read(settings.data);
  std::error_code error;
  fs::create_directories(settings.out, error);
  if (error) throw InputError(settings.out.string() + ": cannot be created (--out): " + error.message());
  const auto file = settings.out / settings.data.filename().replace_extension(".tokens");
  write_prepared(file, examples, reader.origin());
  std::size_t tokens = 0;
  for (const auto& example : examples) tokens += example.tokens.size();
  return fmt::format("prepared {} with {}\n", plural(examples.size(), "example"), plural(tokens, "token")) +
         fmt::format("train with --data={}\n", file.string());
}

}  // namespace shakedown::finetune
