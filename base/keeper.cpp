#include "base/keeper.hpp"

#include <poll.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>

#include "base/process.hpp"
#include "base/timed_call.hpp"

namespace shakedown {
namespace {

using Clock = std::chrono::steady_clock;

/// A call that has already run for this time when a signal arrives is treated as hung.
constexpr Seconds slow_call(2);

std::string this_host() {
  utsname names{};
  return uname(&names) == 0 ? names.nodename : "this host";
}

std::string seconds_text(Seconds time) { return std::to_string(std::lround(time.count())) + " s"; }

class Keeper {
 public:
  Keeper(const Keeping& keeping, const CallBoard& board, const Fork& work, const sigset_t& signals)
      : keeping_(keeping), board_(board), work_(work), hung_(board), signals_(signals) {}

  int watch() {
    for (;;) {
      pollfd ended{work_.descriptor(), POLLIN, 0};
      constexpr int signal_delay_ms = 50;
      if (poll(&ended, 1, signal_delay_ms) < 0) usleep(10'000);
      take_signals();
      if (const auto end = work_.end()) return code_of(*end);
      if (const auto why = why_not(); !why.empty()) return give_up(why);
    }
  }

 private:
  /// Polls for blocked signals, because a descriptor for them may not be available. The terminal sends a signal to both
  /// processes; a signal that another process sends only to this one is forwarded.
  void take_signals() {
    siginfo_t signal{};
    constexpr timespec no_wait{};
    while (sigtimedwait(&signals_, &signal, &no_wait) > 0) {
      signal_ = signal.si_signo;
      if (!signalled_) signalled_ = Clock::now();
      if (signal.si_code != SI_KERNEL) kill(work_.pid(), signal_);
    }
  }

  /// Returns why this process stops waiting for the work; empty if it continues to wait.
  std::string why_not() {
    const auto now = Clock::now();
    if (const auto call = hung_.find()) return unanswered(*call, this_host());
    note_progress_of_work(now);
    const auto call = board_.latest();
    const auto last = call ? ", last in: " + call->what : "";
    const auto quiet = now - progressed_;
    if (signalled_) {
      const bool hangs = quiet > slow_call && call && call->kind != CallKind::phase;
      if (hangs || now - *signalled_ > time_limits().after_signal) return "ended by " + signal_text(signal_) + last;
    }
    if (keeping_.limit && now - began_ > *keeping_.limit) {
      return "no answer within " + seconds_text(*keeping_.limit) + last;
    }
    if (quiet > time_limits().no_progress) return "no progress for " + seconds_text(time_limits().no_progress) + last;
    return "";
  }

  /// Counts two kinds of waiting as progress: the work waits because a pager or other program does not read its output,
  /// or this process itself was stopped.
  void note_progress_of_work(Clock::time_point now) {
    pollfd out{STDOUT_FILENO, POLLOUT, 0};
    const bool waits_for_reader = poll(&out, 1, 0) == 0, was_stopped = now - looked_ > slow_call;
    const auto progress = board_.progress();
    if (progress != progress_ || waits_for_reader || was_stopped) progressed_ = now;
    progress_ = progress;
    looked_ = now;
  }

  int code_of(const Fork::End& end) {
    if (end.signal == 0) return end.code;
    const bool as_told = !keeping_.answers_signals && signalled_ && end.signal == signal_;
    if (as_told || end.signal == SIGPIPE) end_by(end.signal);  // SIGPIPE: the program that reads the output has ended
    return keeping_.answer("died of " + signal_text(end.signal));
  }

  /// Ends this process by the signal that ended the work, as if there were no keeper.
  [[noreturn]] static void end_by(int number) {
    signal(number, SIG_DFL);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &one, nullptr);
    _exit(128 + number);
  }

  int give_up(const std::string& why) {
    const auto end = work_.kill();
    if (!end.is_abandoned) return keeping_.answer(why);
    board_.end_supervisors();
    return keeping_.answer(why + "; process " + std::to_string(work_.pid()) + " is blocked in the kernel and cannot be killed");
  }

  const Keeping& keeping_;
  const CallBoard& board_;
  const Fork& work_;
  HungCalls hung_;
  sigset_t signals_;
  Clock::time_point began_ = Clock::now(), progressed_ = began_, looked_ = began_;
  std::uint64_t progress_ = 0;
  int signal_ = 0;
  std::optional<Clock::time_point> signalled_;
};

}  // namespace

int keep(const Keeping& keeping, const std::function<int()>& work) {
  const CallBoard board;
  sigset_t taken, before;
  sigemptyset(&taken);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&taken, signal);
  sigprocmask(SIG_BLOCK, &taken, &before);
  const auto child = Fork::make("sd-work");
  if (!child || child->is_child()) {
    board.use();
    if (!keeping.answers_signals) sigprocmask(SIG_SETMASK, &before, nullptr);
    const int code = work();
    CallBoard::use_own();
    return code;
  }
  return Keeper(keeping, board, *child, taken).watch();
}

bool try_shortly(const std::function<void()>& work) {
  const auto child = Fork::make("sd-answer");
  if (child && !child->is_child()) {
    const bool returns = child->wait(time_limits().last_words).has_value();
    if (!returns) child->kill();
    return returns;
  }
  work();
  std::fflush(nullptr);
  if (child) _exit(0);
  return true;
}

}  // namespace shakedown
