#include "node/command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <utility>

extern char** environ;

namespace shakedown {

CommandOutput output_of(const std::vector<std::string>& command, std::chrono::duration<double> limit,
                        std::chrono::duration<double> last_words) {
  using Clock = std::chrono::steady_clock;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDERR_FILENO);
  // A rank blocks the signals that its watchdog takes; who inherits that never hears that it shall end.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> words;
  for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  CommandOutput output;
  pid_t child = 0;
  output.started = posix_spawnp(&child, words.front(), &files, &attributes, words.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  close(ends[1]);

  const auto begin = Clock::now();
  for (bool running = output.started, told = false, open = true; running;) {
    int status = 0;
    running = waitpid(child, &status, WNOHANG) == 0;
    if (!running) output.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    // Whoever keeps the pipe open beyond its end, a server that it has started, has nothing to say.
    pollfd readable{open ? ends[0] : -1, POLLIN, 0};
    while (poll(&readable, 1, running ? 100 : 0) > 0 && open) {
      std::array<char, 4096> piece{};
      const auto count = read(ends[0], piece.data(), piece.size());
      open = count > 0;
      if (open) output.text.append(piece.data(), static_cast<std::size_t>(count));
      if (Clock::now() - begin > limit) break;  // also for one that prints without end
    }
    if (!running || Clock::now() - begin < limit) continue;
    output.timed_out = true;
    if (!std::exchange(told, true)) kill(child, SIGTERM);
    if (Clock::now() - begin > limit + last_words) kill(child, SIGKILL);
  }
  close(ends[0]);
  return output;
}

}  // namespace shakedown
