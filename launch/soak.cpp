#include "launch/soak.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "base/files.hpp"
#include "base/held_folder.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"
#include "base/utc.hpp"
#include "report/judge_apart.hpp"
#include "report/soak.hpp"
#include "report/verdict_json.hpp"
#include "thresholds/judge/headline.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

// Keeps only the last runs completely, and the same number of failed ones, because all runs of a week would fill a
// disk.
constexpr int max_last_runs = 3;
constexpr std::size_t max_kept_runs = 20;

// Returns seconds of a steady clock, because the time of day may be changed during a soak.
double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double start_of(const SoakPlan& plan) {
  const auto seconds = seconds_of(plan.started);
  if (!seconds) throw InputError(plan.started + ": is not the start of a soak");
  return *seconds;
}

/// Appends lines and returns when they are on the disk. First removes a last line that is incomplete because the
/// program was killed.
void add_line(const fs::path& file, const std::string& line) {
  const TimedCall call("write", file);
  try {
    const std::string text = path_exists(file) ? read_file(file) : "";
    const auto whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
    if (whole < text.size()) replace_file(file, text.substr(0, whole));
    RunFile(file, RunFile::Mode::append).write_durably(line);
  } catch (const CannotWrite& error) {
    throw CannotRun(std::string(error.what()) + "; free space, and continue with --resume");
  }
}

/// Returns the order of the families and the pause before a round. Order and pause depend only on the seed and the
/// number of the round, so that a resumed soak continues in the same way. Pre-flight is always first because it decides
/// whether the other families run.
struct RoundPlan {
  std::vector<std::string> order;
  double rest_s;
};

RoundPlan plan_of(const SoakPlan& plan, int number) {
  auto families = plan.families;
  // Load without a pause heats the GPU, and a start from idle stresses the power supply. Random pauses make both occur.
  constexpr double rests[] = {0, 0, 10, 60};
  constexpr double max_rest_share = 0.05;
  std::mt19937_64 random(plan.seed + static_cast<std::uint64_t>(number) * 0x9e3779b97f4a7c15ULL);
  const auto first = std::partition(families.begin(), families.end(), [](const auto& f) { return f == "preflight"; });
  // Fisher-Yates shuffle; std::shuffle gives different orders in different libraries.
  for (auto last = families.end(); last - first > 1; --last) {
    std::iter_swap(last - 1, first + static_cast<std::ptrdiff_t>(random() % static_cast<std::uint64_t>(last - first)));
  }
  const double rest = std::min(rests[random() % std::size(rests)], max_rest_share * plan.duration_s);
  return {std::move(families), number == 1 ? 0 : rest};
}

/// Thrown if a signal ends the soak.
struct Ended : CannotRun {
  using CannotRun::CannotRun;
};

void rest(double seconds, Signals& signals) {
  pollfd told{signals.descriptor(), POLLIN, 0};
  if (seconds > 0) poll(&told, 1, static_cast<int>(seconds * 1e3));
  if (const auto& signal = signals.taken()) throw Ended("ended by " + *signal + "; --resume continues it");
}

/// Moves the first round and the first failed round to the folder from which no runs are removed.
void keep(const fs::path& folder, const fs::path& round, bool shows_something) {
  const auto held = HeldFolder::create(HeldFolder::open(folder), "kept");
  const auto& kept = held.path();
  if (shows_something && names_in(kept).value_or(std::vector<std::string>{}).size() < max_kept_runs) {
    const auto copy = kept / shown(round).filename();
    {
      const TimedCall call("create", copy);
      fs::create_directory(copy);
    }
    for (const auto& file : names_in(round).value_or(std::vector<std::string>{})) {
      const TimedCall call("copy", copy / file);
      fs::copy(round / file, copy / file, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    }
  }
}

/// Returns the folder of the soak to resume. Errors: InputError if there is none.
fs::path resumed_folder(const AcceptOptions& options) {
  const auto results = options.results ? *options.results : usual_results();
  const TimedCall call("stat", results);
  const auto folder = options.folder ? *options.folder : fs::weakly_canonical(results / "latest");
  if (!is_watch(folder)) {
    throw InputError("--resume: " + folder.string() + " is not a soak; name its folder with --folder=DIR");
  }
  return folder;
}

RunFolder folder_of_watch(const AcceptOptions& options) {
  const auto results = options.results ? *options.results : usual_results();
  if (!options.resume) {
    return options.folder ? RunFolder::take(*options.folder, options.run_id)
                          : RunFolder::create(results, options.run_id, options.keep);
  }
  const auto folder = resumed_folder(options);
  return RunFolder::resume(folder, read_soak(folder).plan.run_id);
}

/// Returns the run id of this round, which is also the name of its folder in rounds/ and in kept/.
std::string id_of_round(const std::string& soak_id, int number) {
  std::string digits = std::to_string(number);
  digits.insert(0, digits.size() < 6 ? 6 - digits.size() : 0, '0');
  return soak_id + "-" + digits;
}

class SoakRun {
 public:
  SoakRun(const AcceptOptions& options, const Programs& programs, const RunFolder& run, Signals& signals)
      : options_(options), programs_(programs), run_(run), signals_(signals), file_(run.path() / soak_file) {
    if (options.resume) {
      soak_ = read_soak(run.path());
    } else {
      soak_.plan = {
          run.id(),          utc_now(),    *options.soak_s, options.seed.value_or(std::random_device{}() & 0xffffffffU),
          programs.families, options.tier, options.flags};
      add_line(file_, soak_line(soak_.plan));
    }
    began_ = seconds_since_1970();
  }

  void run() {
    double resumed = began_;
    while (!soak_.complete() && !(options_.stop_on_fail && failed())) {
      const int number = soak_.rounds.empty() ? 1 : soak_.rounds.back().number + 1;
      const auto plan = plan_of(soak_.plan, number);
      SoakRound round;
      round.number = number;
      round.order = plan.order;
      if (std::exchange(resumed, 0) > 0 && options_.resume) {
        const double end = soak_.rounds.empty() ? 0 : soak_.rounds.back().begin_s + soak_.rounds.back().length_s;
        round.unwatched_s = std::max(0.0, began_ - start_of(soak_.plan) - end);
      } else {
        round.rest_s = plan.rest_s;
        rest(plan.rest_s, signals_);
      }
      measure(round, plan);
    }
  }

  const Soak& soak() const { return soak_; }

 private:
  bool failed() const { return !soak_.rounds.empty() && judge_soak(soak_).verdict.state == State::fail; }

  void measure(SoakRound& round, const RoundPlan& plan) {
    const double began = steady_seconds();
    round.started = utc_now();
    round.begin_s = std::max(0.0, seconds_since_1970() - start_of(soak_.plan));
    try {
      run_one(round, plan);
    } catch (const std::exception& error) {
      // After a dead rank, a failed start or a full disk, the next round may still succeed.
      stop_if_ended();
      const bool died = dynamic_cast<const NothingMeasured*>(&error) != nullptr;
      round.state = State::incomplete;
      round.findings = {{round_key, "", died ? Status::missing : Status::inconclusive, false, {}, error.what()}};
      round.finding_count = 1;
      say(error.what());
      constexpr double max_rest_s = 10, max_rest_share = 0.05;
      rest(std::min(max_rest_s, max_rest_share * soak_.plan.duration_s), signals_);
    }
    round.length_s = steady_seconds() - began;
    unwritten_ += soak_line(round);
    write_rounds();
    say("round " + std::to_string(round.number) + ", " + soak_.when(round) + ": " +
        std::string(shakedown::name(round.state)) +
        (round.finding_count > 0 ? ", " + plural(round.finding_count, "finding") : ""));
    soak_.rounds.push_back(std::move(round));
  }

  void run_one(SoakRound& round, const RoundPlan& plan) {
    Programs programs = programs_;
    programs.families = plan.order;
    AcceptOptions options = options_;
    options.tier = soak_.plan.tier;
    if (soak_.plan.families.size() < find_programs({}).families.size()) options.families = soak_.plan.families;
    // From the second round on, continues although pre-flight fails again, because its effect on the other families is
    // informative.
    options.despite_preflight = options.despite_preflight || round.number > 1;
    const auto rounds = HeldFolder::create(HeldFolder::open(run_.path()), "rounds");
    auto own = RunFolder::create(rounds.path(), id_of_round(run_.id(), round.number), max_last_runs);
    auto launch = agreed_launch(options, process_environment(), signals_);
    round.boots = launch.boots;
    const auto judged = judge_run(options, launch, programs, own, signals_, judge_after_trial);
    stop_if_ended();
    if (judged.measured) summarize(*judged.measured, judged.verdict, round);
    if (!soak_.rounds.empty() && soak_.rounds.back().units == round.units) round.ranks.clear();
    keep(run_.path(), own.path(), round.number == 1 || judged.verdict.state == State::fail);
  }

  /// Ends the soak if a signal has arrived. An interrupted round does not count; --resume repeats it.
  void stop_if_ended() {
    if (const auto& signal = signals_.taken()) throw Ended("ended by " + *signal + "; --resume continues it");
  }

  /// Writes the lines of rounds. Lines that do not fit on a full disk are written later.
  void write_rounds() {
    try {
      add_line(file_, unwritten_);
      unwritten_.clear();
    } catch (const CannotRun& error) {
      say(error.what());
    }
  }

  const AcceptOptions& options_;
  const Programs& programs_;
  const RunFolder& run_;
  Signals& signals_;
  const fs::path file_;
  Soak soak_;
  std::string unwritten_;
  double began_ = 0;
};

/// Judges the last complete round with results. If there is none, returns a verdict that says that nothing was
/// measured.
Judged judged_last_round(const fs::path& folder, const Soak& soak, Arguments arguments) {
  for (auto round = soak.rounds.rbegin(); round != soak.rounds.rend(); ++round) {
    if (round->state == State::incomplete) continue;
    arguments.judge.run_id = id_of_round(soak.plan.run_id, round->number);
    for (const char* const part : {"rounds", "kept"}) {
      arguments.results = {folder / part / *arguments.judge.run_id};
      std::error_code error;  // errors are reported when the folder is read
      if (fs::is_directory(arguments.results.front(), error)) return judge_after_trial(arguments);
    }
  }
  say(shown(folder / "rounds").string() + ": no complete round is left, so the export has no figures");
  return {};
}

int show(const fs::path& folder, const Soak& soak, const SoakJudgement& judged, const Arguments& arguments,
         const ReasonChannel& channel) {
  const auto last_round = [&] { return judged_last_round(folder, soak, arguments); };
  const int code = write_all_outputs(arguments.outputs, {nullptr, {}, judged.verdict, &soak, &judged, last_round},
                                     "shakedown", exit_code(judged.verdict, arguments));
  std::fputs(soak_text(soak, judged, style_of(arguments)).c_str(), stdout);
  channel.give(text(headline_of(judged.verdict)));
  return code;
}

}  // namespace

bool is_watch(const fs::path& folder) {
  const TimedCall call("stat", folder);
  std::error_code error;  // errors are reported when the folder is read
  return fs::is_regular_file(folder / soak_file, error);
}

int soak(const AcceptOptions& options, const Programs& programs, const ReasonChannel& channel, Signals& signals) {
  auto run = folder_of_watch(options);
  say("results: " + run.shown_path().string());
  // All rounds use the same tuning choices, which are stored for this machine.
  setenv("SHAKEDOWN_CHOICES", choices_beside(run.path()).c_str(), 0);
  SoakRun soak_run(options, programs, run, signals);
  bool complete = true;
  try {
    soak_run.run();
  } catch (const Ended& ended) {  // after a signal, the rounds so far are judged anyway
    if (soak_run.soak().rounds.empty()) throw;
    say(ended.what());
    complete = false;
  }
  const auto judged = judge_soak(soak_run.soak());
  replace_file(run.path() / "verdict.json", verdict_json(judged.verdict));
  if (complete) run.finish();
  return show(run.path(), soak_run.soak(), judged, options.judge, channel);
}

std::vector<std::string> with_flags_of_watch(const AcceptOptions& options, const std::vector<std::string>& words) {
  const auto name = [](const std::string& word) { return word.substr(0, word.find('=')); };
  auto flags = read_soak(resumed_folder(options)).plan.flags;
  std::erase_if(flags, [&](const auto& old) {
    return std::any_of(words.begin(), words.end(), [&](const auto& word) { return name(word) == name(old); });
  });
  flags.insert(flags.end(), words.begin(), words.end());
  return flags;
}

int report_watch(const fs::path& folder, const Arguments& arguments, const ReasonChannel& channel) {
  const auto& judge = arguments.judge;
  const std::pair<const char*, bool> judged_already[] = {
      {"--families", !judge.families.all()},
      {"--expect", judge.expected.ranks || judge.expected.hosts || judge.expected.backend},
      {"--roster", !judge.roster.empty()},
      {"--run-id", judge.run_id.has_value()},
      {"--site", arguments.site.has_value()},
      {"--baseline", !arguments.baseline.empty()},
      {"--scaling", !arguments.scaling.empty()},
      {"--explain", arguments.explain.has_value()}};
  for (const auto& [flag, given] : judged_already) {
    if (!given) continue;
    throw InputError(std::string(flag) +
                     ": has no effect on a soak, whose rounds were already judged; judge one of its rounds: " +
                     (folder / "rounds").string() + " has the last");
  }
  const auto soak = read_soak(folder);
  return show(folder, soak, judge_soak(soak), arguments, channel);
}

}  // namespace shakedown
