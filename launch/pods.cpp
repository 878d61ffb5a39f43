#include "launch/pods.hpp"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/exit_code.hpp"
#include "base/process.hpp"
#include "launch/variables.hpp"

namespace shakedown {
namespace {

/// The local ranks that run.
class LocalRanks {
 public:
  LocalRanks(int first, int count, const std::vector<std::string>& command) : first_(first) {
    setenv("LOCAL_WORLD_SIZE", std::to_string(count).c_str(), 1);
    for (int i = 0; i < count && code_ == 0; ++i) {
      setenv("RANK", std::to_string(first + i).c_str(), 1);
      setenv("LOCAL_RANK", std::to_string(i).c_str(), 1);
      const auto started = start({command});
      if (started.error != 0) {
        std::fprintf(stderr, "shakedown: %s: %s\n", command.front().c_str(), std::strerror(started.error));
        fail(exit_usage);
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

std::optional<Pod> pod_of(const Environment& environment) {
  const auto either = [&](const char* of_torchrun, const char* of_rank) {
    const auto value = set_in(environment, of_torchrun);
    return value ? value : set_in(environment, of_rank);
  };
  const auto pods = set_in(environment, "PET_NNODES"), processes = set_in(environment, "PET_NPROC_PER_NODE");
  if ((!pods && !processes) || set_in(environment, "LOCAL_RANK")) return std::nullopt;
  const auto number = either("PET_NODE_RANK", "RANK"), count = either("PET_NNODES", "WORLD_SIZE"),
             address = either("PET_MASTER_ADDR", "MASTER_ADDR"), port = either("PET_MASTER_PORT", "MASTER_PORT");
  if (!number || !count || !address || !port) return std::nullopt;
  if (count->find(':') != std::string::npos) return std::nullopt;  // torchrun would decide how many pods take part
  Pod pod{number_of(*number, "PET_NODE_RANK or RANK"), number_of(*count, "PET_NNODES or WORLD_SIZE"), 0, *address,
          *port};
  if (processes && whole_number<int>(*processes)) pod.processes = number_of(*processes, "PET_NPROC_PER_NODE");
  if (pod.number >= pod.count) {
    throw InputError("PET_NODE_RANK or RANK=" + *number + " is not below the number of pods, " + *count +
                     " by PET_NNODES or WORLD_SIZE: correct or unset them");
  }
  return pod;
}

int run_ranks_here(const std::vector<std::string>& words) {
  if (words.size() < 3 || number_of(words[1], "COUNT") == 0) return exit_usage;
  return LocalRanks(number_of(words[0], "FIRST"), number_of(words[1], "COUNT"), {words.begin() + 2, words.end()})
      .wait();
}

}  // namespace shakedown
