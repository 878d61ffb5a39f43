#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
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
#include <thread>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "base/process.hpp"
#include "base/temporary_folder.hpp"
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

std::string program() {
  if (const char* given = std::getenv("SHAKEDOWN_PROGRAM"); given != nullptr && *given != '\0') return given;
  Dl_info library;
  if (dladdr(reinterpret_cast<const void*>(&shakedown_sniff), &library) == 0) throw std::runtime_error("dladdr failed");
  return (fs::canonical(library.dli_fname).parent_path().parent_path() / "bin/shakedown").string();
}

/// Returns the environment of the program. Only listed variables are passed on: with those of the job's launcher, the
/// program would take itself for a rank of the job, and SHAKEDOWN_EXPECT may describe the whole job.
Words environment_for(const std::string& gpu) {
  constexpr std::array<std::string_view, 16> passed_variables{
      "PATH=", "HOME=", "USER=", "TMPDIR=", "LANG=", "LC_ALL=", "LD_LIBRARY_PATH=", "CUDA_", "SHAKEDOWN_LEDGER=",
      "SHAKEDOWN_THRESHOLDS=", "SHAKEDOWN_CHOICES=", "SHAKEDOWN_NODE=", "SHAKEDOWN_CUDA_LIBRARIES=",
      // simulated machines in tests
      "SHAKEDOWN_HOST=", "SHAKEDOWN_NVML=", "SHAKEDOWN_GPU="};
  Words variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view variable = *each;
    const auto begins = [&](std::string_view name) { return variable.starts_with(name); };
    if (!std::ranges::any_of(passed_variables, begins) || begins("CUDA_VISIBLE_DEVICES=")) continue;
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

/// A program in a session of its own, whose output goes to a file. If it must be killed, its supervisor, which is in
/// another session, ends the ranks some seconds later.
class Program {
 public:
  /// Errors: std::runtime_error.
  Program(Words words, Words variables, const fs::path& output) {
    const Descriptor file(open(output.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const auto started = start({.command = words,
                                .environment = std::move(variables),
                                .descriptors = {{file.get(), STDOUT_FILENO}, {file.get(), STDERR_FILENO}},
                                .own_session = true});
    if (started.error != 0) throw std::runtime_error(words.front() + ": " + std::strerror(started.error));
    process_ = started.pid;
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (!end_ && !ended_by(Clock::now())) {
      kill(-process_, SIGKILL);
      ended_by(Clock::now() + std::chrono::seconds(1));  // a process that waits for a driver cannot be killed
    }
  }

  /// Waits for the end. False if the process still runs then.
  bool ended_by(Clock::time_point limit) {
    while (!(end_ = end_of(process_))) {
      if (Clock::now() >= limit) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  void stop() const { kill(-process_, SIGTERM); }
  const ProcessEnd& end() const { return *end_; }

 private:
  pid_t process_ = 0;
  std::optional<ProcessEnd> end_;
};

/// Returns the headline of the verdict, which begins with its state in capitals, else the last message.
std::string headline(const fs::path& output) {
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
  const TemporaryFolder scratch;
  const auto output = scratch.path() / "output";
  Program child({program(), "accept", "--gate=" + seconds_text(seconds), "--waiting=" + std::to_string(getpid()),
                 "--partial-ok", "--results=" + (scratch.path() / "results").string()},
                environment_for(gpu), output);
  constexpr auto answer_limit = std::chrono::seconds(1);  // each for the end of the gate, for SIGTERM and for SIGKILL
  const auto limit =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)) + answer_limit;
  if (!child.ended_by(limit)) {
    child.stop();
    child.ended_by(limit + answer_limit);
    return {SHAKEDOWN_SNIFF_UNKNOWN, "shakedown did not end within its limit of " + seconds_text(seconds) + " s"};
  }
  const auto& end = child.end();
  if (end.signal != 0) {
    return {SHAKEDOWN_SNIFF_UNKNOWN, std::string("shakedown ended by signal: ") + strsignal(end.signal)};
  }
  return {std::min(end.code, int{SHAKEDOWN_SNIFF_UNKNOWN}), headline(output)};
}

Answer sniff(const char* gpu, double seconds) {
  constexpr double min_seconds = 5, max_seconds = 600;
  if (gpu == nullptr) return {SHAKEDOWN_SNIFF_USAGE, "gpu is null: name a GPU by its UUID or number"};
  if (!(seconds >= min_seconds && seconds <= max_seconds))
    return {SHAKEDOWN_SNIFF_USAGE, "seconds must be from 5 to 600"};
  try {
    return measure(gpu, seconds);
  } catch (const std::exception& error) {
    return {SHAKEDOWN_SNIFF_UNKNOWN, error.what()};
  }
}

}  // namespace
}  // namespace shakedown

// The only symbol of the library, so that the job cannot take one of base/ for its own.
__attribute__((visibility("default"))) int shakedown_sniff(const char* gpu, double seconds, char* line, size_t size) {
  const auto answer = shakedown::sniff(gpu, seconds);
  if (size > 0) {
    const auto length = std::min(answer.line.size(), size - 1);
    std::memcpy(line, answer.line.data(), length);
    line[length] = '\0';
  }
  return answer.result;
}
