#include "launch/supervisor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "base/files.hpp"
#include "base/process.hpp"

namespace shakedown {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto term_grace = 5s;  // time from SIGTERM to SIGKILL
constexpr auto kill_grace = 5s;  // time after SIGKILL; a process that still exists then is blocked in the kernel
constexpr auto tick = 100ms;

/// Returns all descendants of this process. Orphans are among them, because they become its children
/// (PR_SET_CHILD_SUBREAPER).
std::vector<pid_t> descendants() {
  std::multimap<pid_t, pid_t> children;
  for (const auto& name : names_in("/proc").value_or(std::vector<std::string>{})) {
    if (std::isdigit(static_cast<unsigned char>(name.front())) == 0) continue;
    const int pid = std::atoi(name.c_str());
    const auto stat = stat_of(pid);
    if (stat && stat->state != 'Z') children.emplace(stat->parent, pid);
  }
  std::vector<pid_t> found{getpid()};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [begin, end] = children.equal_range(found[i]);
    for (auto child = begin; child != end; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

[[noreturn]] void become(const std::vector<std::string>& words, const sigset_t& usual, int failed) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // ends the job if the supervisor itself is killed
  setpgid(0, 0);
  sigprocmask(SIG_SETMASK, &usual, nullptr);
  std::vector<char*> arguments;
  // Execvp does not change the strings.
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  const int why = errno;
  [[maybe_unused]] const auto written = write(failed, &why, sizeof why);
  _exit(127);
}

class Supervisor {
 public:
  Supervisor(int options, const std::vector<std::string>& command) : options_(options) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    fcntl(options_, F_SETFD, FD_CLOEXEC);
    sigset_t watched, usual;
    sigemptyset(&watched);
    // Restores the default: if the caller ignored SIGCHLD, the end of a child would not be reported.
    signal(SIGCHLD, SIG_DFL);
    for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&watched, signal);
    sigprocmask(SIG_BLOCK, &watched, &usual);
    signals_ = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0 || !start(command, usual)) {
      why_not_ = std::strerror(errno);
      tell(0);
    } else {
      say("begun");
    }
    // Closes the supervisor's standard streams, because `shakedown` reads the output of the job until all writers have
    // closed it.
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int descriptor : {0, 1, 2}) dup2(nothing, descriptor);
    close(nothing);
  }

  void watch() {
    while (true) {
      reap();
      if (ended_ && descendants().empty()) return;
      if (ended_ && !std::exchange(swept_, true)) {  // ends processes that the launcher did not end
        for (const pid_t process : descendants()) kill(process, SIGTERM);
        if (!told_) told_ = Clock::now();
      }
      if (told_) {
        if (Clock::now() > *told_ + term_grace) {
          for (const pid_t process : descendants()) kill(process, SIGKILL);
        }
        if (Clock::now() > *told_ + term_grace + kill_grace) return;
      }
      std::array<pollfd, 2> files{{{signals_, POLLIN, 0}, {told_ ? -1 : options_, POLLIN, 0}}};
      poll(files.data(), files.size(), told_ || ended_ ? static_cast<int>(tick / 1ms) : -1);
      signalfd_siginfo signal{};
      while (read(signals_, &signal, sizeof signal) == sizeof signal) {
        if (signal.ssi_signo != SIGCHLD) end();
      }
      if (files[1].revents != 0) end();
    }
  }

 private:
  /// Starts the job. Returns false with errno if no process can be created. If the new process cannot execute the
  /// command, it writes the reason to why_not_.
  bool start(const std::vector<std::string>& command, const sigset_t& usual) {
    auto failed = make_pipe();
    if (!failed) return false;
    job_ = fork();
    if (job_ == 0) become(command, usual, failed->write_end.get());
    const int no_process = errno;
    if (job_ > 0) setpgid(job_, job_);
    failed->write_end.close_now();
    int why = 0;
    if (job_ > 0 && read(failed->read_end.get(), &why, sizeof why) == sizeof why) why_not_ = std::strerror(why);
    errno = no_process;
    return job_ > 0;
  }

  void reap() {
    int status = 0;
    pid_t process = 0;
    while ((process = waitpid(-1, &status, WNOHANG)) > 0) {
      if (process == job_) tell(status);
    }
    // It is unknown how the job ended, so nothing is reported.
    if (process < 0 && errno != EINTR) ended_ = true;
  }

  void tell(int status) {
    ended_ = true;
    const auto line = !why_not_.empty()     ? "error " + why_not_
                      : WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                            : "exit " + std::to_string(WEXITSTATUS(status));
    say(line);
  }

  void say(const std::string& line) const {
    [[maybe_unused]] const auto sent = send(options_, line.data(), line.size(), MSG_NOSIGNAL);
  }

  void end() {
    if (told_) return;
    told_ = Clock::now();
    if (job_ > 0 && descendants() == std::vector<pid_t>{job_}) say("alone");
    // mpirun and srun, after SIGTERM, end their ranks on all hosts. Ranks of other launchers end with the launcher, or
    // by SIGKILL.
    if (job_ > 0) kill(-job_, SIGTERM);
  }

  int options_, signals_ = -1;
  pid_t job_ = 0;
  std::string why_not_;
  bool ended_ = false, swept_ = false;
  std::optional<Clock::time_point> told_;
};

}  // namespace

int supervise(const std::vector<std::string>& words) {
  if (words.size() < 2) return 2;
  Supervisor(std::atoi(words.front().c_str()), {words.begin() + 1, words.end()}).watch();
  return 0;
}

}  // namespace shakedown
