#include "launch/watch.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>

#include "base/files.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"
#include "base/utc.hpp"
#include "report/judge_apart.hpp"
#include "report/verdict_json.hpp"
#include "report/watch.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

// Of runs the last few stay whole, and as many of those that show something: a week of them would fill a disk.
constexpr int last_runs = 3;
constexpr std::size_t kept_runs = 20;

// Of how long something takes: the time of day may be set.
double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double start_of(const WatchPlan& plan) {
  const auto seconds = seconds_of(plan.started);
  if (!seconds) throw InputError(plan.started + ": is no time of a watch");
  return *seconds;
}

/// Adds a line that is on the disk when this returns; a last line that a kill has cut off goes.
void add_line(const fs::path& file, const std::string& line) {
  const TimedCall call("write", file);
  std::string text = path_exists(file) ? read_file(file) : "";
  const auto whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  if (whole < text.size()) fs::resize_file(file, whole);
  std::FILE* const out = std::fopen(file.c_str(), "ae");
  const bool written =
      out != nullptr && std::fputs(line.c_str(), out) >= 0 && std::fflush(out) == 0 && fsync(fileno(out)) == 0;
  const std::string why = std::strerror(errno);
  if (out != nullptr) std::fclose(out);
  if (!written) throw CannotRun(file.string() + " cannot be written: " + why + "; free space, and go on with --resume");
}

/// The families of a round and the rest before it: from the seed and the number alone, so that a watch that goes on
/// after a reboot does what it would have done. Pre-flight comes first, since it decides.
struct RoundPlan {
  std::vector<std::string> order;
  double rest_s;
};

RoundPlan plan_of(const WatchPlan& plan, int number) {
  auto families = plan.families;
  // Load without a pause heats, and a start from rest loads the supply: both, at random.
  constexpr double rests[] = {0, 0, 10, 60};
  constexpr double most_of_the_time = 0.05;
  std::mt19937_64 random(plan.seed + static_cast<std::uint64_t>(number) * 0x9e3779b97f4a7c15ULL);
  const auto first = std::partition(families.begin(), families.end(), [](const auto& f) { return f == "preflight"; });
  for (auto last = families.end(); last - first > 1; --last) {  // Fisher and Yates; std::shuffle differs by library
    std::iter_swap(last - 1, first + static_cast<std::ptrdiff_t>(random() % static_cast<std::uint64_t>(last - first)));
  }
  const double rest = std::min(rests[random() % std::size(rests)], most_of_the_time * plan.duration_s);
  return {std::move(families), number == 1 ? 0 : rest};
}

/// A signal ends the watch.
struct Ended : CannotRun {
  using CannotRun::CannotRun;
};

void rest(double seconds, Signals& signals) {
  pollfd told{signals.descriptor(), POLLIN, 0};
  if (seconds > 0) poll(&told, 1, static_cast<int>(seconds * 1e3));
  if (const auto& signal = signals.taken()) throw Ended("ended by " + *signal + "; --resume goes on");
}

/// Keeps the first round and the first that failed, out of the reach of those who remove old runs.
void keep(const fs::path& folder, const fs::path& round, bool shows_something) {
  const auto kept = folder / "kept";
  fs::create_directories(kept);
  if (shows_something && names_in(kept).value_or(std::vector<std::string>{}).size() < kept_runs) {
    fs::copy(round, kept / shown(round).filename(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  }
}

/// The folder of the watch that goes on. Errors: InputError where there is none.
fs::path resumed_folder(const AcceptOptions& options) {
  const auto results = options.results ? *options.results : usual_results();
  const TimedCall call("stat", results);
  const auto folder = options.folder ? *options.folder : fs::weakly_canonical(results / "latest");
  if (!is_watch(folder)) {
    throw InputError("--resume: " + folder.string() + " is no watch; name its folder with --folder=DIR");
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
  return RunFolder::resume(folder, read_watch(folder).plan.run_id);
}

/// The id of the run that is this round of the watch: its folder in rounds/ and in kept/.
std::string id_of_round(const std::string& watch_id, int number) {
  std::string digits = std::to_string(number);
  digits.insert(0, digits.size() < 6 ? 6 - digits.size() : 0, '0');
  return watch_id + "-" + digits;
}

class Watcher {
 public:
  Watcher(const AcceptOptions& options, const Programs& programs, const RunFolder& run, Signals& signals)
      : options_(options), programs_(programs), run_(run), signals_(signals), file_(run.path() / watch_file) {
    if (options.resume) {
      watch_ = read_watch(run.path());
    } else {
      watch_.plan = {run.id(),          utc_now(),
                     *options.watch_s,  options.seed.value_or(std::random_device{}() & 0xffffffffU),
                     programs.families, options.tier,
                     options.flags};
      add_line(file_, watch_line(watch_.plan));
    }
    began_ = seconds_since_1970();
  }

  void run() {
    double resumed = began_;
    while (!watch_.complete() && !(options_.stop_on_fail && failed())) {
      const int number = watch_.rounds.empty() ? 1 : watch_.rounds.back().number + 1;
      const auto plan = plan_of(watch_.plan, number);
      WatchRound round;
      round.number = number;
      round.order = plan.order;
      if (std::exchange(resumed, 0) > 0 && options_.resume) {
        const double end = watch_.rounds.empty() ? 0 : watch_.rounds.back().begin_s + watch_.rounds.back().length_s;
        round.unwatched_s = std::max(0.0, began_ - start_of(watch_.plan) - end);
      } else {
        round.rest_s = plan.rest_s;
        rest(plan.rest_s, signals_);
      }
      measure(round, plan);
    }
  }

  const Watch& watched() const { return watch_; }

 private:
  bool failed() const { return !watch_.rounds.empty() && judge_watch(watch_).verdict.state == State::fail; }

  void measure(WatchRound& round, const RoundPlan& plan) {
    const double began = steady_seconds();
    round.started = utc_now();
    round.begin_s = std::max(0.0, seconds_since_1970() - start_of(watch_.plan));
    try {
      run_one(round, plan);
    } catch (const std::exception& error) {  // a dead rank, a failed start, a full disk: the next round may do better
      stop_if_ended();
      const bool died = dynamic_cast<const NothingMeasured*>(&error) != nullptr;
      round.state = State::incomplete;
      round.findings = {{"machine/round", "", died ? Status::missing : Status::inconclusive, false, {}, error.what()}};
      round.finding_count = 1;
      say(error.what());
      constexpr double most_rest_s = 10, most_of_the_time = 0.05;
      rest(std::min(most_rest_s, most_of_the_time * watch_.plan.duration_s), signals_);
    }
    round.length_s = steady_seconds() - began;
    unwritten_ += watch_line(round);
    write_rounds();
    say("round " + std::to_string(round.number) + ", " + watch_.when(round) + ": " +
        std::string(shakedown::name(round.state)) +
        (round.finding_count > 0 ? ", " + plural(round.finding_count, "finding") : ""));
    watch_.rounds.push_back(std::move(round));
  }

  void run_one(WatchRound& round, const RoundPlan& plan) {
    Programs programs = programs_;
    programs.families = plan.order;
    AcceptOptions options = options_;
    options.tier = watch_.plan.tier;
    if (watch_.plan.families.size() < find_programs({}).families.size()) options.families = watch_.plan.families;
    // What failed once fails on; what it does to the rest is worth knowing.
    options.despite_preflight = options.despite_preflight || round.number > 1;
    auto own = RunFolder::create(run_.path() / "rounds", id_of_round(run_.id(), round.number), last_runs);
    auto launch = agreed_launch(options, process_environment(), signals_);
    round.boots = launch.boots;
    const auto judged = judge_run(options, launch, programs, own, signals_, judge_after_trial);
    stop_if_ended();
    if (judged.measured) summarize(*judged.measured, judged.verdict, round);
    if (!watch_.rounds.empty() && watch_.rounds.back().units == round.units) round.ranks.clear();
    keep(run_.path(), own.path(), round.number == 1 || judged.verdict.state == State::fail);
  }

  /// A round that a signal cuts short is none: --resume measures it again.
  void stop_if_ended() {
    if (const auto& signal = signals_.taken()) throw Ended("ended by " + *signal + "; --resume goes on");
  }

  /// Lines that a full disk does not take are kept until it does.
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
  Watch watch_;
  std::string unwritten_;
  double began_ = 0;
};

/// Judges the last round that came to its end and whose results are still there. Without one it returns nothing that
/// was measured, and says so.
Judged judged_last_round(const fs::path& folder, const Watch& watch, Arguments arguments) {
  for (auto round = watch.rounds.rbegin(); round != watch.rounds.rend(); ++round) {
    if (round->state == State::incomplete) continue;
    arguments.judge.run_id = id_of_round(watch.plan.run_id, round->number);
    for (const char* const part : {"rounds", "kept"}) {
      arguments.results = {folder / part / *arguments.judge.run_id};
      std::error_code error;  // said when the folder is read
      if (fs::is_directory(arguments.results.front(), error)) return judge_after_trial(arguments);
    }
  }
  say(shown(folder / "rounds").string() + ": no complete round is left, so the export has no figures");
  return {};
}

int show(const fs::path& folder, const Watch& watch, const WatchJudgement& judged, const Arguments& arguments,
         const ReasonChannel& channel) {
  const auto last_round = [&] { return judged_last_round(folder, watch, arguments); };
  const int code = write_all_outputs(arguments.outputs, {nullptr, {}, judged.verdict, &watch, &judged, last_round},
                                     "shakedown", exit_code(judged.verdict, arguments));
  std::fputs(watch_text(watch, judged, style_of(arguments)).c_str(), stdout);
  channel.give(reason_line(judged.verdict));
  return code;
}

}  // namespace

bool is_watch(const fs::path& folder) {
  const TimedCall call("stat", folder);
  std::error_code error;  // said when the folder is read
  return fs::is_regular_file(folder / watch_file, error);
}

int watch(const AcceptOptions& options, const Programs& programs, const ReasonChannel& channel, Signals& signals) {
  auto run = folder_of_watch(options);
  say("results: " + run.shown_path().string());
  // One memory of what was tuned for all rounds, where the runs of this machine have theirs.
  setenv("SHAKEDOWN_CHOICES", choices_beside(run.path()).c_str(), 0);
  Watcher watcher(options, programs, run, signals);
  bool complete = true;
  try {
    watcher.run();
  } catch (const Ended& ended) {  // the rounds so far are judged all the same
    if (watcher.watched().rounds.empty()) throw;
    say(ended.what());
    complete = false;
  }
  const auto judged = judge_watch(watcher.watched());
  replace_file(run.path() / "verdict.json", verdict_json(judged.verdict));
  if (complete) run.finish();
  return show(run.path(), watcher.watched(), judged, options.judge, channel);
}

std::vector<std::string> with_flags_of_watch(const AcceptOptions& options, const std::vector<std::string>& words) {
  const auto name = [](const std::string& word) { return word.substr(0, word.find('=')); };
  auto flags = read_watch(resumed_folder(options)).plan.flags;
  std::erase_if(flags, [&](const auto& old) {
    return std::any_of(words.begin(), words.end(), [&](const auto& word) { return name(word) == name(old); });
  });
  flags.insert(flags.end(), words.begin(), words.end());
  return flags;
}

int report_watch(const fs::path& folder, const Arguments& arguments, const ReasonChannel& channel) {
  const auto& judge = arguments.judge;
  const std::pair<const char*, bool> judged_already[] = {
      {"--family", !judge.families.all()},
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
                     ": the rounds of a watch were judged as they were measured; judge one of them, " +
                     (folder / "rounds").string() + " has the last");
  }
  const auto watch = read_watch(folder);
  return show(folder, watch, judge_watch(watch), arguments, channel);
}

}  // namespace shakedown
