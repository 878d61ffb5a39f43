// Starts processes, reads their output, stops waiting for those that hang, and reads the state of a process from the
// kernel.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"

namespace shakedown {

struct ProcessStat {
  char state = '?';
  int parent = 0;
  /// Start time in clock ticks since boot (sysconf(_SC_CLK_TCK) per second). The start time distinguishes the process
  /// from a later process with the same PID.
  std::string started;
};

/// Returns the state of a process from /proc/PID/stat (proc(5)); nullopt if there is no such process or it is not
/// visible.
std::optional<ProcessStat> stat_of(int pid);

/// Returns the name of a signal, such as "SIGKILL"; "signal 64" if it has none.
std::string signal_text(int signal);

/// A program to start. The program starts with no blocked signals and with default handlers for SIGINT, SIGTERM,
/// SIGHUP, SIGPIPE and SIGCHLD, whatever this process has set.
struct NewProcess {
  std::vector<std::string> command;                   // the program is searched in PATH
  std::string program = {};                           // file to run if it differs from the first word of the command
  std::vector<std::string> environment = {};          // NAME=VALUE; empty: the program inherits the environment
  std::vector<std::pair<int, int>> descriptors = {};  // descriptor in this process, and its number in the child
  bool has_input = false;                             // true: inherits standard input; false: reads /dev/null
  bool own_session = false;                           // true: signals from the terminal do not reach the program
};

/// The PID of a started process, or errno.
struct Started {
  pid_t pid = 0;
  int error = 0;
};
Started start(const NewProcess&);

struct ProcessEnd {
  int code = 0;               // exit code; exit_incomplete if the kernel does not report it
  int signal = 0;             // signal that ended it; 0 if it exited
  bool is_abandoned = false;  // true: not even SIGKILL has ended it
};
/// Returns how a child ended; nullopt if it is still running.
std::optional<ProcessEnd> end_of(pid_t child);

struct CommandOutput {
  bool started = false;    // false: PATH has no such program
  bool timed_out = false;  // true: the time limit ended the program
  int code = 0;            // exit code; 128 + signal number if a signal ended it
  std::string text;        // standard output and standard error
};
template <class Archive>
void members(Archive& archive, CommandOutput& output) {
  archive("started", output.started)("timed_out", output.timed_out)("code", output.code)("text", output.text);
}

/// Runs a program without a shell and without input. Sends SIGTERM after `limit`, so that the program can stop its own
/// children, and SIGKILL `last_words` later. Does not wait for processes that the program has not ended, nor for a
/// process that survives SIGKILL because it is blocked in the kernel.
CommandOutput output_of(const std::vector<std::string>& command, std::chrono::duration<double> limit,
                        std::chrono::duration<double> last_words = std::chrono::seconds(30));

/// A copy of this process that continues from the point of the fork.
class Fork {
 public:
  /// Forks. Both processes return from this call. The child is killed when its parent ends. ps shows `name` (up to 15
  /// characters). nullopt if no process can be started.
  static std::optional<Fork> make(const char* name);

  bool is_child() const { return pid_ == 0; }
  pid_t pid() const { return pid_; }
  /// Returns a descriptor that, in the parent, becomes readable when the child has ended.
  int descriptor() const { return end_.get(); }

  using End = ProcessEnd;
  /// Returns how the child ended; nullopt if it is still running.
  std::optional<End> end() const;
  /// Waits for the child to end; nullopt if it runs longer than `limit`.
  std::optional<End> wait(std::chrono::duration<double> limit) const;
  /// Sends SIGKILL and returns how the child ended.
  End kill() const;

 private:
  Fork(pid_t pid, Descriptor end) : pid_(pid), end_(std::move(end)) {}

  pid_t pid_;
  Descriptor end_;
};

/// The result of work that ran in a child process.
struct Apart {
  std::optional<std::string> text;  // return value of the work
  /// If there is no text: the call that hangs, the signal, or the message of an exception.
  std::string why_not;
};
/// Runs `work` in a child process, so that a call that hangs does not block this process. If the work throws an
/// exception, there is no text, and `why_not` is its message.
Apart run_apart(const std::function<std::string()>& work);

}  // namespace shakedown
