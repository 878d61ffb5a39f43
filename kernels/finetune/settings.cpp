#include "kernels/finetune/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <limits>
#include <string>
#include <vector>

#include "base/nearest_word.hpp"
#include "base/text.hpp"
#include "thresholds/rules/strict_yaml.hpp"

namespace shakedown::finetune {

namespace {

/// The members of one section. Each is read by name; a name that is never asked for is unknown.
class Section {
 public:
  Section(const Yaml& yaml, std::vector<std::string> known) : members_(yaml.members()) {
    for (const auto& [name, value] : members_) {
      if (std::find(known.begin(), known.end(), name) == known.end())
        value.refuse(fmt::format("unknown key \"{}\"{}; known are {}", one_line(name), did_you_mean(name, known),
                                 joined(known)));
    }
  }

  const Yaml* find(const std::string& name) const {
    const auto found = members_.find(name);
    return found == members_.end() ? nullptr : &found->second;
  }

  void read(const char* name, std::filesystem::path& out) const {
    if (const auto* yaml = find(name)) out = yaml->text();
  }
  void read(const char* name, bool& out) const {
    if (const auto* yaml = find(name)) out = yaml->boolean();
  }
  template <Named Enum>
  void read(const char* name, Enum& out) const {
    if (const auto* yaml = find(name)) out = yaml->value_of<Enum>();
  }
  /// A number from `least` to `most`.
  void read(const char* name, double& out, double least, double most) const {
    if (const auto* yaml = find(name)) out = between(*yaml, name, yaml->number(), least, most);
  }
  template <std::integral Integer>
  void read(const char* name, Integer& out, int least) const {
    if (const auto* yaml = find(name))
      out = static_cast<Integer>(between(*yaml, name, yaml->integer(), least, std::numeric_limits<int>::max()));
  }

 private:
  template <class Number>
  static Number between(const Yaml& yaml, const char* name, Number value, Number least, Number most) {
    if (value < least || value > most)
      yaml.refuse(fmt::format("{} must be from {} to {}; correct it", name, least, most));
    return value;
  }

  Members members_;
};

constexpr std::array<std::string_view, training::modules> module_names{"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                                       "gate_proj", "up_proj", "down_proj"};
constexpr double largest = 1e9;

void read_model(const Yaml& yaml, FinetuneSettings& settings) {
  const Section section(yaml, {"folder", "precision"});
  section.read("folder", settings.model);
  section.read("precision", settings.precision);
}

void read_lora(const Yaml& yaml, FinetuneSettings& settings) {
  const Section section(yaml, {"rank", "alpha", "target_modules", "dropout"});
  section.read("rank", settings.lora.rank, 1);
  section.read("alpha", settings.lora.alpha, 0, largest);
  if (const auto* dropout = section.find("dropout"); dropout != nullptr && dropout->number() != 0)
    dropout->refuse("dropout does not exist here; write 0 or remove the key");
  if (const auto* modules = section.find("target_modules")) {
    settings.lora.adapted = {};
    for (const auto& item : modules->items()) {
      const auto word = item.choice({module_names.begin(), module_names.end()});
      const auto at = std::find(module_names.begin(), module_names.end(), word) - module_names.begin();
      settings.lora.adapted.at(static_cast<std::size_t>(at)) = true;
    }
    if (settings.lora.adapted == decltype(settings.lora.adapted){})
      modules->refuse("target_modules must name a module; add one or remove the key");
  }
}

void read_training(const Yaml& yaml, FinetuneSettings& settings) {
  const Section section(
      yaml, {"out", "method", "learning_rate", "schedule", "warmup_steps", "weight_decay", "beta1", "beta2", "epsilon",
             "clip_norm", "epochs", "steps", "batch", "accumulation", "seed", "log_steps", "eval_steps", "save_steps"});
  section.read("out", settings.out);
  section.read("method", settings.method);
  section.read("learning_rate", settings.lr, 0, 1);
  section.read("schedule", settings.schedule);
  section.read("warmup_steps", settings.warmup_steps, 0);
  section.read("weight_decay", settings.weight_decay, 0, 1);
  constexpr double below_1 = 0.999999;
  section.read("beta1", settings.beta1, 0, below_1);
  section.read("beta2", settings.beta2, 0, below_1);
  section.read("epsilon", settings.epsilon, 1e-15, 1);
  section.read("clip_norm", settings.clip_norm, 0, largest);
  constexpr double max_epochs = 10'000;
  section.read("epochs", settings.epochs, 1e-6, max_epochs);
  if (const auto* steps = section.find("steps")) {
    if (section.find("epochs") != nullptr) steps->refuse("steps and epochs contradict each other; remove one of them");
    section.read("steps", settings.steps.emplace(), 1);
  }
  section.read("batch", settings.batch, 1);
  section.read("accumulation", settings.accumulation, 1);
  section.read("seed", settings.seed, 0);
  section.read("log_steps", settings.log_steps, 1);
  section.read("eval_steps", settings.eval_steps, 0);
  section.read("save_steps", settings.save_steps, 0);
}

void read_data(const Yaml& yaml, FinetuneSettings& settings) {
  const Section section(yaml, {"file", "eval_file", "eval_share", "sequence_length", "pack", "shuffle"});
  section.read("file", settings.data);
  section.read("eval_file", settings.eval_data);
  constexpr double max_share = 0.9;
  section.read("eval_share", settings.eval_share, 0, max_share);
  section.read("sequence_length", settings.seq, 2);
  section.read("pack", settings.pack);
  section.read("shuffle", settings.shuffle);
  if (!settings.eval_data.empty() && settings.eval_share > 0)
    yaml.refuse("eval_file and eval_share contradict each other; remove one of them");
}

void read_distributed(const Yaml& yaml, FinetuneSettings& settings) {
  Section(yaml, {"shard"}).read("shard", settings.shard);
}

}  // namespace

FinetuneSettings read_settings(const std::filesystem::path& file) {
  FinetuneSettings settings;
  const auto yaml = Yaml::load(file);
  const Section sections(yaml, {"model", "lora", "training", "data", "distributed"});
  const auto each = [&](const char* name, const auto& read) {
    if (const auto* section = sections.find(name)) read(*section, settings);
  };
  each("model", read_model);
  each("lora", read_lora);
  each("training", read_training);
  each("data", read_data);
  each("distributed", read_distributed);
  if (settings.method == Method::full && sections.find("lora") != nullptr)
    sections.find("lora")->refuse("lora and the method full contradict each other; remove one of them");
  return settings;
}

}  // namespace shakedown::finetune
