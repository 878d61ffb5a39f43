#include "launch/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/archive.hpp"
#include "base/files.hpp"
#include "base/held_folder.hpp"
#include "base/sha256.hpp"
#include "base/shown_path.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"
#include "launch/hosts.hpp"
#include "launch/launcher_words.hpp"
#include "launch/mpirun_prefix.hpp"
#include "launch/rank_output.hpp"
#include "node/dcgm.hpp"
#include "report/judge_apart.hpp"
#include "thresholds/rules/start.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

const std::string resident = "all";  // the program that measures all families in one process per rank

constexpr int usage = 2;       // exit code: a flag of the user names something that cannot be
constexpr int max_starts = 3;  // of ranks that die before the first row

/// What fails already of a family that has arrived: said at once, since the rest takes a while.
void show_provisional(const AcceptOptions& options, const fs::path& folder, const std::string& id,
                      const std::string& family, Screen& screen) {
  Arguments arguments = options.judge;
  arguments.results = {folder / (family + ".json")};
  arguments.judge.families = {{family}};
  arguments.judge.run_id = id;
  const auto verdict = judge_after_trial(arguments).verdict;
  screen.arrived(family, verdict);
  screen.clear();
  constexpr std::size_t max_failing_shown = 5;
  std::size_t failing = 0;
  for (const auto& finding : verdict.findings) {
    if (makes_fail(finding, family) && ++failing <= max_failing_shown)
      say("provisional: " + printable(short_text(finding)));
  }
  if (failing > max_failing_shown)
    say("provisional: and " + std::to_string(failing - max_failing_shown) + " more of " + family);
}

bool runs_dcgm(const AcceptOptions& options, const std::string& name) {
  return options.dcgm > 0 && (name == "preflight" || name == resident);
}

/// A program and its flags, which are the same on all ranks.
Words command_of(const AcceptOptions& options, const Launch& launch, const Programs& programs, const std::string& name,
                 const Words& flags) {
  Words command{programs.of(name), "--tier=" + options.tier, "--timeout=" + number_text(options.timeout),
                "--startup-timeout=" + number_text(options.startup_timeout)};
  command.insert(command.end(), flags.begin(), flags.end());
  if (!options.shared_folder.empty() && (name == "preflight" || name == resident)) {
    command.push_back("--shared-folder=" + options.shared_folder);
  }
  if (!options.checkpoint_dir.empty() && (name == "checkpoint" || name == resident)) {
    command.push_back("--checkpoint-dir=" + options.checkpoint_dir);
  }
  if (runs_dcgm(options, name)) command.push_back("--dcgm=" + std::to_string(options.dcgm));
  if (options.judge.site && (name == "pairs" || name == resident)) {
    command.push_back("--site=" + fs::absolute(*options.judge.site).string());
  }
  if (options.retune) command.push_back("--retune");
  if (const auto expected = all_expected(options, launch); !expected.empty()) command.push_back("--expect=" + expected);
  return command;
}

/// Returns whether a program came to its end, maybe with error rows (1); with any other code it died.
bool succeeded(const Ending& ending) { return ending.told.empty() && (ending.code == 0 || ending.code == 1); }

/// A benchmark program on all ranks: its log, what people shall see of it, and the limits of its silence.
class Program {
 public:
  Program(const AcceptOptions& options, const Launch& launch, const Programs& programs, const fs::path& folder,
          const std::string& id, const std::string& name, const Words& flags, Screen& screen)
      : screen_(screen),
        ends_(launch.ends),
        name_("bench_" + name),
        log_(folder / "log", RunFile::Mode::append),
        restarts_(!launch.rank),
        has_died_before_(path_exists(folder / "crashed")) {
    Words command = command_of(options, launch, programs, name, flags);
    // Whoever judges what is measured now shall know what has died before, and with whom.
    if (has_died_before_) {
      std::istringstream families(read_file(folder / "crashed"));
      command.push_back("--crashed=" + joined(Words(std::istream_iterator<std::string>(families), {}), ","));
      if (!launch.lost.empty()) command.push_back("--lost=" + joined(launch.lost, ","));
    }
    command.push_back("--run-id=" + id);
    command.push_back("--tolerate-errors");  // the judge reads them; a launcher would end ranks that still finish
    job = job_of_ranks(options, launch, command, {{"SHAKEDOWN_CHOICES", choices_beside(folder)}});
    job.error = [this](std::string_view line) {
      log_.try_write(std::string(line) + "\n");
      if (heard_.size() < max_lines_heard) heard_.emplace_back(line);
      planned_ += planned_seconds(line).value_or(0);
      if (begins_row(line)) {
        measured = true;
        if (!std::exchange(has_rows_, true)) warn_of_time_limit();
      }
      if (const auto hosts = lost_hosts_in(line)) lost.insert(lost.end(), hosts->begin(), hosts->end());
      screen_.heard(line);
      if (is_for_people(line)) said = line.substr(line.find(' ') + 1);
      const bool refused = !refused_.empty();
      if (!refused) refused_ = refusal_in(line);
      if (!is_for_people(line) || refused != !refused_.empty()) return;  // the first one is said at the end
      screen_.clear();
      std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
    };
    job.tick = [this] { screen_.tick(); };
    job.announces_end = announces_end;
    job.patience_on_signal = Seconds(3);
    // The ranks' own limits speak first: the start, one benchmark, and a minute.
    job.silence = Seconds(options.startup_timeout + options.timeout + 60 +
                          (runs_dcgm(options, name) ? dcgm_limit(options.dcgm, options.timeout) : 0));
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Runs it; again if ranks die in their start, which is the launcher's fault more often than the machine's. Errors:
  /// CannotRun after a signal, for ranks that refuse, and for ranks that die in their start each time.
  Ending run(Signals& signals) {
    for (;; ++starts) {
      auto ending = run_jobs({job}, signals).front();
      stop_if_told(signals);
      if (!refused_.empty()) throw CannotRun(refused_);
      const auto fault = has_died_before_ ? std::nullopt : fault_of_start(ending);
      if (fault && !may_pass(*fault)) throw CannotRun("ranks could not be started: " + death(ending));
      if (!fault && !died_in_start(ending)) return ending;
      const auto why = death(ending);
      if (starts == max_starts) {
        throw CannotRun("ranks died in their start, before anything was measured, in each of " +
                        std::to_string(starts) + " launches: " + why + "; the log has the launcher's words");
      }
      complain(ending, "died in its start, launch " + std::to_string(starts) + " of " + std::to_string(max_starts) +
                           " (" + why + ")");
      heard_.clear();
    }
  }
  /// Errors: CannotRun for an end that is no rank's: of the launcher itself, or one that its supervisor did not report.
  void require_end_of_ranks(const Ending& ending) {
    const auto& launcher = job.command.front();
    const bool launcher_killed = ending.signal && (is_mpirun(job.command) || fs::path(launcher).filename() == "srun");
    if (ending.is_known() && !launcher_killed) return;
    const auto why = name_ + ": " + ending.text(launcher) + "; that says nothing about the machine: measure again";
    log_.try_write(why + "\n");
    throw CannotRun(why);
  }
  /// What the launcher says of a start that failed, else "rank 1 on u2: Killed", else how it ended.
  std::string death(const Ending& ending) const {
    if (fault_of_start(ending)) return start_cause(ending, job.command.front(), heard_).text;
    const auto rank = rank_death(heard_);
    if (!rank) return ending.text(job.command.front());
    return "rank " + std::to_string(rank->rank) + (rank->host.empty() ? "" : " on " + rank->host) + ": " + rank->how;
  }
  /// Says how it ended, and keeps what it printed.
  void complain(const Ending& ending, const std::string& what, const std::string& printed = "") {
    const auto line = name_ + " " + what + ": " + ending.text(job.command.front());
    log_.try_write(line + "\n" + printed);
    screen_.clear();
    say(line);
  }

  Job job;
  Words lost;        // hosts that its ranks named
  std::string said;  // to people, last
  int starts = 1;
  bool measured = false;  // a row has begun, or a result has come

 private:
  static constexpr std::size_t max_lines_heard = 500;

  /// What kept the launcher from starting ranks; nullopt if they were started, or if no table knows its words.
  std::optional<StartFault> fault_of_start(const Ending& ending) const {
    if (!restarts_ || measured || ending.code == 0 || !ending.told.empty() || !lost.empty()) return std::nullopt;
    return start_cause(ending, job.command.front(), heard_).fault;
  }

  /// Not of ranks that somebody else starts, not where they named a host, and not where another try would be the same.
  bool died_in_start(const Ending& ending) const {
    return restarts_ && !measured && !succeeded(ending) && ending.told.empty() && ending.is_known() &&
           ending.code != usage && lost.empty();
  }

  /// Says so if the plan takes longer than the scheduler leaves to the job.
  void warn_of_time_limit() {
    const double now = Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
    if (!ends_ || now + planned_ < *ends_) return;
    screen_.clear();
    say("the plan takes about " + std::to_string(std::lround(planned_)) + " s, and the job ends in " +
        std::to_string(std::lround(*ends_ - now)) +
        " s: what is measured by then is judged, and the run is INCOMPLETE; "
        "raise the job's time limit, or name fewer --families");
  }

  Screen& screen_;
  std::optional<double> ends_;
  double planned_ = 0;
  bool has_rows_ = false;  // standard error said that one begins; the result may have been read before that
  std::string name_, refused_;
  RunFile log_;
  Words heard_;                                      // the first lines on standard error
  bool restarts_ = false, has_died_before_ = false;  // then a host that does not start is a host that was lost
};

fs::path file_of(const fs::path& folder, const std::string& family) { return folder / (family + ".json"); }

Words missing_in(const fs::path& folder, const Words& families) {
  Words missing;
  std::copy_if(families.begin(), families.end(), std::back_inserter(missing),
               [&](const auto& family) { return !path_exists(file_of(folder, family)); });
  return missing;
}

/// Changes what the result of a family says of its run; one that says nothing is refused by the judge.
template <class Change>
void change_context(const fs::path& folder, const std::string& family, const Change& change) {
  auto document = nlohmann::ordered_json::parse(read_file(file_of(folder, family)), nullptr, false);
  const nlohmann::ordered_json::json_pointer shakedown("/context/shakedown");
  if (!document.contains(shakedown) || !document[shakedown].is_object()) return;
  change(document[shakedown]);
  replace_file(file_of(folder, family), document.dump() + "\n");
}

/// A result that its program did not outlive says so.
void mark_crashed(const fs::path& folder, const std::string& family) {
  change_context(folder, family, [&](auto& context) { context["crashed"].push_back(family); });
}

/// Writes a result, which says what the user asked for, which hosts did not start, and how often ranks were started, so
/// that its folder is judged alike wherever it is.
void keep_result(const AcceptOptions& options, const fs::path& folder, const std::string& family,
                 const std::string& document, const Launch& launch, int starts) {
  replace_file(file_of(folder, family), document);
  std::vector<AbsentHost> absent;
  for (const auto& host : launch.absent) {
    if (is_one_of(host, launch.lost)) continue;
    const auto reason = launch.reasons.find(host);
    absent.push_back({host, reason == launch.reasons.end() ? "it did not answer" : reason->second});
    if (is_one_of(host, launch.hung_drivers)) absent.back().driver_hangs = true;
  }
  const Asked asked{{options.families}, std::nullopt, options.judge.judge.roster};
  if (asked.everything() && absent.empty() && starts == 1) return;
  change_context(folder, family, [&](auto& context) {
    if (!asked.everything()) context["asked"] = Writer::written(asked);
    if (!absent.empty()) context["absent"] = Writer::written(absent);
    if (starts > 1) context["start_attempts"] = starts;
  });
}

}  // namespace

Programs find_programs(const std::vector<std::string>& wanted) {
  Programs programs;
  const auto list = lines_of(beside_program("share/shakedown/families"));
  for (const auto* folder : {"bench", "bin"}) {
    programs.folder = beside_program(folder);
    if (list && is_visible(programs.of(list->front()))) break;
    programs.folder.clear();
  }
  if (programs.folder.empty()) {
    throw CannotRun("there are no benchmark programs beside " + beside_program("").string() +
                    ": build them (ci/build), or install them all");
  }
  for (const auto& family : wanted) {
    if (std::find(list->begin(), list->end(), family) == list->end()) {
      throw InputError("--families: \"" + family + "\" is none of " + joined(*list));
    }
  }
  std::copy_if(list->begin(), list->end(), std::back_inserter(programs.families), [&](const auto& family) {
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), family) != wanted.end();
  });
  return programs;
}

std::string choices_beside(const fs::path& folder) {
  const char* const choices = std::getenv("SHAKEDOWN_CHOICES");
  return choices != nullptr ? choices : shown(folder).parent_path() / "choices";
}

Job job_of_ranks(const AcceptOptions& options, const Launch& launch, const Words& command, Variables variables) {
  Job job{launch.prefix, launch.variables};
  if (!options.nccl.empty()) {
    variables.emplace_back("LD_PRELOAD", options.nccl);  // comes before what a program was linked with
  }
  if (!options.interface.empty()) {
    variables.emplace_back("SHAKEDOWN_INTERFACE", options.interface);
    if (std::getenv("NCCL_SOCKET_IFNAME") == nullptr) {
      variables.emplace_back("NCCL_SOCKET_IFNAME", "=" + options.interface);
    }
  }
  const bool by_mpirun = is_mpirun(launch.prefix);
  for (const auto& [name, value] : variables) {
    if (by_mpirun) {  // it hands on its own variables only; a user's prefix may end with a program
      job.command.insert(job.command.begin() + 1, {"-x", name + "=" + value});
    } else {
      job.variables.emplace_back(name, value);
    }
  }
  // Ranks prove with a secret that they are of one job. Each user can read a command line, but not an environment.
  if (by_mpirun || (!launch.prefix.empty() && launch.prefix.front() == "srun")) {
    std::string name = "SHAKEDOWN_SECRET";
    if (std::getenv(name.c_str()) == nullptr && std::getenv("SHAKEDOWN_SECRET_FILE") != nullptr) name += "_FILE";
    if (std::getenv(name.c_str()) == nullptr) job.variables.emplace_back(name, hexadecimal(random_bytes(32)));
    if (by_mpirun) job.command.insert(job.command.begin() + 1, {"-x", name});
  }
  job.command.insert(job.command.end(), command.begin(), command.end());
  return job;
}

std::string all_expected(const AcceptOptions& options, const Launch& launch) {
  Words expected{launch.expected(), options.expected};
  std::erase(expected, "");
  return joined(expected, ",");
}

std::optional<std::string> measure_family(const AcceptOptions& options, const Launch& launch, const Programs& programs,
                                          const fs::path& folder, const std::string& id, const std::string& family,
                                          Signals& signals, Screen& screen) {
  Program program(options, launch, programs, folder, id, family, {"--benchmark_format=json"}, screen);
  std::string printed;
  program.job.out = [&](std::string_view line) {
    program.measured = program.measured || line == "{";
    printed.append(line).append("\n");
  };
  const auto ending = program.run(signals);
  const auto document = document_in(printed);
  if (document.empty()) {
    program.require_end_of_ranks(ending);
    program.complain(ending, "wrote no result", printed);
    return family + " wrote no result: " + program.death(ending);
  }
  keep_result(options, folder, family, document, launch, program.starts);
  if (!succeeded(ending)) {
    program.require_end_of_ranks(ending);
    program.complain(ending, "died behind its result");
    mark_crashed(folder, family);
  }
  return std::nullopt;
}

Together measure_together(const AcceptOptions& options, const Launch& launch, const Programs& programs,
                          const fs::path& folder, const std::string& id, Signals& signals, Screen& screen) {
  if (programs.families.size() < 2 || !path_exists(programs.of(resident))) return {true, false, {}};
  Program program(options, launch, programs, folder, id, resident,
                  {"--stream", "--families=" + joined(missing_in(folder, programs.families), ",")}, screen);
  bool closed = false;
  std::string last;
  program.job.out = [&](std::string_view line) {
    const auto result = streamed(line);
    program.measured = program.measured || result;
    if (closed || !result) return;
    keep_result(options, folder, result->first, result->second, launch, program.starts);
    last = result->first;
    show_provisional(options, folder, id, result->first, screen);
    if (result->first == "preflight") closed = !preflight_allows(options, folder, id);
  };
  program.job.enough = [&closed] { return closed ? "pre-flight failed" : ""; };
  const auto ending = program.run(signals);
  const auto missing = missing_in(folder, programs.families);
  // Of what it left out though it ended well there is nothing to measure here: pairs of hosts on one host.
  if (closed || succeeded(ending)) return {};
  program.require_end_of_ranks(ending);
  const bool nothing_yet = missing.size() == programs.families.size();
  if (nothing_yet && ending.code == usage && !program.said.empty()) throw InputError(program.said);
  if (missing.empty()) {
    program.complain(ending, "died behind its last result");
    mark_crashed(folder, last);
    return {};
  }
  RunFile(folder / "crashed", RunFile::Mode::append).write(missing.front() + "\n");
  program.complain(ending, "ended in " + missing.front());
  return {true, true, program.lost};
}

int measure_as_rank(const AcceptOptions& options, const Launch& launch, const Programs& programs, Signals& signals) {
  const bool together = programs.families.size() > 1 && path_exists(programs.of(resident));
  if (!together && programs.families.size() > 1) {
    throw CannotRun("bench_" + resident + " is missing, by which ranks measure all families: install it");
  }
  const auto results = options.results ? *options.results : usual_results();
  const auto choices = choices_beside(options.folder ? *options.folder : results / "run");
  const auto name = together ? resident : programs.families.front();
  const Words flags{together ? "--families=" + joined(programs.families, ",") : "--benchmark_format=json"};
  auto job = job_of_ranks(options, launch, command_of(options, launch, programs, name, flags),
                          {{"SHAKEDOWN_CHOICES", choices}});
  const auto ending = run_jobs({job}, signals).front();
  stop_if_told(signals);
  const auto rank = "rank " + std::to_string(*launch.rank) + " of " + std::to_string(*launch.ranks);
  if (!succeeded(ending)) throw CannotRun(rank + ": " + ending.text(job.command.front()) + "; rank 0 has the verdict");
  say(rank + " has measured; rank 0 has the verdict");
  return 0;
}

bool preflight_allows(const AcceptOptions& options, const fs::path& folder, const std::string& id) {
  if (options.despite_preflight) return true;
  Arguments arguments = options.judge;
  arguments.results = {folder / "preflight.json"};
  arguments.judge.families = {{"preflight"}};
  arguments.judge.run_id = id;
  auto judged = judge_after_trial(arguments);
  if (judged.measured) {
    const auto& absent = judged.measured->files.front().context.absent;
    // The hosts that are here are measured, whichever are not.
    std::erase_if(judged.verdict.findings, [&](const Finding& finding) { return is_of_absent(finding, absent); });
    conclude(judged.verdict);
  }
  const int code = judged.verdict.exit_code;
  if (code == 0 || code == 3) return true;  // well, or a kind of machine that no profile knows
  say("pre-flight failed, so nothing else is measured; --despite-preflight (SHAKEDOWN_DESPITE_PREFLIGHT=1) measures "
      "all "
      "the same");
  return false;
}

namespace {

/// How what is missing is started on the hosts that are left: without those that the ranks named or that do not answer
/// any more. Nothing: there is one host, all are still there, or none would be left.
std::optional<Launch> without_lost(const AcceptOptions& options, const Launch& launch, const Words& named,
                                   Signals& signals) {
  if (launch.hosts.size() < 2) return std::nullopt;
  Words lost = launch.absent;
  for (const auto& host : promised_hosts(launch, named)) {
    if (is_one_of(host, lost)) continue;
    say("host " + host + " was named by the others: what is missing is measured without it");
    lost.push_back(host);
  }
  if (lost.size() >= launch.hosts.size()) return std::nullopt;
  auto left = agreed_launch(options, process_environment(), signals, lost);
  if (left.absent.size() == launch.absent.size()) return std::nullopt;
  left.lost = launch.lost;
  for (const auto& [host, reason] : launch.reasons) left.reasons[host] = reason;
  std::copy_if(left.absent.begin(), left.absent.end(), std::back_inserter(left.lost),
               [&](const auto& host) { return !is_one_of(host, launch.absent); });
  return left;
}

}  // namespace

std::optional<std::string> measure_families(const AcceptOptions& options, Launch& launch, const Programs& programs,
                                            const RunFolder& run, Signals& signals) {
  constexpr int max_launches = 3;
  Screen screen(programs.families);
  for (int launches = 1;; ++launches) {
    const auto together = measure_together(options, launch, programs, run.path(), run.id(), signals, screen);
    if (!together.something_is_missing) return std::nullopt;
    if (launch.rank && together.died) return std::nullopt;  // the other ranks are not started again
    screen.clear();
    const auto left =
        together.died && launches < max_launches ? without_lost(options, launch, together.lost, signals) : std::nullopt;
    if (!left && together.died) say("what is missing is measured alone");
    if (!left) break;
    launch = *left;
  }
  std::optional<std::string> missed;
  for (const auto& family : missing_in(run.path(), programs.families)) {
    const auto why_not = measure_family(options, launch, programs, run.path(), run.id(), family, signals, screen);
    if (!missed) missed = why_not;
    if (!why_not) show_provisional(options, run.path(), run.id(), family, screen);
    if (family != "preflight") continue;
    if (why_not ? !options.despite_preflight : !preflight_allows(options, run.path(), run.id())) break;
  }
  return missed;
}

}  // namespace shakedown
