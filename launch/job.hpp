// Starts programs, reads their output and ends them if necessary. A job never blocks this process forever.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shakedown {

/// Blocks SIGINT, SIGTERM and SIGHUP until Signals handles them, so that none ends this process without a message.
void block_signals();

/// Handles SIGINT, SIGTERM and SIGHUP during its lifetime. Only one object may exist at a time.
class Signals {
 public:
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals();

  int descriptor() const { return descriptor_; }
  /// Returns "SIGTERM" after that signal has arrived, also later.
  const std::optional<std::string>& taken();

 private:
  int descriptor_;
  std::optional<std::string> taken_;
};

struct Job {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> variables = {};  // in addition to those of this process
  bool reads = false;                                               // inherits our standard input; otherwise has none
  /// Called with each line of its standard output and error, without the newline. Null: it inherits our descriptors.
  std::function<void(std::string_view line)> out = {}, error = {};
  /// Ended after this time without an event or a line; nullopt: it may be silent. A line on standard error that repeats
  /// the last one does not count, nor does any such line if it sends events.
  std::optional<std::chrono::duration<double>> silence = std::nullopt;
  /// Total time limit.
  std::optional<std::chrono::duration<double>> limit = std::nullopt;
  /// Descriptors that it inherits: our number, and its number, from 3 to 8.
  std::vector<std::pair<int, int>> descriptors = {};
  /// Called ten times a second while it runs, and at its end, to read other channels. If it returns that the job
  /// announces its end, the job has `last_words` to end.
  enum class Heard { nothing, something, its_end };
  std::function<Heard()> listen = {};
  std::chrono::duration<double> last_words{10};
  /// Time limit after a signal to this process. Then the supervisor ends the job, so that there is time for a verdict.
  std::chrono::duration<double> patience_on_signal{12};
  /// Called ten times a second while it runs.
  std::function<void()> tick = {};
  /// Called after each line. Returns why the job must end; empty if it may continue.
  std::function<std::string()> enough = {};
};

/// mpirun ends with 128 + the signal that ended a rank. Codes from this one on are its own errors.
inline constexpr int first_code_of_no_signal = 160;

/// How a job ended. Neither code nor signal nor a reason: its supervisor ended without a word, or the job was left to
/// it.
struct Ending {
  std::optional<int> code, signal;
  std::string not_started;  // the reason
  std::string told;         // why this process ended it; empty: it ended by itself
  bool was_alone = false;   // then: the job's own process had no living child on this host

  bool good() const { return code == 0 && told.empty(); }
  /// True if the end says something about the program. False if the program could not be started, or its supervisor
  /// could not report.
  bool is_known() const { return not_started.empty() && (code || signal || !told.empty()); }
  /// Returns "mpirun ended with exit code 137: SIGKILL ended a rank or itself".
  std::string text(const std::string& program) const;
};

/// Runs all jobs at the same time until each has ended. To end a job it sends SIGTERM, and 5 s later SIGKILL, to the
/// job and all its processes on this host. The same happens when this process ends for any reason.
std::vector<Ending> run_jobs(const std::vector<Job>&, Signals&);

}  // namespace shakedown
