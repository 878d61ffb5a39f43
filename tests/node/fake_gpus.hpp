// Simulated GPUs for tests: writes the answer file of the simulated NVML (fake_nvml.hpp) and removes it at the end.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace shakedown {

/// Returns an answer line for a query that counts the number of calls: 1, 2, 3, ...
inline std::string counting(const std::string& query) {
  std::string line = query + " 1";
  for (int i = 2; i < 5000; ++i) line += "|" + std::to_string(i);
  return line + "\n";
}

class FakeGpus {
 public:
  explicit FakeGpus(const std::string& answers) {
    answer(answers);
    setenv("SHAKEDOWN_FAKE_NVML", file_.c_str(), 1);
  }
  FakeGpus(const FakeGpus&) = delete;
  FakeGpus& operator=(const FakeGpus&) = delete;
  ~FakeGpus() {
    unsetenv("SHAKEDOWN_FAKE_NVML");
    std::filesystem::remove(file_);
  }

  /// Replaces the answers.
  void answer(const std::string& answers) const {
    const auto whole = file_.string() + ".new";
    std::ofstream(whole) << answers;
    std::filesystem::rename(whole, file_);  // atomic, since a sampler may be reading
  }

  static std::string library() { return SHAKEDOWN_FAKE_NVML_LIBRARY; }
  static std::string old_library() { return SHAKEDOWN_FAKE_NVML_OLD_LIBRARY; }

 private:
  std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / ("shakedown_gpus_" + std::to_string(getpid()) + ".txt");
};

}  // namespace shakedown
