// Runs a benchmark program on all ranks: its command, its launch, its messages, and its end.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/agreement.hpp"
#include "launch/event_channel.hpp"
#include "launch/progress.hpp"
#include "launch/run_folder.hpp"
#include "launch/start_faults.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown {

/// Returns a benchmark program of this build: in bench/ of a build tree, in bin/ of an installed copy.
struct Programs {
  std::filesystem::path folder;
  std::vector<std::string> families;  // in measuring order

  std::string of(const std::string& family) const { return folder / ("bench_" + family); }
};

/// Returns the programs. Errors: CannotRun if there are none; InputError for an unknown family.
Programs find_programs(const std::vector<std::string>& families);

/// Returns a program on all ranks with these variables and the requested NCCL library.
using Variables = std::vector<std::pair<std::string, std::string>>;
Job job_of_ranks(const AcceptOptions&, const Launch&, const std::vector<std::string>& command, Variables = {});

/// Returns the file of stored tuning choices, next to the run folders, so that later runs find it.
std::string choices_beside(const std::filesystem::path& folder);

/// Returns the expectation of the launch and of the user in the form of --expect. The user's part is last and therefore
/// prevails.
std::string all_expected(const AcceptOptions&, const Launch&);

/// Returns the flags that say which backend the programs use, if the user names one.
std::vector<std::string> backend_flags(const AcceptOptions&);

/// The program that measures all families in one process per rank.
inline const std::string resident = "all";

/// A program and its flags, which are the same on all ranks.
std::vector<std::string> command_of(const AcceptOptions&, const Launch&, const Programs&, const std::string& name,
                                    const std::vector<std::string>& flags);

/// True if a program completed, possibly with error rows (1). Any other code is a crash.
bool succeeded(const Ending&);

/// A benchmark program on all ranks: its log, what people shall see of it, and the limits of its silence.
class RankProgram {
 public:
  RankProgram(const AcceptOptions&, const Launch&, const Programs&, const std::filesystem::path& folder,
              const std::string& id, const std::string& name, const std::vector<std::string>& flags, Screen&);
  RankProgram(const RankProgram&) = delete;
  RankProgram& operator=(const RankProgram&) = delete;

  /// Runs it, and restarts it if ranks crash during startup, which is usually a fault of the launcher. Errors:
  /// CannotRun after a signal, if ranks refuse to run, and if every start fails.
  Ending run(Signals&);
  /// Throws CannotRun if the launcher itself failed, or its supervisor did not report.
  void require_end_of_ranks(const Ending&);
  /// Returns the launcher's message about a failed start, else "rank 1 on u2: Killed", else how it ended.
  std::string death(const Ending&) const;
  /// Records for later programs of the run that this one died in a family.
  void record_crash(const std::filesystem::path& folder, const std::string& family) const;
  /// Says how it ended, and keeps what it printed.
  void complain(const Ending&, const std::string& what, const std::string& printed = "");

  Job job;
  std::vector<std::string> lost;  // hosts that its ranks named
  std::vector<int> dead_ranks;    // that its ranks or the launcher named
  std::vector<DeadRank> dead_before;  // in earlier programs of the run
  std::string said;               // by its ranks to people, last
  int starts = 1;
  bool measured = false;  // a row has begun, or a result has arrived

 private:
  Ending run_once(Signals&);
  void hear(const Event&);
  void show(const Event&);
  void log(std::string_view line);
  std::optional<StartFault> fault_of_start(const Ending&) const;
  bool died_in_start(const Ending&) const;
  void warn_of_time_limit();

  Screen& screen_;
  std::optional<double> ends_;
  double planned_ = 0;
  bool has_rows_ = false;  // from the event at its begin; the result may be read earlier
  int texts_shown_ = 0;
  bool over_tcp_;
  std::optional<EventChannel> channel_;  // of the current launch
  std::string name_, refused_;
  RunFile log_;
  std::size_t log_bytes_ = 0;
  std::vector<std::string> heard_;  // the first lines on standard error
  bool has_one_host_ = true, restarts_ = false;
  bool has_died_before_ = false;  // then a host that does not start is a host that was lost
};

}  // namespace shakedown
