#include "launch/local_ranks.hpp"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/exit_code.hpp"
#include "base/process.hpp"
#include "base/sha256.hpp"
#include "base/socket.hpp"
#include "launch/launch.hpp"
#include "launch/variables.hpp"

namespace shakedown {
namespace {

const std::string verb = "ranks";

/// The local ranks that run.
class LocalRanks {
 public:
  LocalRanks(int first, int count, const std::vector<std::string>& command) : first_(first) {
    setenv("LOCAL_WORLD_SIZE", std::to_string(count).c_str(), 1);
    if (!set_in(process_environment(), "MASTER_PORT")) make_meeting_place();
    for (int i = 0; i < count && code_ == 0; ++i) {
      setenv("RANK", std::to_string(first + i).c_str(), 1);
      setenv("LOCAL_RANK", std::to_string(i).c_str(), 1);
      const auto started = start({command});
      if (started.error != 0) {
        std::fprintf(stderr, "shakedown: rank %d of %d: %s cannot be started: %s\n", first + i, count,
                     command.front().c_str(), std::strerror(started.error));
        const bool is_of_program = started.error == ENOENT || started.error == EACCES || started.error == ENOEXEC;
        fail(is_of_program ? exit_usage : exit_incomplete);
      } else {
        processes_.push_back(started.pid);
      }
    }
  }

  /// Waits until all ranks have ended. Returns the exit code of the first that failed.
  int wait() {
    constexpr int interval_ms = 20;
    while (std::any_of(processes_.begin(), processes_.end(), [](pid_t process) { return process != 0; })) {
      reap();
      const auto now = std::chrono::steady_clock::now();
      if (failed_ && now > *failed_ + 2 * grace_) {
        end_all(SIGKILL);
      } else if (failed_ && now > *failed_ + grace_) {
        end_all(SIGTERM);
      }
      poll(nullptr, 0, interval_ms);
    }
    return code_;
  }

 private:
  /// Chooses the port of rank 0, and a secret if the user gave none. Each start gets another port, so that a port that
  /// another program takes in the meantime costs one start.
  static void make_meeting_place() {
    int port = 0;
    if (!listen_at("127.0.0.1", port).is_open()) {
      throw CannotRun(std::string("no free port for rank 0 on 127.0.0.1: ") + std::strerror(errno));
    }
    setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");  // ranks would use the port after this one
    const auto environment = process_environment();
    if (!environment("SHAKEDOWN_SECRET") && !environment("SHAKEDOWN_SECRET_FILE")) {
      setenv("SHAKEDOWN_SECRET", hexadecimal(random_bytes(32)).c_str(), 1);
    }
  }

  void fail(int code) {
    if (code_ == 0) code_ = code;
    if (!failed_) failed_ = std::chrono::steady_clock::now();
  }

  void reap() {
    int status = 0;
    pid_t ended = 0;
    while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
      const auto rank = std::find(processes_.begin(), processes_.end(), ended);
      if (rank == processes_.end()) continue;
      *rank = 0;
      const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      if (WIFSIGNALED(status)) {
        std::fprintf(stderr, "shakedown: rank %d was ended by %s\n",
                     first_ + static_cast<int>(rank - processes_.begin()), signal_text(WTERMSIG(status)).c_str());
      }
      if (code != 0) fail(code);
    }
    if (ended < 0 && errno == ECHILD) std::fill(processes_.begin(), processes_.end(), 0);
  }

  void end_all(int signal) {
    for (const pid_t process : processes_) {
      if (process != 0) kill(process, signal);
    }
  }

  static constexpr std::chrono::seconds grace_{5};  // time in which the other ranks report the one that failed
  const int first_;
  std::vector<pid_t> processes_;  // by local rank; 0 if the rank has ended
  int code_ = 0;
  std::optional<std::chrono::steady_clock::time_point> failed_;
};

}  // namespace

std::vector<std::string> local_ranks(const std::string& program, int first, int count) {
  return {program, verb, std::to_string(first), std::to_string(count)};
}

bool is_local_ranks(const std::vector<std::string>& command) {
  return command.size() > 1 && command[1] == verb && std::filesystem::path(command[0]).filename() == "shakedown";
}

int run_ranks_here(const std::vector<std::string>& words) {
  if (words.size() < 3 || number_of(words[1], "COUNT") == 0) return exit_usage;
  return LocalRanks(number_of(words[0], "FIRST"), number_of(words[1], "COUNT"), {words.begin() + 2, words.end()})
      .wait();
}

}  // namespace shakedown
