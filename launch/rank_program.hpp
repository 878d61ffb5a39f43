// Runs a benchmark program on all ranks: makes its command, starts it, reads its messages, and reports how it ended.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/key.hpp"
#include "launch/agreement.hpp"
#include "launch/event_channel.hpp"
#include "launch/progress.hpp"
#include "launch/run_folder.hpp"
#include "launch/start_faults.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown {

/// The benchmark programs of this build. The programs are in bench/ of a build tree, or in bin/ of an installed copy.
struct Programs {
  std::filesystem::path folder;
  std::vector<std::string> families;  // in the order in which they are measured

  std::string of(const std::string& family) const { return folder / ("bench_" + family); }
};

/// Returns the programs. Errors: CannotRun if there are none; InputError for an unknown family.
Programs find_programs(const std::vector<std::string>& families);

/// Returns the job that runs a command on all ranks with these variables and the NCCL library that the user chose.
using Variables = std::vector<std::pair<std::string, std::string>>;
Job job_of_ranks(const AcceptOptions&, const Launch&, const std::vector<std::string>& command, Variables = {});

/// Returns the file of stored tuning choices. The file is next to the run folders, so that later runs find it.
std::string choices_beside(const std::filesystem::path& folder);

/// Returns what the launch and the user expect, in the form of --expect. The user's part is last, so that it has
/// priority.
std::string all_expected(const AcceptOptions&, const Launch&);

/// Returns the flags that choose the backend of the programs. Empty if the user chose none.
std::vector<std::string> backend_flags(const AcceptOptions&);

/// The program that measures all families in one process per rank.
inline const std::string resident = "all";

/// Returns the command of a program with its flags. All ranks have the same flags.
std::vector<std::string> command_of(const AcceptOptions&, const Launch&, const Programs&, const std::string& name,
                                    const std::vector<std::string>& flags);

/// True if a program ran to its end: exit code 0, or 1 if it has rows with errors. Any other code is a crash.
bool succeeded(const Ending&);

/// A benchmark program on all ranks. The program has a log, messages for the user, and a time limit for the time
/// without output.
class RankProgram {
 public:
  RankProgram(const AcceptOptions&, const Launch&, const Programs&, const std::filesystem::path& folder,
              const std::string& id, const std::string& name, const std::vector<std::string>& flags, Screen&);
  RankProgram(const RankProgram&) = delete;
  RankProgram& operator=(const RankProgram&) = delete;

  /// Runs the program. If ranks crash during startup, which is usually a fault of the launcher, starts it again.
  /// Errors: CannotRun after a signal, if ranks refuse to run, and if every start fails; InputError for wrong usage
  /// that only ranks can find.
  Ending run(Signals&);
  /// Throws CannotRun if the launcher itself failed, or if its supervisor did not report.
  void require_end_of_ranks(const Ending&);
  /// For a gate, throws CannotRun with the row in which the program ended, because there is no time for another one.
  void require_end_of_gate(const Ending&) const;
  /// Returns how the program died: the launcher's message about a failed start, else "rank 1 on u2: Killed", else how
  /// the launcher ended.
  std::string death(const Ending&) const;
  /// Returns why the lost hosts cannot measure: what the ranks said, else how the program died.
  std::string why_unfit(const Ending&) const;
  /// Returns the family of the row that began last, or began last in a retest; empty if no row began.
  std::string last_family() const { return family_of(row_); }
  /// Records, for later programs of this run, that this program died or hung while it measured a family.
  void record_crash(const std::filesystem::path& folder, const std::string& family) const;
  /// Prints how the program ended, and writes what it printed to the log.
  void complain(const Ending&, const std::string& what, const std::string& printed = "");

  Job job;
  std::vector<std::string> lost;      // hosts that its ranks reported as lost
  std::vector<int> dead_ranks;        // ranks that its ranks or the launcher reported as dead
  bool hung = false;                  // true if these ranks did not end, but did not advance
  std::vector<DeadRank> dead_before;  // ranks that died in earlier programs of the run
  std::string said;                   // the last text of its ranks for the user
  int starts = 1;
  bool measured = false;  // true if a row has begun or a result has arrived

 private:
  Ending run_once(Signals&);
  void hear(const Event&);
  void say_start() const;
  void show(const Event&);
  void log(std::string_view line);
  std::optional<StartFault> fault_of_start(const Ending&) const;
  bool died_in_start(const Ending&) const;
  void warn_of_time_limit();

  Screen& screen_;
  std::optional<double> ends_;
  std::optional<GateLimit> gate_;
  std::string row_;       // key of the row that began last
  std::string end_said_;  // why ranks ended the program
  double planned_ = 0;
  bool has_rows_ = false;  // from the first event of the program; the result may be read before that event
  int texts_shown_ = 0;
  bool over_tcp_;
  std::optional<EventChannel> channel_;  // channel of the current launch
  std::string name_, refused_;
  std::string misused_;  // usage error that the ranks reported; if they end with exit_usage, the user can correct it
  RunFile log_;
  std::size_t log_bytes_ = 0;
  std::vector<std::string> heard_;  // the first lines on standard error
  bool has_one_host_ = true, restarts_ = false;
  bool is_only_rank_ = false;      // true: the program is the only rank, and is started without a launcher
  bool leaves_hosts_out_ = false;  // true: the other hosts can measure without a host whose ranks crash during startup
  bool has_died_before_ = false;  // true: a host that does not start is a lost host, because earlier programs ran there
};

}  // namespace shakedown
