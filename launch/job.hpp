// Programs that are started, heard and, where need be, ended: nothing that they do makes us wait for ever.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shakedown {

/// Keeps SIGINT, SIGTERM and SIGHUP for the Signals to come: none ends this process before it can say so.
void block_signals();

/// Takes SIGINT, SIGTERM and SIGHUP while it lives, and hands them to the code that waits. One at a time.
class Signals {
 public:
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals();

  int descriptor() const { return descriptor_; }
  /// "SIGTERM" once one has come; it stays.
  const std::optional<std::string>& taken();

 private:
  int descriptor_;
  std::optional<std::string> taken_;
};

struct Job {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> variables = {};  // in addition to those of this process
  bool reads = false;                                               // has our standard input, else none
  /// Each line of its standard output and error, without its end. Nothing: ours.
  std::function<void(std::string_view line)> out = {}, error = {};
  /// Ended after this time without an event or a line; nullopt: it may be silent. A line on standard error that repeats
  /// the last one does not count, nor does any such line if it sends events.
  std::optional<std::chrono::duration<double>> silence = std::nullopt;
  /// Ended after so long in any case.
  std::optional<std::chrono::duration<double>> limit = std::nullopt;
  /// Descriptors that it inherits: here, and their numbers there, from 3 to 8.
  std::vector<std::pair<int, int>> descriptors = {};
  /// Called ten times a second while it runs, and at its end: reads what it says elsewhere. That it says that it ends
  /// gives it `last_words`.
  enum class Heard { nothing, something, its_end };
  std::function<Heard()> listen = {};
  std::chrono::duration<double> last_words{10};
  /// After a signal to this process it is left to its supervisor once this has passed, so that there is time for a
  /// verdict.
  std::chrono::duration<double> patience_on_signal{12};
  /// Called ten times a second while it runs.
  std::function<void()> tick = {};
  /// Asked after each line: why it shall be ended; empty: goes on.
  std::function<std::string()> enough = {};
};

/// mpirun ends with 128 + the signal that ended a rank. Codes from this one on are its own errors.
inline constexpr int first_code_of_no_signal = 160;

/// How a job ended. Neither code nor signal nor a reason: its supervisor ended without a word, or the job was left to
/// it.
struct Ending {
  std::optional<int> code, signal;
  std::string not_started;  // why
  std::string told;         // why it was ended from here; empty: it ended by itself

  bool good() const { return code == 0 && told.empty(); }
  /// Whether this says something about what ran: not where it could not be started, or its supervisor could not report.
  bool is_known() const { return not_started.empty() && (code || signal || !told.empty()); }
  /// "mpirun ended with exit code 137: SIGKILL ended a rank or itself"
  std::string text(const std::string& program) const;
};

/// Runs the jobs, all at once, until each has ended. One that is ended gets SIGTERM, 5 s later SIGKILL, and with it all
/// that it started on this host; that also happens when this process ends, however it does.
std::vector<Ending> run_jobs(const std::vector<Job>&, Signals&);

}  // namespace shakedown
