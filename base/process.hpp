// Starts processes, captures their output, abandons those that hang, and reads their state from the kernel.
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
  /// Clock ticks since boot (sysconf(_SC_CLK_TCK) per second). Distinguishes it from a later process with the same PID.
  std::string started;
};

/// Returns the contents of /proc/PID/stat (proc(5)); nullopt if there is no such process or it is not visible.
std::optional<ProcessStat> stat_of(int pid);

/// Returns "SIGKILL"; "signal 64" if the signal has no name.
std::string signal_text(int signal);

/// A program to start. It starts without blocked signals and with default handlers for SIGINT, SIGTERM, SIGHUP and
/// SIGPIPE, independent of the settings of this process.
struct NewProcess {
  std::vector<std::string> command;                   // searched in PATH
  std::string program = {};                           // file to run if it differs from the first word of the command
  std::vector<std::string> environment = {};          // NAME=VALUE; empty: inherited
  std::vector<std::pair<int, int>> descriptors = {};  // descriptor here, number in the child
  bool has_input = false;                             // inherits standard input; otherwise reads /dev/null
  bool own_session = false;                           // signals from the terminal do not reach it
};

/// The PID of a started process, or errno.
struct Started {
  pid_t pid = 0;
  int error = 0;
};
Started start(const NewProcess&);

struct CommandOutput {
  bool started = false;    // false: no such program in PATH
  bool timed_out = false;  // ended by the time limit
  int code = 0;            // exit code; 128 + signal number if a signal ended it
  std::string text;        // standard output and standard error
};
template <class Archive>
void members(Archive& archive, CommandOutput& output) {
  archive("started", output.started)("timed_out", output.timed_out)("code", output.code)("text", output.text);
}

/// Runs a program without a shell and without input. Sends SIGTERM after `limit`, so that it can stop its own children,
/// and SIGKILL `last_words` later. Does not wait for processes that it leaves running, nor for a process that survives
/// SIGKILL because it is blocked in the kernel.
CommandOutput output_of(const std::vector<std::string>& command, std::chrono::duration<double> limit,
                        std::chrono::duration<double> last_words = std::chrono::seconds(30));

/// A copy of this process that continues from the point of the fork.
class Fork {
 public:
  /// Forks; both processes return from here. The child is killed when its parent ends. ps shows `name` (15 characters).
  /// nullopt if no process can be started.
  static std::optional<Fork> make(const char* name);

  bool is_child() const { return pid_ == 0; }
  pid_t pid() const { return pid_; }
  /// In the parent: becomes readable when the child has ended.
  int descriptor() const { return end_.get(); }

  struct End {
    int code = 0;               // exit code; exit_incomplete if the kernel does not report it
    int signal = 0;             // signal that ended it; 0 if it exited
    bool is_abandoned = false;  // not even SIGKILL has ended it
  };
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

/// The result of work in a child process.
struct Apart {
  std::optional<std::string> text;  // return value of the work
  std::string why_not;              // without a text: the hanging call, the signal, or the message of an exception
};
/// Runs `work` in a child process, so that calls that hang do not block this process. If the work throws, there is no
/// text and `why_not` is the message of the exception.
Apart run_apart(const std::function<std::string()>& work);

}  // namespace shakedown
