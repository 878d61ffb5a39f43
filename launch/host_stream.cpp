#include "launch/host_stream.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/archive.hpp"
#include "base/environment.hpp"
#include "base/files.hpp"
#include "base/process.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "launch/launcher_words.hpp"
#include "node/activity.hpp"
#include "node/host_inventory.hpp"
#include "node/nvml.hpp"

namespace shakedown {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t max_reading_bytes = 8 << 20;  // a reading of 16 GPUs has 20 KB
constexpr std::size_t max_lines_kept = 50;

/// Writes readings as lines of JSON until the reader is gone.
void write_readings(int to, const std::string& host, const ReadingPlan& plan) {
  const auto environment = process_environment();
  ActivityReader reader(fact_root(environment), host, Nvml(nvml_library(environment)));
  const auto interval = std::chrono::duration_cast<Clock::duration>(plan.interval);
  auto next = Clock::now();
  for (int number = 0;; ++number) {
    if (plan.once && number == 1) reader.wait_for_ras(std::chrono::seconds(1));
    const auto line = json_text(Activity{{reader.read()}}, -1) + "\n";
    if ((!plan.once || number == 1) && !write_all(to, line)) return;
    if (plan.once && number == 1) return;
    next = std::max(next + interval, Clock::now());  // a slow driver is not queried all the time
    std::this_thread::sleep_until(next);
  }
}

/// Main function of the child process that reads this host.
[[noreturn]] void read_this_host(int to, const std::string& host, const ReadingPlan& plan) {
  try {
    write_readings(to, host, plan);
    _exit(0);
  } catch (const std::exception& error) {
    HostActivity failed;
    failed.host = host;
    failed.problem = one_line(error.what());
    static_cast<void>(write_all(to, json_text(Activity{{failed}}, -1) + "\n"));
    _exit(1);
  }
}

/// Returns the words of `shakedown top` for the shell of another host.
std::string remote_command(const ReadingPlan& plan) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").string();
  return shell_word(program) + " top --json" + (plan.once ? " --once" : "") +
         fmt::format(" --interval={}", plan.interval.count());
}

/// Takes the data of a pipe that has arrived, and calls `visit` with each complete line. Closes the pipe at its end.
template <class Visit>
void take_lines(Descriptor& pipe, std::string& text, const Visit& visit) {
  std::array<char, 65536> piece{};
  constexpr int max_pieces = 128;  // 8 MB; the next call takes the rest, so that endless output does not stop the view
  for (int pieces = 0; pieces < max_pieces && pipe.is_open(); ++pieces) {
    const auto count = read(pipe.get(), piece.data(), piece.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (count <= 0) pipe.close_now();
    if (count > 0) text.append(piece.data(), static_cast<std::size_t>(count));
    std::size_t begin = 0;
    for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
      visit(text.substr(begin, end - begin));
      begin = end + 1;
    }
    text.erase(0, begin);
    if (text.size() > max_reading_bytes) text.clear();
  }
}

}  // namespace

HostStream::HostStream(std::string host, const ReadingPlan& plan, bool is_here)
    : host_(std::move(host)), plan_(plan), is_here_(is_here) {}

std::unique_ptr<HostStream> HostStream::of_this_host(const std::string& name, const ReadingPlan& plan) {
  std::unique_ptr<HostStream> stream(new HostStream(name, plan, true));
  auto pipe = make_pipe();
  const auto child = pipe ? Fork::make("sd-top") : std::nullopt;
  if (!child) {
    stream->end_ = std::string("no process can be started: ") + std::strerror(errno);
    return stream;
  }
  if (child->is_child()) {
    stream->board_.use();
    pipe->read_end.close_now();
    read_this_host(pipe->write_end.get(), name, plan);
  }
  stream->process_ = child->pid();
  stream->out_ = std::move(pipe->read_end);
  fcntl(stream->out_.get(), F_SETFL, O_NONBLOCK);
  return stream;
}

std::unique_ptr<HostStream> HostStream::over_ssh(const std::string& host, const ReadingPlan& plan) {
  std::unique_ptr<HostStream> stream(new HostStream(host, plan, false));
  auto out = make_pipe(), error = make_pipe();
  if (!out || !error) {
    stream->end_ = std::string("no pipe can be made: ") + std::strerror(errno);
    return stream;
  }
  NewProcess ssh{{"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "ServerAliveInterval=5", "-o",
                  "ServerAliveCountMax=2", "-o", "LogLevel=ERROR", "--", host, remote_command(plan)}};
  ssh.descriptors = {{out->write_end.get(), STDOUT_FILENO}, {error->write_end.get(), STDERR_FILENO}};
  ssh.own_session = true;  // Ctrl-C ends this process first, which then ends ssh
  const auto started = start(ssh);
  if (started.error != 0) {
    stream->end_ = std::string("ssh: ") + std::strerror(started.error) + "; install it, or correct PATH";
    return stream;
  }
  stream->process_ = started.pid;
  stream->out_ = std::move(out->read_end);
  stream->error_ = std::move(error->read_end);
  for (const auto* pipe : {&stream->out_, &stream->error_}) fcntl(pipe->get(), F_SETFL, O_NONBLOCK);
  return stream;
}

HostStream::~HostStream() {
  if (process_ == 0) return;
  ::kill(process_, is_here_ ? SIGKILL : SIGTERM);
  static_cast<void>(end_of(process_));
}

void HostStream::add_to(std::vector<pollfd>& files) const {
  for (const auto* pipe : {&out_, &error_}) {
    if (pipe->is_open()) files.push_back({pipe->get(), POLLIN, 0});
  }
}

void HostStream::take_line(const std::string& line) {
  if (!line.starts_with('{')) return;  // a greeting of the host's shell
  try {
    const auto document = document_of_text(line);
    const std::filesystem::path place("top --json of " + host_);
    auto activity = read_as<Activity>(Field(place, "", document));
    if (activity.hosts.size() != 1) return;
    reading_ = std::move(activity.hosts.front());
    reading_->host = host_;
    heard_ = Clock::now();
  } catch (const InputError& error) {
    if (said_.size() < max_lines_kept) said_.emplace_back(error.what());
  }
}

void HostStream::take() {
  take_lines(out_, out_text_, [&](const std::string& line) { take_line(line); });
  take_lines(error_, error_text_, [&](const std::string& line) {
    if (said_.size() < max_lines_kept) said_.push_back(line);
  });
  if (process_ != 0 && !out_.is_open()) take_end();
}

/// Finds out how the process ended. Its end may follow that of its output by a moment.
void HostStream::take_end() {
  const auto end = end_of(process_);
  if (!end) return;
  process_ = 0;
  const auto how = end->signal != 0 ? "was ended by " + signal_text(end->signal)
                                    : "ended with exit code " + std::to_string(end->code);
  const auto failure = start_failure(said_, host_);
  const auto why = failure ? failure->text() : how;
  const std::string prefix = "ssh: ";  // which ssh's own errors have
  const bool has_prefix = why.compare(0, prefix.size(), prefix) == 0;
  end_ = is_here_ ? "the reading process " + how : has_prefix ? why : prefix + why;
}

Seconds HostStream::limit() const {
  const auto& limits = time_limits();
  // Without persistence mode, NVML's start starts each GPU, and --once has no second chance. Another host reports a
  // driver that hangs, so this host waits longer than that one.
  const Seconds driver = plan_.once ? limits.driver : limits.driver_of_view;
  const Seconds host = limits.host_of_view + (plan_.once ? limits.driver : Seconds(0));
  return (is_here_ ? driver : host) + (is_here_ ? 1 : 2) * plan_.interval;
}

bool HostStream::is_waiting() const { return !reading_ && !end_ && Clock::now() - heard_ < limit(); }

/// Returns why there is no current reading; nullopt if there is one.
std::optional<std::string> HostStream::problem() const {
  if (plan_.once && reading_) return std::nullopt;
  if (end_) return reading_ && reading_->problem ? reading_->problem : "no answer (" + *end_ + ")";
  const Seconds silent = Clock::now() - heard_;
  if (silent < limit()) return reading_ ? std::nullopt : std::optional<std::string>("no answer yet");
  const auto seconds = fmt::format("{:.0f} s", silent.count());
  if (!is_here_) {
    return "no answer (ssh: " + seconds + (said_.empty() ? "" : "; " + one_line(said_.back())) + ")";
  }
  const auto call = board_.latest();
  if (call && call->kind == CallKind::driver) {
    return "no answer (the driver does not answer: " + call->what + ", " + seconds + ")";
  }
  return "no answer (" + (call ? call->what + ", " : "") + seconds + ")";
}

HostActivity HostStream::latest() const {
  auto why = problem();
  if (!why) return *reading_;
  HostActivity host;
  host.host = host_;
  host.problem = one_line(*why);
  return host;
}

}  // namespace shakedown
