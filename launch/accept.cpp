#include "launch/accept.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "base/files.hpp"
#include "base/host_name.hpp"
#include "base/interfaces.hpp"
#include "base/text.hpp"
#include "base/time_limits.hpp"
#include "launch/choice.hpp"
#include "launch/discover.hpp"
#include "launch/launcher_words.hpp"
#include "launch/measure.hpp"
#include "launch/scaling.hpp"
#include "launch/session_folder.hpp"
#include "launch/soak.hpp"
#include "report/again.hpp"
#include "report/judge_apart.hpp"
#include "report/ledger.hpp"
#include "report/verdict_json.hpp"
#include "thresholds/judge/headline.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/ledger/ledger.hpp"
#include "thresholds/ledger/own_runs.hpp"
#include "thresholds/rules/start.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

constexpr int could_not_run = 3;

RunFolder folder_of(const AcceptOptions& options) {
  if (options.folder) return RunFolder::take(*options.folder, options.run_id);
  return RunFolder::create(options.results ? *options.results : usual_results(), options.run_id, options.keep);
}

int show_plan(const AcceptOptions& options, const Programs& programs, Signals& signals) {
  const auto start = agreed_launch(options, process_environment(), signals);
  const auto results = options.results ? *options.results : usual_results();
  const auto plan = [&](const std::string& program, std::vector<std::string> flags) {
    flags.insert(flags.begin(), {programs.of(program), "--plan", "--tier=" + std::string(name(options.tier))});
    if (options.planned_ranks > 0) flags.push_back("--ranks=" + std::to_string(options.planned_ranks));
    if (!options.storage_dir.empty()) flags.push_back("--storage-dir=" + options.storage_dir);
    const auto backend = backend_flags(options);
    flags.insert(flags.end(), backend.begin(), backend.end());
    auto job =
        job_of_ranks(options, start, flags,
                     {{"SHAKEDOWN_CHOICES", choices_beside(options.folder ? *options.folder : results / "run")}});
    std::vector<std::string> said;
    job.error = [&said](std::string_view line) { said.emplace_back(line); };
    const auto ending = run_jobs({job}, signals).front();
    const auto cause = start_cause(ending, job.command.front(), said);
    const auto name = "bench_" + program + " --plan: ";
    if (!ending.good() && cause.fault) throw CannotRun(name + cause.text);
    for (const auto& line : said) std::fprintf(stderr, "%s\n", line.c_str());
    if (!ending.good()) throw CannotRun(name + ending.text(job.command.front()));
  };
  if (is_visible(programs.of(resident))) {  // the last line of bench_all's plan is the total of all families
    plan(resident, {"--families=" + joined(programs.families, ",")});
  } else {
    for (const auto& family : programs.families) plan(family, {});
  }
  return 0;
}

/// If a launcher started this process as a rank other than the first, measures as that rank and returns the exit code;
/// else returns nullopt.
std::optional<int> as_rank(const AcceptOptions& options, const Programs& programs, Signals& signals) {
  const auto rank = rank_of(process_environment());
  if (!rank) return std::nullopt;
  if (options.soak_s || options.resume || options.scaling || options.again) {
    throw CannotRun(
        "--for, --resume, --scaling and --again start the ranks several times, but RANK and WORLD_SIZE start them "
        "once: unset "
        "these, and let mpirun or srun start the ranks");
  }
  if (*rank == 0) return std::nullopt;
  const auto launch = agreed_launch(options, process_environment(), signals);
  return measure_as_rank(options, launch, programs, signals);
}

bool anything_in(const fs::path& folder, const Programs& programs) {
  return missing_in(folder, programs.families).size() < programs.families.size();
}

}  // namespace

Judged judge_run(const AcceptOptions& options, Launch& start, const Programs& programs, RunFolder& run,
                 Signals& signals, Judged (*judge)(const Arguments&)) {
  std::optional<std::string> missed;
  bool complete = true;
  try {
    stop_if_told(signals);
    missed = measure_families(options, start, programs, run, signals);
    if (options.scaling) measure_on_fewer_nodes(options, start, programs, run, signals);
  } catch (const CannotRun& error) {  // families that were measured before the error are judged anyway
    if (!anything_in(run.path(), programs)) throw;
    say(error.what());
    run.break_off(error.what());
    complete = false;
  }
  if (!anything_in(run.path(), programs)) {
    throw NothingMeasured("nothing was measured: " + missed.value_or("no family has a result") +
                          "; the results so far are in " + (run.shown_path() / "log").string());
  }
  Arguments arguments = options.judge;
  arguments.results = {run.path()};
  arguments.judge.run_id = run.id();
  if (const auto expected = all_expected(options, start); !expected.empty()) {
    arguments.judge.expected = parse_expected(expected);
  }
  if (!start.absent.empty() && arguments.judge.roster.empty()) {
    for (const auto* hosts : {&start.present, &start.absent}) {
      for (const auto& host : *hosts) arguments.judge.roster.push_back({host, std::nullopt});
    }
  }
  Judged judged = judge(arguments);
  replace_file(run.path() / "verdict.json", verdict_json(judged.verdict));
  if (complete) run.finish();
  return judged;
}

namespace {

/// Throws InputError if the ranks run on this host only, and this host lacks the interface that the user has named. The
/// ranks of other hosts check theirs in pre-flight.
void require_interface(const AcceptOptions& options, const Launch& start) {
  if (options.interface.empty() || !start.discovery.empty() || rank_of(process_environment())) return;
  std::vector<std::string> names;
  for (const auto& each : own_interfaces()) names.push_back(each.name);
  if (std::find(names.begin(), names.end(), options.interface) != names.end()) return;
  throw InputError("--interface: this host has no interface " + options.interface + " that is up; it has " +
                   joined(names));
}

/// Judges the run. A run without results also gets a verdict.
Judged judge_or_say_why_not(const AcceptOptions& options, const Programs& programs, RunFolder& run, Signals& signals) {
  try {
    stop_if_told(signals);
    auto start = agreed_launch(options, process_environment(), signals);
    require_interface(options, start);
    // Checks --scaling before any measurement, so that contradictory flags are reported early.
    if (options.scaling) fewer_nodes(options, start, programs);
    return judge_run(options, start, programs, run, signals, judge_apart);
  } catch (const DriverHangs& error) {
    run.break_off(error.what());
    say(error.what());
    Judged judged;
    for (const auto& host : error.hosts) judged.verdict.findings.push_back(finding_of(host));
    conclude(judged.verdict);
    replace_file(run.path() / "verdict.json", verdict_json(judged.verdict));
    return judged;
  } catch (const CannotRun& error) {
    run.break_off(error.what());
    Verdict nothing;
    nothing.notes.push_back(error.what());
    replace_file(run.path() / "verdict.json", verdict_json(nothing));
    throw;
  }
}

}  // namespace

namespace {

/// The run whose failed families --again measures again.
struct EarlierRun {
  std::string name;
  Verdict verdict;
};

/// Reads the earlier run, and restricts the options to the families that failed in it. Errors: InputError.
std::optional<EarlierRun> repeat_earlier(AcceptOptions& options) {
  if (!options.again) return std::nullopt;
  const fs::path results = options.results ? *options.results : usual_results(), named = *options.again;
  const fs::path folder = named.empty() ? results / "latest" : path_exists(named) ? named : results / named;
  if (!path_exists(folder / "verdict.json")) {
    throw InputError("--again: " + folder.string() +
                     " has no verdict of an earlier run; name a run with --again=RUN, " +
                     "or measure first with shakedown accept");
  }
  EarlierRun run{folder.filename(), read_verdict(folder / "verdict.json")};
  if (!run.verdict.run_ids.empty()) run.name = run.verdict.run_ids.front();
  options.families = families_again(run.verdict);
  if (const auto files = result_files(folder); !options.is_tier_given && !files.empty())
    options.tier = read_results(files.front()).context.tier;
  say("again: " + (options.families.empty() ? "all families" : joined(options.families)) + ", as failed in " +
      run.name);
  return run;
}

/// Returns the text of a verdict, with the comparison with the earlier run inserted after the first line.
std::string with_earlier(const std::string& text, const EarlierRun& run, const Verdict& now, TerminalStyle style) {
  const auto rest = text.find("\n\n") + 2;
  return text.substr(0, rest) + again_text(run.name, run.verdict, now, style) + text.substr(rest);
}

/// Returns the ledger to which the run will add its events, checked before the measurement; nullopt if it adds none.
std::optional<fs::path> checked_ledger(const AcceptOptions& options) {
  auto ledger = ledger_of(options.judge);
  if (!ledger) return std::nullopt;
  if (options.soak_s || options.resume || !options.chip.empty()) {
    say("a soak or a virtual run adds no event to the ledger");
    return std::nullopt;
  }
  require_ledger(*ledger);
  return ledger;
}

}  // namespace

int accept(const std::vector<std::string>& words, const ReasonChannel& channel) {
  const auto session = provide_environment();
  auto options = parse_accept_options(words, process_environment());
  if (options.resume && !options.plan)
    options = parse_accept_options(with_flags_of_watch(options, words), process_environment());
  const auto earlier = repeat_earlier(options);
  const auto programs = find_programs(options.families);
  // Before any measurement, so that errors in these files are reported early.
  auto references = read_references(options.judge);
  const auto ledger = checked_ledger(options);
  if (options.gate && ledger) references.own_runs = newest_accepted_runs(*ledger, host_name(process_environment()));
  options.judge.references = std::make_shared<const GivenReferences>(std::move(references));
  Signals signals;
  if (options.plan) return show_plan(options, programs, signals);
  if (const auto code = as_rank(options, programs, signals)) return *code;
  if (options.soak_s || options.resume) return soak(options, programs, channel, signals);
  auto run = folder_of(options);
  say("results: " + run.shown_path().string());
  const Judged judged = judge_or_say_why_not(options, programs, run, signals);
  const Verdict& verdict = judged.verdict;
  int code = write_all_outputs(options.judge.outputs, judged, "shakedown", exit_code(verdict, options.judge));
  // A gate before each job would fill the ledger with good runs.
  if (ledger && (!options.gate || code == 1)) code = record_run(*ledger, judged, run.path(), run.id(), code);
  const auto style = style_of(options.judge);
  const auto shown = terminal_text(verdict, style);
  std::fputs((earlier ? with_earlier(shown, *earlier, verdict, style) : shown).c_str(), stdout);
  channel.give(text(headline_of(verdict)));
  if (options.gate) say(fmt::format("gate: {:.1f} s in all", options.gate->spent()));
  return code;
}

int measure(const std::vector<std::string>& words) {
  const auto session = provide_environment();
  auto options = parse_accept_options(words, process_environment(), "measure");
  const auto programs = find_programs(options.families);
  options.judge.references = std::make_shared<const GivenReferences>(read_references(options.judge));
  Signals signals;
  if (options.plan) return show_plan(options, programs, signals);
  if (const auto code = as_rank(options, programs, signals)) return *code;
  auto run = folder_of(options);
  auto start = agreed_launch(options, process_environment(), signals);
  measure_families(options, start, programs, run, signals);
  if (!missing_in(run.path(), programs.families).empty()) return could_not_run;
  run.finish();
  std::puts(run.shown_path().c_str());
  return 0;
}

int discover(const std::vector<std::string>& words) {
  if (!words.empty())
    throw InputError("discover takes no arguments, but was given \"" + words.front() + "\"; see --help");
  std::puts(answer_line(answer_of_this_host(process_environment())).c_str());
  return 0;
}

int inventory(const std::vector<std::string>& words) {
  Job job{{find_programs({}).folder / "inventory"}};
  job.command.insert(job.command.end(), words.begin(), words.end());
  job.limit = time_limits().inventory;
  Signals signals;
  const auto ending = run_jobs({job}, signals).front();
  if (ending.told.empty() && ending.code && *ending.code <= 128) return *ending.code;
  throw CannotRun(ending.text(job.command.front()));
}

namespace {

/// Throws InputError if a program must run on this host alone and this host cannot run it.
void require_program(const std::string& name) {
  if (name.starts_with('-'))
    throw InputError("launch: " + name + " is not a program; write shakedown launch PROGRAM [ARGS]");
  if (name.find('/') == std::string::npos ? on_path(process_environment(), name) : access(name.c_str(), X_OK) == 0)
    return;
  throw InputError("launch: " + name + ": " + std::strerror(errno) + "; name a program that this host can run");
}

}  // namespace

int launch(const std::vector<std::string>& words) {
  if (words.empty()) throw InputError("launch: a program is missing; write shakedown launch PROGRAM [ARGS]");
  const auto session = provide_environment();
  Signals signals;
  const auto options = parse_accept_options({}, process_environment());
  const auto start = agreed_launch(options, process_environment(), signals);
  if (start.discovery.empty()) require_program(words.front());
  auto job = job_of_ranks(options, start, words);
  job.reads = true;
  const auto ending = run_jobs({job}, signals).front();
  if (ending.told.empty() && ending.code && *ending.code <= 128) return *ending.code;
  say(ending.text(job.command.front()) + "; the program did not finish on all ranks");
  return could_not_run;
}

int ctest_step(const std::vector<std::string>& words) {
  if (words.size() != 2) throw InputError("ctest: write shakedown ctest FOLDER begin|all|gate|FAMILY");
  const auto session = provide_environment();
  const fs::path folder = words.front();
  const auto& step = words.back();
  const auto owner = owner_of(getppid());
  const auto options = parse_accept_options({}, process_environment());
  if (step == "begin") {
    ctest::begin(folder, owner, options.run_id);
    return 0;
  }
  const auto id = ctest::check(folder, owner);
  if (step == "gate") return preflight_allows(options, folder, id) ? 0 : 1;
  const bool all = step == "all";
  const auto programs = find_programs(all ? std::vector<std::string>{} : std::vector{step});
  if (!all && missing_in(folder, {step}).empty()) return 0;
  Signals signals;
  const auto start = agreed_launch(options, process_environment(), signals);
  Screen screen(programs.families);
  if (all) {
    measure_together(options, start, programs, folder, id, signals,
                     screen);  // families without a result can still be measured by separate programs
    return 0;
  }
  const bool there = !measure_family(options, start, programs, folder, id, step, signals, screen);
  // A family without a result fails later, when the results are judged. With --despite-preflight the run continues even
  // if pre-flight could not run.
  return there || (step == "preflight" && options.despite_preflight) ? 0 : could_not_run;
}

}  // namespace shakedown
