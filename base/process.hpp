// Processes: how they are started, heard and given up, and what the kernel says of them.
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
  std::string started;  // ticks since the boot (sysconf(_SC_CLK_TCK) a second): tells it from a later one of its number
};

/// Of /proc/PID/stat (proc(5)); nothing where there is no such process, or it cannot be seen.
std::optional<ProcessStat> stat_of(int pid);

/// "SIGKILL"; "signal 64" for one that has no name.
std::string signal_text(int signal);

/// A program to start. It blocks no signal, and SIGINT, SIGTERM, SIGHUP and SIGPIPE end it, whatever this process has
/// set for itself.
struct NewProcess {
  std::vector<std::string> command;                   // found in PATH
  std::string program = {};                           // the file to run if the command's first word is not it
  std::vector<std::string> environment = {};          // NAME=VALUE; empty: that of this process
  std::vector<std::pair<int, int>> descriptors = {};  // ours, and its number there
  bool has_input = false;                             // reads our standard input; else there is none
  bool own_session = false;                           // no signal of a terminal reaches it
};

/// A started process, or errno.
struct Started {
  pid_t pid = 0;
  int error = 0;
};
Started start(const NewProcess&);

struct CommandOutput {
  bool started = false;    // no: there is no such program in PATH
  bool timed_out = false;  // it was ended when its time was over
  int code = 0;            // its exit code; 128 and a signal's number where that ended it
  std::string text;        // what it printed, standard error too
};
template <class Archive>
void members(Archive& archive, CommandOutput& output) {
  archive("started", output.started)("timed_out", output.timed_out)("code", output.code)("text", output.text);
}

/// Runs a program without a shell and without input. After `limit` it gets SIGTERM, so that it can tell those who work
/// for it, and after `last_words` SIGKILL. What it has left running is not waited for, nor a program that even SIGKILL
/// does not end, since it waits in the kernel.
CommandOutput output_of(const std::vector<std::string>& command, std::chrono::duration<double> limit,
                        std::chrono::duration<double> last_words = std::chrono::seconds(30));

/// A copy of this process, which goes on from where it was made.
class Fork {
 public:
  /// Both processes return from here. The child is killed when its parent ends, and `name` is what ps shows (15
  /// characters). nullopt if no process can be started.
  static std::optional<Fork> make(const char* name);

  bool is_child() const { return pid_ == 0; }
  pid_t pid() const { return pid_; }
  /// In the parent: becomes readable when the child has ended.
  int descriptor() const { return end_.get(); }

  struct End {
    int code = 0;               // its exit code; exit_incomplete if the kernel does not tell
    int signal = 0;             // the signal that ended it; 0: it ended by itself
    bool is_abandoned = false;  // even SIGKILL has not ended it
  };
  /// Its end; nullopt if it runs.
  std::optional<End> end() const;
  /// Waits for its end; nullopt if it runs longer than `limit`.
  std::optional<End> wait(std::chrono::duration<double> limit) const;
  /// Sends SIGKILL, and returns its end.
  End kill() const;

 private:
  Fork(pid_t pid, Descriptor end) : pid_(pid), end_(std::move(end)) {}

  pid_t pid_;
  Descriptor end_;
};

/// What work in a child process has come to.
struct Apart {
  std::optional<std::string> text;  // what the work returned
  std::string why_not;              // no text: the call that does not answer, or the signal that ended the child
};
/// Runs `work` in a child process, so that calls that do not return cannot hold this one up. An exception of the work
/// is no answer, and its message is the reason.
Apart run_apart(const std::function<std::string()>& work);

}  // namespace shakedown
