#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "launch/sniff/shakedown_sniff.h"

namespace shakedown {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

struct Answer {
  int result = SHAKEDOWN_SNIFF_UNKNOWN;
  std::string line;
};

/// A folder that is removed with its files at the end.
class ScratchFolder {
 public:
  ScratchFolder() {
    const char* const given = std::getenv("TMPDIR");
    path_ = std::string(given != nullptr ? given : "/tmp") + "/shakedown-sniff-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) throw std::system_error(errno, std::generic_category(), path_);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string program() {
  if (const char* given = std::getenv("SHAKEDOWN_PROGRAM"); given != nullptr && *given != '\0') return given;
  Dl_info library;
  if (dladdr(reinterpret_cast<const void*>(&shakedown_sniff), &library) == 0) throw std::runtime_error("dladdr failed");
  return (fs::canonical(library.dli_fname).parent_path().parent_path() / "bin/shakedown").string();
}

/// Returns the environment of the program. Only listed variables are passed on: with those of the job's launcher, the
/// program would take itself for a rank of the job, and SHAKEDOWN_EXPECT may describe the whole job.
Words environment_for(const std::string& gpu) {
  constexpr std::array<std::string_view, 16> passed{
      "PATH=", "HOME=", "USER=", "TMPDIR=", "LANG=", "LC_ALL=", "LD_LIBRARY_PATH=", "CUDA_", "SHAKEDOWN_LEDGER=",
      "SHAKEDOWN_THRESHOLDS=", "SHAKEDOWN_CHOICES=", "SHAKEDOWN_NODE=", "SHAKEDOWN_CUDA_LIBRARIES=",
      // simulated machines in tests
      "SHAKEDOWN_HOST=", "SHAKEDOWN_NVML=", "SHAKEDOWN_GPU="};
  Words variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view variable = *each;
    const auto begins = [&](std::string_view name) { return variable.starts_with(name); };
    if (!std::ranges::any_of(passed, begins) || begins("CUDA_VISIBLE_DEVICES=")) continue;
    variables.emplace_back(variable);
  }
  variables.push_back("CUDA_VISIBLE_DEVICES=" + gpu);
  variables.emplace_back("SHAKEDOWN_RANKS=1");
  return variables;
}

/// Returns a number with a point, whatever the locale of the job is.
std::string seconds_text(double seconds) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.begin(), text.end(), seconds, std::chars_format::fixed, 3).ptr;
  return {text.begin(), end};
}

std::vector<char*> pointers(Words& words) {
  std::vector<char*> all;
  for (auto& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

/// A process group of its own, whose output goes to a file. If it must be killed, its supervisor, which is in another
/// group, ends the ranks some seconds later.
class Program {
 public:
  Program(Words words, Words variables, const std::string& output) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);  // such as a job's ignored SIGCHLD
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    const int error = posix_spawn(&process_, words.front().c_str(), &files, &attributes, pointers(words).data(),
                                  pointers(variables).data());
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    if (error != 0) throw std::system_error(error, std::generic_category(), words.front());
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (!status_ && !ended_by(Clock::now())) {
      kill(-process_, SIGKILL);
      ended_by(Clock::now() + std::chrono::seconds(1));  // a process that waits for a driver cannot be killed
    }
  }

  /// Waits for the end. False if the process still runs then.
  bool ended_by(Clock::time_point limit) {
    for (;;) {
      int status = 0;
      const pid_t got = waitpid(process_, &status, WNOHANG);
      if (got == process_) status_ = status;
      // If the job ignores SIGCHLD, the system discards the status.
      if (got < 0 && errno == ECHILD) status_ = SHAKEDOWN_SNIFF_UNKNOWN << 8;
      if (status_) return true;
      if (Clock::now() >= limit) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  void stop() const { kill(-process_, SIGTERM); }
  int status() const { return *status_; }

 private:
  pid_t process_ = 0;
  std::optional<int> status_;
};

/// Returns the headline of the verdict, which begins with its state in capitals, else the last message.
std::string headline(const std::string& output) {
  std::ifstream file(output);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    const bool is_state = line.size() > 2 && std::isupper(static_cast<unsigned char>(line[0])) != 0 &&
                          std::isupper(static_cast<unsigned char>(line[1])) != 0;
    const bool is_verdict = line.starts_with("VERDICT: ");  // without a headline, a message gives the reason
    if (is_state && !is_verdict) return line;
    if (!line.empty() && !is_verdict) last = line;
  }
  return last;
}

Answer measure(const std::string& gpu, double seconds) {
  const ScratchFolder scratch;
  const std::string output = scratch.path() + "/output";
  Program child({program(), "accept", "--gate=" + seconds_text(seconds), "--families=preflight,gemm,hbm",
                 "--waiting=" + std::to_string(getpid()), "--partial-ok", "--results=" + scratch.path() + "/results"},
                environment_for(gpu), output);
  constexpr auto to_answer = std::chrono::seconds(1);  // each for the end of the gate, for SIGTERM and for SIGKILL
  const auto limit =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)) + to_answer;
  if (!child.ended_by(limit)) {
    child.stop();
    child.ended_by(limit + to_answer);
    return {SHAKEDOWN_SNIFF_UNKNOWN, "shakedown did not end within its limit of " + seconds_text(seconds) + " s"};
  }
  const int status = child.status();
  if (WIFSIGNALED(status)) {
    return {SHAKEDOWN_SNIFF_UNKNOWN, std::string("shakedown ended by signal: ") + strsignal(WTERMSIG(status))};
  }
  return {std::min(WEXITSTATUS(status), int{SHAKEDOWN_SNIFF_UNKNOWN}), headline(output)};
}

Answer sniff(const char* gpu, double seconds) {
  constexpr double least = 5, most = 600;
  if (gpu == nullptr) return {SHAKEDOWN_SNIFF_USAGE, "gpu is null: name a GPU by its UUID or number"};
  if (!(seconds >= least && seconds <= most)) return {SHAKEDOWN_SNIFF_USAGE, "seconds must be from 5 to 600"};
  try {
    return measure(gpu, seconds);
  } catch (const std::exception& error) {
    return {SHAKEDOWN_SNIFF_UNKNOWN, error.what()};
  }
}

}  // namespace
}  // namespace shakedown

int shakedown_sniff(const char* gpu, double seconds, char* line, size_t size) {
  const auto answer = shakedown::sniff(gpu, seconds);
  if (size > 0) {
    const auto length = std::min(answer.line.size(), size - 1);
    std::memcpy(line, answer.line.data(), length);
    line[length] = '\0';
  }
  return answer.result;
}
