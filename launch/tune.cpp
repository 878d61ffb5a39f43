#include "launch/tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/environment.hpp"
#include "base/files.hpp"
#include "base/flags.hpp"
#include "base/parse_number.hpp"
#include "base/text.hpp"
#include "base/time_limits.hpp"
#include "launch/agreement.hpp"
#include "launch/choice.hpp"
#include "launch/options.hpp"
#include "launch/rank_output.hpp"
#include "launch/rank_program.hpp"
#include "launch/run_folder.hpp"
#include "launch/session_folder.hpp"
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
  AcceptOptions ranks;            // how the ranks are started, and where the results are written
  Sizes sizes;                    // empty: those of the backend
  std::vector<Words> candidates;  // the variables of each setting; empty: those of the table
  double time_s = 600;
  double min_effect = default_min_effect;
};

TuneOptions parse_tune_options(const Words& words) {
  const auto given = parse_flags(all_flags(), "tune", words);
  TuneOptions options;
  const Words own{"--sizes", "--candidates", "--time", "--min-effect"};
  Words of_ranks;
  std::ranges::copy_if(words, std::back_inserter(of_ranks), [&](const std::string& word) {
    return std::ranges::find(own, word.substr(0, word.find('='))) == own.end();
  });
  options.ranks = parse_accept_options(of_ranks, process_environment(), "measure");
  options.ranks.families = {"allreduce"};
  options.ranks.tier = Tier::quick;
  Words sizes, candidates;
  given("--sizes", sizes)("--candidates", candidates)("--time", options.time_s)("--min-effect", options.min_effect);
  for (const auto& size : sizes) options.sizes.push_back(bytes_in(size).value_or(0));
  for (const auto& candidate : candidates) options.candidates.push_back(split(candidate + "+", '+'));
  return options;
}

/// Removes the priced variables from the environment, so that launches begin with the defaults, and returns them as
/// settings: each alone, and all together if there are several.
std::vector<MeasuredSetting> take_settings_in_use() {
  std::vector<MeasuredSetting> settings;
  Words all;
  for (const auto variable : priced_nccl_variables) {
    const std::string name(variable);
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr) {
      if (nccl_environment(process_environment())(name)) {
        say("nccl.conf sets " + name + ", which therefore applies to all launches; remove it there to price it");
      }
      continue;
    }
    all.push_back(name + "=" + one_line(value));
    settings.push_back({{all.back()}, true, {}, {}});
    unsetenv(name.c_str());
  }
  if (all.size() > 1) settings.push_back({all, true, {}, {}});
  return settings;
}

std::vector<Words> candidates_for(const Context& context) {
  std::vector<Words> candidates;
  if (context.backend != Backend::cuda) return candidates;
  for (const auto& candidate : nccl_candidates) {
    if (!candidate.is_for_several_hosts || context.hosts > 1) {
      candidates.push_back({std::string(candidate.variable)});
    }
  }
  return candidates;
}

/// The values of a launch in GB/s by size, or why there is none.
struct LaunchFigures {
  std::map<std::uint64_t, double> busbw;
  std::string missing;
  std::optional<Context> context;
  double seconds = 0;
};

/// Reads the figures of the first repetition: a retest would favour settings with low values.
void read_figures(const Results& results, const Sizes& sizes, LaunchFigures& figures) {
  figures.context = results.context;
  for (const Row& row : results.rows) {
    const auto bytes = row.key.number("bytes");
    if (!bytes || row.repetition != 0) continue;
    const auto why = row.error ? row.error : row.waived;
    if (why && figures.missing.empty()) figures.missing = bytes_text(static_cast<std::uint64_t>(*bytes)) + ": " + *why;
    const auto busbw = row.metrics.find("busbw_gb_per_s");
    if (!why && busbw != row.metrics.end()) figures.busbw[static_cast<std::uint64_t>(*bytes)] = busbw->second;
  }
  for (const auto bytes : sizes) {
    if (figures.missing.empty() && !figures.busbw.contains(bytes)) figures.missing = bytes_text(bytes) + ": no value";
  }
}

/// Starts the ranks with a setting.
class Launches {
 public:
  Launches(const AcceptOptions& options, const RunFolder& run, Signals& signals)
      : options_(options),
        programs_(find_programs({"allreduce"})),
        run_(run),
        signals_(signals),
        launch_(agreed_launch(options, process_environment(), signals)) {
    if (!launch_.absent.empty()) {
      throw CannotRun("tune needs all hosts, but " + joined(launch_.absent) + " did not answer: leave them out");
    }
  }

  /// Runs one launch. Its time limit is a multiple of the time of a launch with the defaults, once that is known.
  LaunchFigures measure(const Words& variables, const Sizes& sizes) {
    auto options = options_;
    for (const auto& variable : variables) {
      const auto end = variable.find('=');
      options.variables.emplace_back(variable.substr(0, end), variable.substr(end + 1));
    }
    const auto began = Clock::now();
    LaunchFigures figures;
    try {
      run_program(options, sizes, figures);
    } catch (const CannotRun& error) {
      stop_if_told(signals_);
      figures.missing = error.what();
    }
    figures.seconds = std::chrono::duration<double>(Clock::now() - began).count();
    return figures;
  }

  void set_usual_seconds(double seconds) { usual_s_ = seconds; }

 private:
  Seconds limit() const {
    constexpr double min_limit_s = 15, times_usual = 5;  // a setting that is slower by more is of no use
    return Seconds(usual_s_ ? std::max(min_limit_s, times_usual * *usual_s_)
                            : options_.startup_timeout + options_.timeout);
  }

  void run_program(const AcceptOptions& options, const Sizes& sizes, LaunchFigures& figures) {
    Words numbers;
    for (const auto bytes : sizes) numbers.push_back(std::to_string(bytes));
    Screen screen({"allreduce"});
    RankProgram program(options, launch_, programs_, run_.path(), run_.id(), "allreduce",
                        {"--benchmark_format=json", "--sizes=" + joined(numbers, ",")}, screen);
    std::string printed;
    program.job.out = [&](std::string_view line) { printed.append(line).append("\n"); };
    program.job.limit = limit();
    const auto ending = program.run(signals_);
    const auto document = document_in(printed);
    if (!succeeded(ending) || document.empty()) {
      figures.missing = program.death(ending);
      return;
    }
    const auto file = run_.path() / fmt::format("launch{:03}.json", ++launches_);
    replace_file(file, document);
    read_figures(read_results(file), sizes, figures);
  }

  const AcceptOptions& options_;
  const Programs programs_;
  const RunFolder& run_;
  Signals& signals_;
  const Launch launch_;
  std::optional<double> usual_s_;
  int launches_ = 0;
};

/// Measures rounds until there are enough of them or the time is over.
class Tuner {
 public:
  Tuner(const TuneOptions& options, Launches& launches, std::vector<MeasuredSetting> settings, Sizes sizes)
      : options_(options), launches_(launches), settings_(std::move(settings)), sizes_(std::move(sizes)) {}

  Tuning run() {
    const int needed = rounds_needed(settings_.size(), sizes_.size());
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
      if (!setting.missing.empty()) continue;
      if (spent() > options_.time_s) return false;
      const auto figures = launches_.measure(setting.variables, sizes_);
      setting.missing = figures.missing;
      if (which == 0 && !figures.missing.empty()) {
        throw CannotRun("the defaults cannot be measured: " + figures.missing);
      }
      if (!figures.missing.empty()) {
        say(setting.text() + " is not available: " + printable(figures.missing));
        continue;
      }
      for (const auto& [bytes, busbw] : figures.busbw) setting.busbw[bytes].push_back(busbw);
      if (which == 0) launches_.set_usual_seconds(figures.seconds);
    }
    return true;
  }

  const TuneOptions& options_;
  Launches& launches_;
  MeasuredSetting defaults_;
  std::vector<MeasuredSetting> settings_;
  const Sizes sizes_;
  const Clock::time_point began_ = Clock::now();
};

/// Measures once with the defaults, which also warms up the machine, and returns the facts of the machine.
Context first_contact(Launches& launches) {
  const auto figures = launches.measure({}, {64 * kib});
  if (figures.context && figures.context->world_size < 2) {
    throw CannotRun("tune compares AllReduces, but there is one rank: start at least two (SHAKEDOWN_RANKS=2)");
  }
  if (!figures.missing.empty() || !figures.context) {
    throw CannotRun("the defaults cannot be measured: " + figures.missing);
  }
  return *figures.context;
}

std::vector<MeasuredSetting> settings_to_compare(const TuneOptions& options, const Context& context,
                                                 std::vector<MeasuredSetting> settings) {
  for (const Words& candidate : options.candidates.empty() ? candidates_for(context) : options.candidates) {
    const bool known = std::ranges::any_of(settings, [&](const auto& other) { return other.variables == candidate; });
    if (!known) settings.push_back({candidate, false, {}, {}});
  }
  if (settings.empty()) {
    throw InputError(
        "--candidates: the host backend has no settings of its own; name variables, such as "
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
  const auto in_use = take_settings_in_use();
  Signals signals;
  const auto results = options.ranks.results ? *options.ranks.results : usual_results();
  auto run = options.ranks.folder ? RunFolder::take(*options.ranks.folder, options.ranks.run_id)
                                  : RunFolder::create(results / "tune", options.ranks.run_id, options.ranks.keep);
  say("results: " + run.shown_path().string());
  Launches launches(options.ranks, run, signals);
  const Context context = first_contact(launches);
  const bool has_gpus = context.backend == Backend::cuda;
  const Sizes usual = has_gpus ? Sizes{64 * kib, mib, 32 * mib, 512 * mib} : Sizes{64 * kib, mib, 16 * mib};
  const Tuning tuning = Tuner(options, launches, settings_to_compare(options, context, in_use),
                              options.sizes.empty() ? usual : options.sizes)
                            .run();
  replace_file(run.path() / "nccl.conf", nccl_conf(tuning));
  replace_file(run.path() / "tune.json", tuning_json(tuning));
  run.finish();
  std::fputs(tuning_text(tuning).c_str(), stdout);
  return tuning.exit_code();
}

}  // namespace shakedown
