#include "base/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <sstream>
#include <string_view>

#include "base/exit_code.hpp"
#include "base/files.hpp"
#include "base/timed_call.hpp"

extern char** environ;

namespace shakedown {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> all;
  for (const auto& word : words) all.push_back(const_cast<char*>(word.c_str()));  // exec does not modify the strings
  all.push_back(nullptr);
  return all;
}

/// Waits until the descriptor is readable. False after `limit`. If poll() fails because there is no memory, false after
/// 10 ms.
bool becomes_readable(int descriptor, std::chrono::duration<double> limit) {
  pollfd file{descriptor, POLLIN, 0};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  const int ready = poll(&file, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
  if (ready < 0 && errno != EINTR) usleep(10'000);
  return ready > 0;
}

}  // namespace

std::optional<ProcessEnd> end_of(pid_t child) {
  int status = 0;
  const pid_t ended = waitpid(child, &status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return std::nullopt;
  if (ended < 0) return ProcessEnd{exit_incomplete, 0, false};
  return ProcessEnd{WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0, false};
}

std::optional<ProcessStat> stat_of(int pid) {
  // The format is "pid (name) state parent ..."; the name can contain any characters. The start time is field 22.
  const auto line = line_of("/proc/" + std::to_string(pid) + "/stat").value_or("");
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  ProcessStat stat;
  fields >> stat.state >> stat.parent;
  constexpr int from_parent_to_start = 22 - 4;
  for (int i = 0; i < from_parent_to_start; ++i) fields >> stat.started;
  return fields ? std::optional(stat) : std::nullopt;
}

std::string signal_text(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : "SIG" + std::string(name);
}

Started start(const NewProcess& process) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  if (!process.has_input) posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  for (const auto& [ours, theirs] : process.descriptors) posix_spawn_file_actions_adddup2(&files, ours, theirs);
  sigset_t none, usual;
  sigemptyset(&none);
  sigemptyset(&usual);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD}) sigaddset(&usual, signal);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  const int session = process.own_session ? POSIX_SPAWN_SETSID : 0;
  posix_spawnattr_setflags(&attributes, static_cast<short>(session | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  Started started;
  const auto words = pointers(process.command), variables = pointers(process.environment);
  started.error = posix_spawnp(&started.pid, process.program.empty() ? words.front() : process.program.c_str(), &files,
                               &attributes, words.data(), process.environment.empty() ? environ : variables.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return started;
}

CommandOutput output_of(const std::vector<std::string>& command, std::chrono::duration<double> limit,
                        std::chrono::duration<double> last_words) {
  auto pipe = make_pipe();
  if (!pipe) return {};
  auto& [out, theirs] = *pipe;
  const auto child =
      start({.command = command, .descriptors = {{theirs.get(), STDOUT_FILENO}, {theirs.get(), STDERR_FILENO}}});
  theirs.close_now();
  CommandOutput output;
  output.started = child.error == 0;
  const auto begin = Clock::now();
  int nap_ms = 1;  // between looks at a child that has closed its output; usually it ends at once
  for (bool running = output.started, told = false; running;) {
    note_progress();
    if (const auto end = end_of(child.pid)) {
      running = false;
      output.code = end->signal != 0 ? 128 + end->signal : end->code;
    }
    // A server that the command has started may keep the pipe open after the command has ended. The output of this
    // server is ignored.
    constexpr int look_ms = 100;
    pollfd readable{out.get(), POLLIN, 0};
    if (running && !out.is_open()) nap_ms = std::min(2 * nap_ms, look_ms);
    while (poll(&readable, 1, !running ? 0 : out.is_open() ? look_ms : nap_ms) > 0 && out.is_open()) {
      std::array<char, 4096> piece{};
      const auto count = read(out.get(), piece.data(), piece.size());
      if (count > 0) output.text.append(piece.data(), static_cast<std::size_t>(count));
      if (count <= 0) out.close_now();
      readable.fd = out.get();                  // none if closed, so that poll only waits
      if (Clock::now() - begin > limit) break;  // the limit also applies to a program that prints without end
    }
    if (!running || Clock::now() - begin < limit) continue;
    output.timed_out = true;
    if (!std::exchange(told, true)) ::kill(child.pid, SIGTERM);
    if (Clock::now() - begin > limit + last_words) ::kill(child.pid, SIGKILL);
    if (Clock::now() - begin > limit + last_words + time_limits().to_die) return output;
  }
  return output;
}

std::optional<Fork> Fork::make(const char* name) {
  auto pipe = make_pipe();
  if (!pipe) return std::nullopt;
  auto& [end, held] = *pipe;
  std::fflush(nullptr);  // otherwise both processes would write the output that is still in the buffer
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0) return std::nullopt;
  if (pid > 0) return Fork(pid, std::move(end));
  held.release();  // stays open until this process ends, so that the parent detects the end by the closed pipe
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, name);
  if (getppid() != parent) _exit(0);
  return Fork(0, Descriptor());
}

std::optional<Fork::End> Fork::end() const { return end_of(pid_); }

std::optional<Fork::End> Fork::wait(std::chrono::duration<double> limit) const {
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
  for (;;) {
    if (const auto ended = end()) return ended;
    if (Clock::now() > until) return std::nullopt;
    becomes_readable(end_.get(), std::min<Seconds>(until - Clock::now(), std::chrono::milliseconds(100)));
  }
}

Fork::End Fork::kill() const {
  ::kill(pid_, SIGKILL);
  const auto end = wait(time_limits().to_die);
  return end ? *end : End{.is_abandoned = true};
}

namespace {

/// Runs the work in the child process and sends its result to the parent.
[[noreturn]] void answer(const std::function<std::string()>& work, int to) {
  std::string text;
  int code = 0;
  try {
    text = work();
  } catch (const std::exception& error) {
    text = error.what();
    code = 1;
  }
  _exit(write_all(to, text) ? code : 1);
}

}  // namespace

Apart run_apart(const std::function<std::string()>& work) {
  const CallBoard board;
  auto pipe = make_pipe();
  const auto child = pipe ? Fork::make("sd-probe") : std::nullopt;
  if (!child) return {work(), ""};
  auto& [out, theirs] = *pipe;
  if (child->is_child()) {
    board.use();
    answer(work, theirs.get());
  }
  theirs.close_now();
  HungCalls hung(board);
  std::string text;
  for (auto begin = Clock::now();;) {
    note_progress();
    const auto call = hung.find();
    if (call || Clock::now() - begin > time_limits().apart) {
      child->kill();
      const auto limit = call ? *limit_of(call->kind) : time_limits().apart;
      return {std::nullopt,
              (call ? call->what : "no answer") + ", " + std::to_string(std::lround(limit.count())) + " s"};
    }
    if (!becomes_readable(out.get(), std::chrono::milliseconds(100))) continue;
    std::array<char, 4096> piece{};
    const auto count = read(out.get(), piece.data(), piece.size());
    if (count <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
  auto end = child->wait(time_limits().to_die);
  if (!end) end = child->kill();
  if (end->signal != 0) return {std::nullopt, signal_text(end->signal)};
  if (end->code != 0) return {std::nullopt, text};
  return {text, ""};
}

}  // namespace shakedown
