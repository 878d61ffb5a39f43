// Starts programs, reads their output, and ends them if necessary. A job cannot block this process forever.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shakedown {

/// Blocks SIGINT, SIGTERM and SIGHUP until an object of Signals handles them, so that none of them ends this process
/// without a message.
void block_signals();

/// Handles SIGINT, SIGTERM and SIGHUP during the lifetime of the object. Only one object may exist at a time.
class Signals {
 public:
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals();

  int descriptor() const { return descriptor_; }
  /// Returns the name of the first signal that has arrived, such as "SIGTERM"; nullopt if none has.
  const std::optional<std::string>& taken();

 private:
  int descriptor_;
  std::optional<std::string> taken_;
};

struct Job {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> variables = {};  // added to the environment of this process
  /// True: the job reads the standard input of this process; false: the job has no input.
  bool reads = false;
  /// Called with each line of the job's standard output and error, without the newline. If null, the job writes to the
  /// descriptors of this process.
  std::function<void(std::string_view line)> out = {}, error = {};
  /// The job is ended after this time without an event or a line of output; nullopt: no limit. A line on standard error
  /// that repeats the last one does not reset the time. If the job sends events, lines on standard error never reset
  /// the time.
  std::optional<std::chrono::duration<double>> silence = std::nullopt;
  /// The job is ended after this time.
  std::optional<std::chrono::duration<double>> limit = std::nullopt;
  /// Descriptors that the job inherits: the number in this process, and the number in the job, from 3 to 8.
  std::vector<std::pair<int, int>> descriptors = {};
  /// Called ten times a second while the job runs, and once at its end, to read other channels. If it returns its_end,
  /// the job has announced its end, and has the time `last_words` to exit.
  enum class Heard { nothing, something, its_end };
  std::function<Heard()> listen = {};
  std::chrono::duration<double> last_words{10};
  /// How long the job may continue after a signal to this process. After this time the supervisor ends the job, so that
  /// there is still time for a verdict.
  std::chrono::duration<double> patience_on_signal{12};
  /// Called ten times a second while the job runs.
  std::function<void()> tick = {};
  /// Called after each line. Returns why the job must be ended; empty if it may continue.
  std::function<std::string()> enough = {};
};

/// mpirun exits with 128 + the signal that ended a rank. From this code on, codes are errors of mpirun itself.
inline constexpr int first_code_of_no_signal = 160;

/// How a job ended. If there is no code, no signal and no reason, the supervisor ended without a report, or did not end
/// the job in time.
struct Ending {
  std::optional<int> code, signal;
  std::string not_started;  // why it could not be started; empty if it was started
  std::string told;         // why this process ended the job; empty if the job ended by itself
  bool was_alone = false;   // true if this process ended the job and the job had no living child on this host

  bool good() const { return code == 0 && told.empty(); }
  /// True if the program ran and it is known how it ended. False if the program could not be started, or its supervisor
  /// did not report.
  bool is_known() const { return not_started.empty() && (code || signal || !told.empty()); }
  /// Returns "mpirun ended with exit code 137: SIGKILL ended a rank or itself".
  std::string text(const std::string& program) const;
};

/// Runs all jobs at the same time until each has ended. To end a job, it sends SIGTERM, and 5 s later SIGKILL, to all
/// processes of the job on this host. The jobs are also ended if this process ends for any reason.
std::vector<Ending> run_jobs(const std::vector<Job>&, Signals&);

}  // namespace shakedown
