#include "launch/rank_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <sstream>

#include "base/exit_code.hpp"
#include "base/files.hpp"
#include "base/nearest_word.hpp"
#include "base/sha256.hpp"
#include "base/shown_path.hpp"
#include "base/text.hpp"
#include "base/time_limits.hpp"
#include "launch/launcher_words.hpp"
#include "launch/local_ranks.hpp"
#include "launch/mpirun_prefix.hpp"
#include "launch/words.hpp"
#include "node/dcgm.hpp"
#include "thresholds/catalogue/metrics.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

constexpr int max_starts = 3;  // maximum number of starts if ranks crash before the first row
// The same if the launcher did not say often enough on which host: mpirun 4.1 does not always name a rank that crashes
// before MPI_Init.
constexpr int max_starts_to_name_host = 6;
constexpr std::size_t min_deaths_of_host = 2;  // number of such starts after which a host is left out
constexpr std::size_t max_lines_heard = 500, max_lost_heard = 100'000;
constexpr int max_texts_shown = 1000;
constexpr std::size_t max_log_bytes = 64'000'000;
const std::string events_variable = "SHAKEDOWN_EVENTS";

/// A word in the file of crashes: the ranks of the line did not end, but did not advance.
constexpr const char* hung_word = "hung";

/// Returns the lines of the file of crashes. Each line is a family, and the ranks that died or hung in it.
std::vector<Words> crashes_in(const fs::path& folder) {
  std::vector<Words> crashes;
  for (const auto& line : lines_of(folder / "crashed").value_or(Words())) {
    std::istringstream words(line);
    crashes.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
  }
  std::erase_if(crashes, [](const Words& crash) { return crash.empty(); });
  return crashes;
}

bool runs_dcgm(const AcceptOptions& options, const std::string& name) {
  return options.dcgm > 0 && (name == "preflight" || name == resident);
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
    throw CannotRun("there are no benchmark programs next to " + beside_program("").string() +
                    ": build them (ci/build), or install them all");
  }
  for (const auto& family : wanted) {
    if (std::find(list->begin(), list->end(), family) == list->end()) {
      throw InputError("--families: \"" + family + "\" is not one of " + joined(*list) + did_you_mean(family, *list));
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
    // LD_PRELOAD makes the loader use the user's NCCL library instead of the one that the program was linked with.
    variables.emplace_back("LD_PRELOAD", options.nccl);
  }
  if (!options.interface.empty()) {
    variables.emplace_back("SHAKEDOWN_INTERFACE", options.interface);
    if (std::getenv("NCCL_SOCKET_IFNAME") == nullptr) {
      variables.emplace_back("NCCL_SOCKET_IFNAME", "=" + options.interface);
    }
  }
  variables.insert(variables.end(), options.variables.begin(), options.variables.end());
  const bool by_mpirun = is_mpirun(launch.prefix);
  for (const auto& [name, value] : variables) {
    // mpirun passes only its own variables to the ranks unless -x names them. The flags follow the first word, because
    // the user's launch prefix may end with a wrapper program.
    if (by_mpirun) {
      job.command.insert(job.command.begin() + 1, {"-x", name + "=" + value});
    } else {
      job.variables.emplace_back(name, value);
    }
  }
  // Ranks use a secret to prove that they belong to the same job. The secret is an environment variable, because other
  // users can read a command line, but not an environment.
  if (by_mpirun || (!launch.prefix.empty() && launch.prefix.front() == "srun")) {
    std::string name = "SHAKEDOWN_SECRET";
    if (std::getenv(name.c_str()) == nullptr && std::getenv("SHAKEDOWN_SECRET_FILE") != nullptr) name += "_FILE";
    if (std::getenv(name.c_str()) == nullptr) job.variables.emplace_back(name, hexadecimal(random_bytes(32)));
    if (by_mpirun) job.command.insert(job.command.begin() + 1, {"-x", name});
  }
  job.command.insert(job.command.end(), command.begin(), command.end());
  return job;
}

Words backend_flags(const AcceptOptions& options) {
  Words flags;
  if (options.backend != "auto") flags.push_back("--backend=" + options.backend);
  if (!options.chip.empty()) flags.push_back("--chip=" + options.chip);
  return flags;
}

std::string all_expected(const AcceptOptions& options, const Launch& launch) {
  Words expected{launch.expected(), options.expected};
  std::erase(expected, "");
  return joined(expected, ",");
}

Words command_of(const AcceptOptions& options, const Launch& launch, const Programs& programs, const std::string& name,
                 const Words& flags) {
  Words command{programs.of(name), "--tier=" + std::string(shakedown::name(options.tier)),
                "--timeout=" + number_text(options.timeout),
                "--startup-timeout=" + number_text(options.startup_timeout)};
  command.insert(command.end(), flags.begin(), flags.end());
  const auto backend = backend_flags(options);
  command.insert(command.end(), backend.begin(), backend.end());
  if (!options.shared_folder.empty() && (name == "preflight" || name == resident)) {
    command.push_back("--shared-folder=" + options.shared_folder);
  }
  if (!options.checkpoint_dir.empty() && (name == "checkpoint" || name == resident)) {
    command.push_back("--checkpoint-dir=" + options.checkpoint_dir);
  }
  if (!options.storage_dir.empty() && (name == "storage" || name == resident)) {
    command.push_back("--storage-dir=" + options.storage_dir);
  }
  if (runs_dcgm(options, name)) command.push_back("--dcgm=" + std::to_string(options.dcgm));
  if (options.judge.site && (name == "pairs" || name == resident)) {
    command.push_back("--site=" + fs::absolute(*options.judge.site).string());
  }
  // Only collectives are measured again because of a limit.
  const fs::path& thresholds = options.judge.thresholds;
  if (!thresholds.empty() && thresholds != shipped_profiles() && (name == resident || is_collective(name))) {
    command.push_back("--thresholds=" + fs::absolute(thresholds).string());
  }
  if (options.retune) command.push_back("--retune");
  if (options.profile && (name == resident || has_training_steps(name))) command.push_back("--profile");
  if (options.waiting) {
    Words ids;
    for (const int id : *options.waiting) ids.push_back(std::to_string(id));
    command.push_back("--waiting=" + joined(ids, ","));
  }
  if (const auto expected = all_expected(options, launch); !expected.empty()) command.push_back("--expect=" + expected);
  return command;
}

void RankProgram::record_crash(const fs::path& folder, const std::string& family) const {
  auto line = family;
  if (hung) line += std::string(" ") + hung_word;
  for (const int rank : dead_ranks) line += " " + std::to_string(rank);
  RunFile(folder / "crashed", RunFile::Mode::append).write(line + "\n");
}

bool succeeded(const Ending& ending) { return ending.told.empty() && (ending.code == 0 || ending.code == 1); }

RankProgram::RankProgram(const AcceptOptions& options, const Launch& launch, const Programs& programs,
                         const fs::path& folder, const std::string& id, const std::string& name, const Words& flags,
                         Screen& screen)
    : screen_(screen),
      ends_(launch.ends),
      gate_(options.gate),
      over_tcp_(!launch.prefix.empty()),
      name_("bench_" + name),
      log_(folder / "log", RunFile::Mode::append),
      has_one_host_(launch.hosts.empty() && launch.host_count == 1),
      restarts_(!launch.rank),
      is_only_rank_(launch.prefix.empty() && !launch.rank),
      leaves_hosts_out_(name == resident && !has_one_host_ && !options.gate),
      has_died_before_(path_exists(folder / "crashed")) {
  Words command = command_of(options, launch, programs, name, flags);
  // Records in the result which programs crashed before, and on which hosts, because the judge needs that.
  if (has_died_before_) {
    Words families;
    for (const auto& crash : crashes_in(folder)) {
      families.push_back(crash.front());
      const bool did_hang = crash.size() > 1 && crash[1] == hung_word;
      std::for_each(crash.begin() + (did_hang ? 2 : 1), crash.end(), [&](const auto& rank) {
        dead_before.push_back({crash.front(), std::atoi(rank.c_str()), did_hang});
      });
    }
    command.push_back("--crashed=" + joined(families, ","));
    if (!launch.lost.empty()) command.push_back("--lost=" + joined(launch.lost, ","));
  }
  command.push_back("--run-id=" + id);
  // Errors of rows are left to the judge; a non-zero exit code would make the launcher kill ranks that have not
  // finished yet.
  command.push_back("--tolerate-errors");
  job = job_of_ranks(options, launch, command, {{"SHAKEDOWN_CHOICES", choices_beside(folder)}});
  if (is_mpirun(launch.prefix)) job.command.insert(job.command.begin() + 1, {"-x", events_variable});
  job.error = [this](std::string_view line) {
    log(line);
    if (heard_.size() < max_lines_heard) heard_.emplace_back(line);
  };
  job.listen = [this] {
    auto heard = Job::Heard::nothing;
    channel_->read([&](const Event& event) {
      hear(event);
      heard = std::max(heard, event.kind == Event::Kind::lost ? Job::Heard::its_end : Job::Heard::something);
    });
    return heard;
  };
  job.tick = [this] { screen_.tick(); };
  job.patience_on_signal = Seconds(3);
  job.last_words = Seconds(5);  // srun and mpirun wait much longer for the ranks of a host that is off
  // The ranks' own time limits must expire first, so the job gets the limits of the start and of one benchmark, and one
  // minute more.
  job.silence = Seconds(options.startup_timeout + options.timeout + 60 +
                        (runs_dcgm(options, name) ? dcgm_limit(options.dcgm, options.timeout) : 0));
}

void RankProgram::log(std::string_view line) {
  if (log_bytes_ > max_log_bytes) return;
  log_bytes_ += line.size() + 1;
  log_.try_write(std::string(line) + "\n");
  if (log_bytes_ > max_log_bytes) log_.try_write("shakedown: the log is full: later lines are not kept\n");
}

void RankProgram::hear(const Event& event) {
  screen_.heard(event);
  if (event.kind == Event::Kind::plan) planned_ += event.seconds.value_or(0);
  if (event.kind == Event::Kind::row) {
    measured = true;
    row_ = event.key;
    if (!std::exchange(has_rows_, true)) {
      warn_of_time_limit();
      if (gate_) say_start();
    }
  }
  if (lost.size() < max_lost_heard) lost.insert(lost.end(), event.hosts.begin(), event.hosts.end());
  if (event.kind == Event::Kind::lost && dead_ranks.empty()) {
    dead_ranks = event.ranks;
    hung = event.hung;
  }
  if (event.kind == Event::Kind::lost && end_said_.empty()) end_said_ = event.text;
  if (!event.text.empty()) show(event);
}

/// Prints the time of the start, which grows with the number of GPUs and is the same for any gate.
void RankProgram::say_start() const {
  screen_.clear();
  say(fmt::format("gate: the ranks started in {:.1f} s", gate_->spent()));
}

void RankProgram::show(const Event& event) {
  said = event.text;
  if (event.kind == Event::Kind::refused && event.why == Event::Refusal::other) misused_ = said;
  if (event.kind == Event::Kind::refused && event.why != Event::Refusal::other && refused_.empty()) {
    refused_ = said + (event.why == Event::Refusal::gpu_in_use ? "; wait for it, or end it" : "");
    return;  // this line is printed at the end
  }
  if (++texts_shown_ > max_texts_shown) return;
  screen_.clear();
  say(said);
}

/// Runs the job once, with a new event channel.
Ending RankProgram::run_once(Signals& signals) {
  channel_.emplace(over_tcp_);
  job.descriptors = {{channel_->descriptor(), EventChannel::descriptor_in_job}};
  std::erase_if(job.variables, [](const auto& variable) { return variable.first == events_variable; });
  job.variables.emplace_back(events_variable, channel_->address());
  if (gate_) job.limit = Seconds(std::max(0.0, gate_->left()));
  auto ending = run_jobs({job}, signals).front();
  if (const auto rank = rank_death(heard_); rank && dead_ranks.empty()) dead_ranks = {rank->rank};
  if (is_only_rank_ && ending.signal && ending.told.empty() && dead_ranks.empty()) dead_ranks = {0};
  if (measured && !channel_->was_heard()) screen_.warn_of_no_events(channel_->why_not());
  return ending;
}

Ending RankProgram::run(Signals& signals) {
  // How ranks crashed during startup, by host. A launch after which the rank or its host is unknown has no entry.
  std::map<std::string, Words> deaths;
  std::string named;  // the last crash of which the launcher named the rank
  for (;; ++starts) {
    auto ending = run_once(signals);
    stop_if_told(signals);
    if (!refused_.empty()) throw CannotRun(refused_);
    if (!measured && ending.code == exit_usage && !misused_.empty()) throw InputError(misused_);
    const auto fault = has_died_before_ ? std::nullopt : fault_of_start(ending);
    if (fault && !may_pass(*fault)) throw CannotRun("ranks could not be started: " + death(ending));
    if (!fault && !died_in_start(ending)) return ending;
    const auto why = death(ending);
    if (const auto rank = rank_death(heard_)) {
      named = why;
      if (!rank->host.empty()) deaths[rank->host].push_back(why);
    }
    const bool may_be_one_host = leaves_hosts_out_ && deaths.size() <= 1;
    const bool is_one_host = may_be_one_host && !deaths.empty() && deaths.begin()->second.size() >= min_deaths_of_host;
    if (starts >= max_starts && is_one_host) {
      const auto& [host, how] = *deaths.begin();
      lost = {host};
      end_said_ = fmt::format("ranks crashed during startup in {} of {} launches: {}", how.size(), starts, how.back());
      return ending;
    }
    const int most = may_be_one_host && !is_one_host ? max_starts_to_name_host : max_starts;
    if (starts >= most || gate_) {
      const auto each = starts == 1 ? "" : ", in each of " + std::to_string(starts) + " launches";
      const auto what = named.empty() || rank_death(heard_) ? why : "one launch: " + named + "; the others: " + why;
      throw CannotRun("ranks crashed during startup, before a measurement" + each + ": " + what +
                      "; the log has the launcher's messages");
    }
    complain(ending, "crashed during startup, launch " + std::to_string(starts) + " of " + std::to_string(most) + " (" +
                         why + ")");
    heard_.clear();
    dead_ranks.clear();
    hung = false;
  }
}

void RankProgram::require_end_of_gate(const Ending& ending) const {
  if (!gate_) return;
  const auto where = row_.empty() ? "before the first row" : "in " + row_;
  const auto why = !end_said_.empty() ? end_said_ : gate_->left() <= 0 ? "the time ended" : death(ending);
  throw CannotRun("--gate=" + number_text(gate_->seconds) + ": the measurement ended " + where + ": " + why);
}

void RankProgram::require_end_of_ranks(const Ending& ending) {
  const auto& launcher = job.command.front();
  const bool launcher_killed =
      ending.signal && ending.told.empty() &&
      (is_mpirun(job.command) || is_local_ranks(job.command) || fs::path(launcher).filename() == "srun");
  // True for a code that is neither a rank's exit code nor a signal. If there are several hosts, it can mean that a
  // host was lost.
  const bool launcher_failed =
      is_mpirun(job.command) && has_one_host_ && !ending.signal && ending.code >= first_code_of_no_signal;
  // The launcher did not notice that its ranks had ended, and no rank reported a death.
  const bool launcher_hung =
      is_mpirun(job.command) && has_one_host_ && ending.was_alone && lost.empty() && dead_ranks.empty();
  if (ending.is_known() && !launcher_killed && !launcher_failed && !launcher_hung) return;
  const auto why = name_ + ": " + ending.text(launcher) + "; the launcher failed, and not the machine: measure again";
  log_.try_write(why + "\n");
  throw CannotRun(why);
}

std::string RankProgram::death(const Ending& ending) const {
  if (fault_of_start(ending)) return start_cause(ending, job.command.front(), heard_).text;
  const auto rank = rank_death(heard_);
  if (!rank) return ending.text(job.command.front());
  return "rank " + std::to_string(rank->rank) + (rank->host.empty() ? "" : " on " + rank->host) + ": " + rank->how;
}

std::string RankProgram::why_unfit(const Ending& ending) const { return end_said_.empty() ? death(ending) : end_said_; }

void RankProgram::complain(const Ending& ending, const std::string& what, const std::string& printed) {
  const auto line = name_ + " " + what + ": " + ending.text(job.command.front());
  log_.try_write(line + "\n" + printed);
  screen_.clear();
  say(line);
}

/// Returns the launcher's reason for not starting any rank. nullopt if it started ranks, or if no table knows its
/// message.
std::optional<StartFault> RankProgram::fault_of_start(const Ending& ending) const {
  if (!restarts_ || measured || ending.code == 0 || !ending.told.empty() || !lost.empty()) return std::nullopt;
  return start_cause(ending, job.command.front(), heard_).fault;
}

/// True if ranks crashed during startup and another start may succeed. False if ranks reported a lost host, or if
/// another program starts the ranks.
bool RankProgram::died_in_start(const Ending& ending) const {
  return restarts_ && !measured && !succeeded(ending) && ending.told.empty() && ending.is_known() &&
         ending.code != exit_usage && lost.empty();
}

/// Warns if the plan takes more time than the scheduler leaves to the job.
void RankProgram::warn_of_time_limit() {
  const double now = Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
  if (!ends_ || now + planned_ < *ends_) return;
  screen_.clear();
  say("the plan takes about " + std::to_string(std::lround(planned_)) + " s, and the job ends in " +
      std::to_string(std::lround(*ends_ - now)) +
      " s: only the rows measured until then are judged, and the run is INCOMPLETE; "
      "raise the job's time limit, or name fewer --families");
}

}  // namespace shakedown
