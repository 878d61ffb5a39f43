#include "launch/tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/environment.hpp"
#include "base/files.hpp"
#include "base/flags.hpp"
#include "base/parse_number.hpp"
#include "base/text.hpp"
#include "launch/choice.hpp"
#include "launch/options.hpp"
#include "launch/run_folder.hpp"
#include "launch/session_folder.hpp"
#include "launch/tune_launches.hpp"
#include "launch/words.hpp"
#include "node/inventory.hpp"
#include "report/tuning.hpp"
#include "thresholds/catalogue/nccl_settings.hpp"
#include "thresholds/history/tuning.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Sizes = std::vector<std::uint64_t>;

constexpr std::uint64_t kib = std::uint64_t{1} << 10, mib = std::uint64_t{1} << 20;

struct TuneOptions {
  AcceptOptions ranks;                      // how the ranks are started, and where the results are written
  Sizes sizes;                              // empty: those of the backend
  std::vector<MeasuredSetting> candidates;  // empty: those of the table
  bool has_guides = false;                  // true: compare the settings that guides recommend
  bool has_step = false;                    // true: also measure the variables of a training step
  bool has_all_reduce = true;
  Words other_collectives;
  double time_s = 600;
  double min_effect = default_min_effect;
};

MeasuredSetting setting_of(Words variables, bool is_in_use = false, std::string source = {}) {
  return {std::move(variables), is_in_use, {}, {}, std::move(source)};
}

Words variables_of(std::string_view line) {
  std::istringstream in{std::string(line.substr(0, line.find('#')))};
  return {std::istream_iterator<std::string>(in), {}};
}

bool is_variable(const std::string& word) {
  const auto name = word.substr(0, word.find('='));
  return name.size() + 1 < word.size() && is_plain(name, "_") && std::isupper(static_cast<unsigned char>(name[0])) != 0;
}

/// Returns the settings of a file: one in each line, with blanks between its variables. A text after # is its
/// source.
std::vector<MeasuredSetting> settings_of_file(const fs::path& file) {
  constexpr std::size_t max_settings = 100;
  const auto refuse = [&](const std::string& why) { throw InputError("--settings: " + file.string() + ": " + why); };
  const auto lines = lines_of(file);
  if (!lines) refuse("cannot be read; give guides, or a file with NAME=VALUE in each line");
  std::vector<MeasuredSetting> settings;
  for (std::size_t i = 0; i < lines->size(); ++i) {
    const std::string& line = lines->at(i);
    auto variables = variables_of(line);
    const auto wrong = std::ranges::find_if_not(variables, is_variable);
    if (wrong != variables.end()) refuse(fmt::format("line {}: '{}' must be NAME=VALUE", i + 1, printable(*wrong)));
    const auto comment = line.find_first_not_of("# ", std::min(line.find('#'), line.size()));
    std::string source = comment == std::string::npos ? "" : printable(line.substr(comment));
    if (!variables.empty()) settings.push_back(setting_of(std::move(variables), false, std::move(source)));
  }
  if (settings.empty()) refuse("has no setting; write NAME=VALUE in each line");
  if (settings.size() > max_settings) refuse(fmt::format("has more than {} settings; divide it", max_settings));
  return settings;
}

bool is_of_step(const std::string& variable) {
  return std::ranges::find(step_variables, variable.substr(0, variable.find('='))) != step_variables.end();
}

/// True if the workload compares this setting.
bool applies(const Words& variables, const TuneWorkload& workload) {
  const bool is_step = workload.rows.front().is_step();
  return variables.empty() ||
         std::ranges::any_of(variables, [&](const auto& variable) { return is_of_step(variable) == is_step; });
}

TuneOptions parse_tune_options(const Words& words) {
  const auto given = parse_flags(all_flags(), "tune", words);
  TuneOptions options;
  const Words own{"--sizes", "--candidates", "--settings", "--step", "--op", "--time", "--min-effect"};
  Words of_ranks;
  std::ranges::copy_if(words, std::back_inserter(of_ranks), [&](const std::string& word) {
    return std::ranges::find(own, word.substr(0, word.find('='))) == own.end();
  });
  options.ranks = parse_accept_options(of_ranks, process_environment(), "measure");
  Words sizes, candidates, collectives{"all_reduce"};
  std::string settings;
  given("--sizes", sizes)("--candidates", candidates)("--time", options.time_s)("--min-effect", options.min_effect);
  given("--settings", settings)("--step", options.has_step)("--op", collectives);
  options.has_all_reduce = std::erase(collectives, "all_reduce") > 0;
  options.other_collectives = collectives;
  for (const auto& size : sizes) options.sizes.push_back(bytes_in(size).value_or(0));
  for (const auto& candidate : candidates) options.candidates.push_back(setting_of(split(candidate + "+", '+')));
  options.has_guides = settings == "guides";
  if (!settings.empty() && !options.has_guides) {
    std::ranges::move(settings_of_file(settings), std::back_inserter(options.candidates));
  }
  options.has_step |= options.has_guides || std::ranges::any_of(options.candidates, [](const auto& setting) {
                        return std::ranges::any_of(setting.variables, is_of_step);
                      });
  return options;
}

/// Removes the priced variables from the environment, so that launches begin with the defaults, and returns them as
/// settings: each alone, and all together if there are several.
std::vector<MeasuredSetting> take_settings_in_use(bool has_step) {
  std::vector<std::string_view> priced(priced_nccl_variables.begin(), priced_nccl_variables.end());
  if (has_step) priced.insert(priced.end(), step_variables.begin(), step_variables.end());
  std::vector<MeasuredSetting> settings;
  Words all;
  for (const auto variable : priced) {
    const std::string name(variable);
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr) {
      if (nccl_environment(process_environment())(name)) {
        say("nccl.conf sets " + name + ", which therefore applies to all launches; remove it there to price it");
      }
      continue;
    }
    all.push_back(name + "=" + one_line(value));
    settings.push_back(setting_of({all.back()}, true));
    unsetenv(name.c_str());
  }
  if (all.size() > 1) settings.push_back(setting_of(all, true));
  return settings;
}

/// Returns the settings of the tables that have an effect on these machines.
std::vector<MeasuredSetting> settings_of_tables(const TuneOptions& options, const Context& context) {
  std::vector<MeasuredSetting> settings;
  const auto add = [&](std::string_view variables, bool is_for_several_hosts, std::string_view source) {
    const bool has_effect = context.backend == Backend::cuda || variables.starts_with("OMP_");
    if (has_effect && (!is_for_several_hosts || context.hosts > 1)) {
      settings.push_back(setting_of(variables_of(variables), false, std::string(source)));
    }
  };
  if (options.has_guides) {
    for (const auto& setting : guide_settings) add(setting.variables, setting.is_for_several_hosts, setting.source);
    return settings;
  }
  for (const auto& candidate : nccl_candidates) add(candidate.variable, candidate.is_for_several_hosts, {});
  if (options.has_step) {
    for (const auto variable : step_candidates) add(variable, false, {});
  }
  return settings;
}

/// Measures rounds until there are enough of them or the time is over.
class Tuner {
 public:
  Tuner(const TuneOptions& options, TuneLaunches& launches, std::vector<MeasuredSetting> settings,
        std::vector<TuneWorkload> workloads)
      : options_(options), launches_(launches), settings_(std::move(settings)), workloads_(std::move(workloads)) {
    std::erase_if(workloads_, [&](const TuneWorkload& workload) {
      return std::ranges::none_of(settings_, [&](const auto& one) { return applies(one.variables, workload); });
    });
  }

  Tuning run() {
    std::size_t rows = 0;
    for (const auto& workload : workloads_) rows += workload.rows.size();
    const int needed = rounds_needed(settings_.size(), rows);
    int rounds = 0;
    while (rounds < needed && measure_round(rounds)) {
      ++rounds;
      say(fmt::format("round {} of {}: {:.0f} s so far", rounds, needed, spent()));
    }
    return judge_tuning(defaults_, settings_, rounds, options_.min_effect);
  }

 private:
  double spent() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

  /// Returns false if the time is over.
  bool measure_round(int round) {
    for (const auto which : launches_of_round(settings_.size(), round)) {
      MeasuredSetting& setting = which == 0 ? defaults_ : settings_[which - 1];
      for (const TuneWorkload& workload : workloads_) {
        if (!setting.missing.empty() || !applies(setting.variables, workload)) continue;
        if (spent() > options_.time_s) return false;
        measure(setting, workload);
      }
    }
    return true;
  }

  void measure(MeasuredSetting& setting, const TuneWorkload& workload) {
    const auto figures = launches_.measure(setting.variables, workload);
    setting.missing = figures.missing;
    const bool is_default = setting.variables.empty();
    if (is_default && !figures.missing.empty()) {
      throw CannotRun("the defaults cannot be measured: " + figures.missing);
    }
    if (!figures.missing.empty()) return say(setting.text() + " is not available: " + printable(figures.missing));
    for (const auto& [row, value] : figures.values) setting.values[row].push_back(value);
    if (is_default) launches_.set_usual_seconds(workload, figures.seconds);
  }

  const TuneOptions& options_;
  TuneLaunches& launches_;
  MeasuredSetting defaults_;
  std::vector<MeasuredSetting> settings_;
  std::vector<TuneWorkload> workloads_;
  const Clock::time_point began_ = Clock::now();
};

/// Measures once with the defaults, which also warms up the machine, and returns the facts of the machine.
Context first_contact(TuneLaunches& launches) {
  const auto figures = launches.measure({}, workload_of_sizes({64 * kib}));
  if (figures.context && figures.context->world_size < 2) {
    throw CannotRun("tune compares AllReduces, but there is one rank: start at least two (SHAKEDOWN_RANKS=2)");
  }
  if (!figures.missing.empty() || !figures.context) {
    throw CannotRun("the defaults cannot be measured: " + figures.missing);
  }
  return *figures.context;
}

std::vector<TuneWorkload> workloads_for(const TuneOptions& options, const Context& context, TuneLaunches& launches) {
  const bool has_gpus = context.backend == Backend::cuda;
  const Sizes usual = has_gpus ? Sizes{64 * kib, mib, 32 * mib, 512 * mib} : Sizes{64 * kib, mib, 16 * mib};
  const Sizes& sizes = options.sizes.empty() ? usual : options.sizes;
  std::vector<TuneWorkload> workloads;
  if (options.has_all_reduce) workloads.push_back(workload_of_sizes(sizes));
  if (!options.other_collectives.empty()) {
    workloads.push_back(workload_of_collectives(options.other_collectives, sizes));
  }
  if (options.has_step) {
    workloads.push_back(workload_of_step(context.backend));
    // The first step selects its products, and stores the choices for all later ones.
    const auto figures = launches.measure({}, workloads.back());
    if (!figures.missing.empty()) throw CannotRun("the step cannot be measured: " + figures.missing);
  }
  return workloads;
}

std::vector<MeasuredSetting> settings_to_compare(const TuneOptions& options, const Context& context,
                                                 std::vector<MeasuredSetting> settings) {
  auto candidates = options.candidates;
  if (candidates.empty() || options.has_guides) {
    std::ranges::move(settings_of_tables(options, context), std::back_inserter(candidates));
  }
  for (auto& candidate : candidates) {
    const auto is_same = [&](const auto& other) { return other.variables == candidate.variables; };
    if (std::ranges::none_of(settings, is_same)) settings.push_back(std::move(candidate));
  }
  if (settings.empty()) {
    throw InputError(
        "--candidates: the host backend has no settings of its own; give --step, or name variables, such as "
        "--candidates=OMPI_MCA_btl=self+OMPI_MCA_pml=ob1");
  }
  return settings;
}

}  // namespace

int tune(const std::vector<std::string>& words) {
  const auto session = provide_environment();
  auto options = parse_tune_options(words);
  if (rank_of(process_environment())) {
    throw CannotRun(
        "tune starts the ranks several times, but RANK and WORLD_SIZE start them once: unset these, and let mpirun or "
        "srun start the ranks");
  }
  const auto in_use = take_settings_in_use(options.has_step);
  Signals signals;
  const auto results = options.ranks.results ? *options.ranks.results : usual_results();
  auto run = options.ranks.folder ? RunFolder::take(*options.ranks.folder, options.ranks.run_id)
                                  : RunFolder::create(results / "tune", options.ranks.run_id, options.ranks.keep);
  say("results: " + run.shown_path().string());
  Words families{"allreduce"};
  if (!options.other_collectives.empty()) families.emplace_back("collectives");
  if (options.has_step) families.emplace_back("train_step");
  TuneLaunches launches(options.ranks, run, families, signals);
  const Context context = first_contact(launches);
  auto settings = settings_to_compare(options, context, in_use);
  auto workloads = workloads_for(options, context, launches);
  const Tuning tuning = Tuner(options, launches, std::move(settings), std::move(workloads)).run();
  replace_file(run.path() / "nccl.conf", nccl_conf(tuning));
  replace_file(run.path() / "tune.json", tuning_json(tuning));
  run.finish();
  std::fputs(tuning_text(tuning).c_str(), stdout);
  return tuning.exit_code();
}

}  // namespace shakedown
