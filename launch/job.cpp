#include "launch/job.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <system_error>

#include "base/process.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"

namespace shakedown {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Time that a supervisor has to end its job, which takes at most 10 s. After this time, `shakedown` no longer waits for
// the supervisor.
constexpr auto patience = 12s;

sigset_t our_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

/// Splits the output of a job into lines.
class Lines {
 public:
  Lines() = default;
  explicit Lines(Descriptor pipe) : pipe_(std::move(pipe)) { fcntl(pipe_.get(), F_SETFL, O_NONBLOCK); }
  int descriptor() const { return pipe_.get(); }

  /// Reads the data that has arrived and calls `visit` with each complete line.
  template <class Visitor>
  void take(const Visitor& visit) {
    std::array<char, 65536> buffer{};
    while (pipe_.get() >= 0) {
      const auto count = read(pipe_.get(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return;
      if (count == 0) {
        pipe_.close_now();
        if (!begun_.empty()) visit(std::string_view(begun_));
        begun_.clear();
        return;
      }
      std::string_view read_now(buffer.data(), static_cast<std::size_t>(count));
      for (auto end = read_now.find('\n'); end != std::string_view::npos; end = read_now.find('\n')) {
        begun_ += read_now.substr(0, end);
        // If the launcher gave ranks a terminal, lines end with CR LF.
        if (!begun_.empty() && begun_.back() == '\r') begun_.pop_back();
        visit(std::string_view(begun_));
        begun_.clear();
        read_now.remove_prefix(end + 1);
      }
      begun_ += read_now;
    }
  }

 private:
  Descriptor pipe_;
  std::string begun_;
};

/// Returns the environment of this process, with the given variables added or replaced.
std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> all;
  for (const auto& [name, value] : variables) all.push_back(name + "=" + value);
  const auto own = all.size();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto same = [&](const std::string& other) {
      return text.substr(0, text.find('=')) == std::string_view(other).substr(0, other.find('='));
    };
    if (std::none_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(own), same)) all.emplace_back(text);
  }
  return all;
}

class Running {
 public:
  explicit Running(const Job& job) : job_(job) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      throw std::system_error(errno, std::generic_category(), "socketpair");
    }
    supervisor_socket_ = Descriptor(ends[0]);
    const Descriptor theirs(ends[1]);
    auto pipe = make_pipe(), error_pipe = make_pipe();
    if (!pipe || !error_pipe) throw std::system_error(errno, std::generic_category(), "pipe");
    auto& [out, out_end] = *pipe;
    auto& [error, error_end] = *error_pipe;
    // Moves a descriptor to a number that the job does not use: dup2 to the same number would leave close-on-exec set.
    constexpr int kept = 9;
    NewProcess supervisor{
        {"shakedown", "supervisor", std::to_string(kept)}, "/proc/self/exe", environment_with(job.variables)};
    supervisor.command.insert(supervisor.command.end(), job.command.begin(), job.command.end());
    if (job.out) supervisor.descriptors.emplace_back(out_end.get(), STDOUT_FILENO);
    if (job.error) supervisor.descriptors.emplace_back(error_end.get(), STDERR_FILENO);
    supervisor.descriptors.emplace_back(theirs.get(), kept);
    std::copy(job.descriptors.begin(), job.descriptors.end(), std::back_inserter(supervisor.descriptors));
    supervisor.has_input = job.reads;
    supervisor.own_session = true;
    const auto started = start(supervisor);
    if (started.error != 0) {
      throw std::system_error(started.error, std::generic_category(), "the supervisor process cannot be started");
    }
    supervisor_ = started.pid;
    entry_.emplace(supervisor_);
    if (job.out) out_ = Lines(std::move(out));
    if (job.error) error_ = Lines(std::move(error));
  }

  void add_to(std::vector<pollfd>& files) const {
    for (const int descriptor : {supervisor_socket_.get(), out_.descriptor(), error_.descriptor()}) {
      files.push_back({descriptor, POLLIN, 0});
    }
  }

  void look() {
    listen();  // reads events first, because the events of a row are sent before its result
    read_output();
    receive();
    int status = 0;
    const pid_t ended = waitpid(supervisor_, &status, WNOHANG);
    if (ended == supervisor_ || (ended < 0 && errno != EINTR)) {
      supervisor_ = 0;
      receive();
      // Reads what is still in the pipes. Does not wait for other processes that keep the pipes open.
      read_output();
      listen();
    }
    const auto now = Clock::now();
    if (told_ && now > *told_ + patience_) supervisor_ = 0;
    if (!told_ && !over()) require_supervisor(now);
    if (!over() && !ended_by_itself()) {
      if (job_.limit && now > began_ + *job_.limit) end("it took longer than " + seconds(*job_.limit));
      if (job_.silence && now > heard_ + *job_.silence)
        end("it printed and sent nothing for " + seconds(*job_.silence));
      if (last_words_ && now > *last_words_ + job_.last_words) {
        end("it announced its end, but did not end within " + seconds(job_.last_words));
      }
    }
  }

  void end_by_signal(const std::string& signal) {
    patience_ = job_.patience_on_signal;
    end("by " + signal);
  }

  void end(const std::string& why) {
    if (told_ || over()) return;
    told_ = Clock::now();
    ending_.told = why;
    [[maybe_unused]] const auto sent = send(supervisor_socket_.get(), "T", 1, MSG_NOSIGNAL);
  }

  void tick() const {
    if (job_.tick) job_.tick();
  }
  bool over() const { return supervisor_ == 0; }
  bool leaving() const { return !over() && supervisor_socket_.get() < 0; }
  const Ending& ending() const { return ending_; }

 private:
  /// A supervisor that hangs (in /proc or in reading the program) must delay only its own job.
  void require_supervisor(Clock::time_point now) {
    if (ended_by_itself()) {
      if (!ended_) ended_ = now;
      if (now > *ended_ + time_limits().supervisor + patience) supervisor_ = 0;
    } else if (!has_begun_ && now > began_ + time_limits().supervisor) {
      end("its supervisor did not start within " + seconds(time_limits().supervisor));
    }
  }
  static std::string seconds(Seconds limit) { return std::to_string(static_cast<long>(limit.count())) + " s"; }
  bool ended_by_itself() const { return ending_.code || ending_.signal || !ending_.not_started.empty(); }

  void read_output() {
    out_.take([&](std::string_view line) {
      heard_ = Clock::now();
      hear(line, job_.out);
    });
    // A launcher that can no longer work may repeat a warning without end.
    error_.take([&](std::string_view line) {
      if (!has_events_ && line != last_error_) heard_ = Clock::now();
      last_error_ = line;
      hear(line, job_.error);
    });
  }

  void hear(std::string_view line, const std::function<void(std::string_view)>& hearer) {
    hearer(line);
    if (!job_.enough || told_) return;
    if (const auto why = job_.enough(); !why.empty()) end(why);
  }

  void listen() {
    if (!job_.listen) return;
    constexpr int max_turns_at_end = 64;  // a process that outlives the job may write without end
    const int max_turns = over() ? max_turns_at_end : 1;
    for (int turn = 0; turn < max_turns; ++turn) {
      const auto heard = job_.listen();
      if (heard == Job::Heard::nothing) return;
      heard_ = Clock::now();
      has_events_ = true;
      if (!last_words_ && heard == Job::Heard::its_end) last_words_ = heard_;
    }
  }

  void receive() {
    std::array<char, 1024> text{};
    const auto count = recv(supervisor_socket_.get(), text.data(), text.size(), MSG_DONTWAIT);
    if (count == 0) supervisor_socket_.close_now();
    const std::string line(text.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    const auto blank = line.find(' ');
    const auto value = line.substr(blank + 1);
    if (line.rfind("begun", 0) == 0) has_begun_ = true;
    if (line.rfind("alone", 0) == 0) ending_.was_alone = true;
    if (line.rfind("exit", 0) == 0) ending_.code = std::atoi(value.c_str());
    if (line.rfind("signal", 0) == 0) ending_.signal = std::atoi(value.c_str());
    if (line.rfind("error", 0) == 0) ending_.not_started = value;
  }

  const Job& job_;
  Descriptor supervisor_socket_;
  pid_t supervisor_ = 0;  // 0: the supervisor has ended
  Lines out_, error_;
  Ending ending_;
  Clock::time_point began_ = Clock::now(), heard_ = began_;
  std::optional<Clock::time_point> told_, last_words_, ended_;
  bool has_begun_ = false, has_events_ = false;
  std::string last_error_;
  std::optional<SupervisorEntry> entry_;
  Seconds patience_ = patience;
};

}  // namespace

void block_signals() {
  const auto signals = our_signals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
}

Signals::Signals() : descriptor_(-1) {
  block_signals();
  const auto signals = our_signals();
  descriptor_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

Signals::~Signals() {
  close(descriptor_);
  const auto signals = our_signals();
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
}

const std::optional<std::string>& Signals::taken() {
  signalfd_siginfo signal{};
  while (read(descriptor_, &signal, sizeof signal) == sizeof signal) {
    taken_ = signal_text(static_cast<int>(signal.ssi_signo));
  }
  return taken_;
}

std::string Ending::text(const std::string& program) const {
  const auto start = std::filesystem::path(program).filename().string();
  if (!not_started.empty()) return start + " could not be started: " + not_started;
  if (!told.empty()) return start + " was ended: " + told;
  if (signal) return start + " was ended by " + signal_text(*signal);
  if (!code) return start + " ended without a report: its supervisor was killed, or could not report";
  auto said = start + " ended with exit code " + std::to_string(*code);
  if (*code <= 128) return said;
  // If a rank was killed, the launcher ends with 128 + the signal. Other codes, such as ssh's 255, mean that ranks
  // could not be started.
  if (*code == 132) return said + ": SIGILL ended a rank, or mpirun could not start one";
  if (*code < first_code_of_no_signal) return said + ": " + signal_text(*code - 128) + " ended a rank or itself";
  return said + ": no signal ended a rank; ranks could not be started, or the error is in their messages";
}

std::vector<Ending> run_jobs(const std::vector<Job>& jobs, Signals& signals) {
  std::vector<std::unique_ptr<Running>> running;
  for (const auto& job : jobs) running.push_back(std::make_unique<Running>(job));
  const auto all_over = [&] {
    return std::all_of(running.begin(), running.end(), [](const auto& job) { return job->over(); });
  };
  while (!all_over()) {
    std::vector<pollfd> files{{signals.descriptor(), POLLIN, 0}};
    for (const auto& job : running) {
      if (!job->over()) job->add_to(files);
    }
    // Checks the time limits every 100 ms. A process that has closed its socket is about to end.
    const bool leaving = std::any_of(running.begin(), running.end(), [](const auto& job) { return job->leaving(); });
    poll(files.data(), files.size(), leaving ? 1 : 100);
    note_progress();
    for (const auto& job : running) {
      if (!job->over()) job->look();
      if (!job->over()) job->tick();
      if (const auto& signal = signals.taken()) job->end_by_signal(*signal);
    }
  }
  std::vector<Ending> endings;
  for (const auto& job : running) endings.push_back(job->ending());
  return endings;
}

}  // namespace shakedown
