// Decides what the answer is where judging dies. Our own fault sends no machine to repair: only what a row itself says
// of wrong data or of a device fails.
#include "report/judge_apart.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

#include "base/key.hpp"
#include "thresholds/judge.hpp"

namespace shakedown {
namespace {

using Clock = std::chrono::steady_clock;

/// A killed process ends in this time, unless the kernel waits for a disk or a driver.
constexpr std::chrono::seconds to_end{5};

/// A process that has been started, and the pipe that is at its end when the process has ended.
class Child {
 public:
  /// `pid`: 0 in the child.
  Child(pid_t pid, const std::array<int, 2>& pipe) : pid_(pid), end_(pipe[0]) {
    if (pid_ != 0) close(pipe[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ != 0) close(end_);
  }

  bool is_here() const { return pid_ == 0; }

  struct End {
    int code = 0;
    std::string died;  // empty: it ended by itself, with the code
  };

  End wait(std::chrono::milliseconds limit) const {
    const bool ended = has_ended(limit);
    if (!ended) {
      kill(pid_, SIGKILL);
      has_ended(to_end);
    }
    int status = 0;
    // One that cannot be killed stays.
    while (waitpid(pid_, &status, ended ? 0 : WNOHANG) < 0 && errno == EINTR) {
    }
    if (!ended) return {0, "gave no answer within " + std::to_string(limit.count() / 1000) + " s"};
    if (WIFEXITED(status)) return {WEXITSTATUS(status), ""};
    const char* const name = sigabbrev_np(WTERMSIG(status));
    return {0, "died of " + (name == nullptr ? std::to_string(WTERMSIG(status)) : "SIG" + std::string(name))};
  }

 private:
  bool has_ended(std::chrono::milliseconds limit) const {
    const auto until = Clock::now() + limit;
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
      pollfd end{end_, 0, 0};
      if (poll(&end, 1, static_cast<int>(std::max<std::int64_t>(0, left.count()))) >= 0 || errno != EINTR)
        return end.revents != 0;
    }
  }

  pid_t pid_;
  int end_;
};

/// nullopt if no process can be started.
std::optional<Child> started() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  std::fflush(nullptr);  // else both would write what is not written yet
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0) {
    close(ends[0]);
    close(ends[1]);
    return std::nullopt;
  }
  if (pid == 0) {
    close(ends[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
  }
  return std::optional<Child>(std::in_place, pid, ends);
}

/// What CUDA and its libraries call their errors.
bool is_device_error(std::string_view error) {
  constexpr std::array<std::string_view, 6> words{"wrong data",     "cudaError",     "CUDA error",
                                                  "CUBLAS_STATUS_", "CUDNN_STATUS_", "XID"};
  return std::any_of(words.begin(), words.end(), [&](auto word) { return error.find(word) != std::string_view::npos; });
}

Finding finding_of(const Row& row, const Context& context) {
  Finding finding;
  finding.key = row.key;
  finding.status = !row.wrong_ranks.empty() || is_device_error(*row.error) ? Status::fail : Status::missing;
  finding.detail = *row.error;
  finding.wrong_ranks = row.wrong_ranks;
  std::vector<Culprit> offenders;
  for (const int rank : row.wrong_ranks) {
    offenders.push_back(culprit(context.ranks.at(static_cast<std::size_t>(rank))));
  }
  name_offenders(finding, std::move(offenders));
  finding.next = measure_command(row.key, context.world_size);
  return finding;
}

Finding died_finding(const Arguments& arguments, const std::string& died) {
  Finding finding;
  finding.key = "machine/complete";
  finding.status = Status::missing;
  finding.detail = "the judge " + died + ", results kept: nothing was compared with a limit";
  const std::string where = arguments.results.empty() ? "DIR" : arguments.results.front().string();
  finding.next = "report this fault of shakedown with the file that this writes: shakedown archive --results=" + where;
  return finding;
}

}  // namespace

std::optional<std::string> continue_in_child(std::chrono::milliseconds limit) {
  const auto child = started();
  if (!child || child->is_here()) return std::nullopt;
  const auto end = child->wait(limit);
  if (end.died.empty()) _exit(end.code);
  return end.died;
}

std::optional<std::string> death_of(const std::function<void()>& work, std::chrono::milliseconds limit) {
  const auto child = started();
  if (!child) return std::nullopt;
  if (child->is_here()) {
    try {
      work();
    } catch (const std::exception&) {  // no death: this process will meet it, too
    }
    _exit(0);
  }
  const auto end = child->wait(limit);
  return end.died.empty() ? std::nullopt : std::optional(end.died);
}

namespace {

/// The answer where reading the raw rows ends the process, too.
Judged judged_by_nothing(const Arguments& arguments, const std::string& died) {
  Judged judged;
  judged.verdict.findings.push_back(died_finding(arguments, died));
  conclude(judged.verdict);
  return judged;
}

}  // namespace

Judged judged_by_raw_rows(const Arguments& arguments, const std::string& died) {
  Judged judged;
  Verdict& verdict = judged.verdict;
  if (!arguments.results.empty()) {
    judged.measured = std::make_unique<const Measured>(read_results(arguments.results));
    verdict = before_judging(judged.measured->files, arguments.judge);
  }
  verdict.findings.push_back(died_finding(arguments, died));
  const auto& options = arguments.judge;
  for (const Results& file : judged.measured ? judged.measured->files : std::vector<Results>{}) {
    if (options.run_id && file.context.run_id != *options.run_id) continue;
    for (const Row& row : file.rows) {
      if (!row.error || !options.families.has_key(row.key)) continue;
      verdict.findings.push_back(finding_of(row, file.context));
    }
  }
  conclude(verdict);
  return judged;
}

Judged judge_apart(const Arguments& arguments, const std::function<Judged()>& judge) {
  const auto died = continue_in_child();
  if (!died) return judge();
  if (continue_in_child()) return judged_by_nothing(arguments, *died);
  Judged judged = judged_by_raw_rows(arguments, *died);
  judged.measured.reset();  // figures may be what the judge or a report died of
  return judged;
}

Judged judge_apart(const Arguments& arguments) {
  return judge_apart(arguments, [&] { return judge(arguments); });
}

Judged judge_after_trial(const Arguments& arguments) {
  const auto died = death_of([&] { judge(arguments); });
  if (!died) return judge(arguments);
  if (!death_of([&] { judged_by_raw_rows(arguments, *died); })) return judged_by_raw_rows(arguments, *died);
  return judged_by_nothing(arguments, *died);
}

}  // namespace shakedown
