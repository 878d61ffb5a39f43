// Starts the real programs for tests, with a profile and results in a folder.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

#include "tests/thresholds/results_builder.hpp"

namespace shakedown::acceptance_program {

using testing_support::Folder;
using testing_support::ResultsBuilder;

inline const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";

struct Outcome {
  int exit_code = -1;
  std::string output;  // stdout and stderr combined, in order
  std::string last_line;
};

inline Outcome run(const std::string& command) {
  Outcome outcome;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen failed");
  std::array<char, 4096> buffer{};
  while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) outcome.output.append(buffer.data(), n);
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  const auto end = outcome.output.find_last_not_of('\n');
  const auto begin = end == std::string::npos ? end : outcome.output.rfind('\n', end);
  if (end != std::string::npos) {
    const auto first = begin == std::string::npos ? 0 : begin + 1;
    outcome.last_line = outcome.output.substr(first, end + 1 - first);
  }
  return outcome;
}

class AcceptanceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder.write("test.yaml",
                 "schema: 2\nprofile: test\nmatch: {backend: cuda, device: \"NVIDIA H200\"}\nrules:\n"
                 "  - {benchmark: \"" +
                     gemm +
                     "\", metric: tflops, every: rank, min: 620, source: \"a paper\"}\n"
                     "  - {benchmark: \"" +
                     gemm + "\", metric: samples, every: run, min: 5, source: s, severity: warn}\n");
    write_results("good.json", 700);
    write_results("bad.json", 600);
  }

  void write_results(const std::string& name, double tflops) const {
    folder.write(name, ResultsBuilder().add(gemm, "tflops", tflops, {700, 700, 700, tflops}).repeated().text());
  }
  static ResultsBuilder repeated(double tflops) {
    ResultsBuilder builder;
    for (int i = 0; i < 9; ++i) builder.add(gemm, "tflops", tflops * (1 + 1e-4 * i));
    return builder;
  }
  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
  std::string text_of(const std::string& name) const {
    std::ifstream in(path(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  Outcome accept(const std::string& flags) const {
    return run(ACCEPTANCE_TEST " --thresholds=" + path("test.yaml") + " " + flags);
  }
  Outcome accept_file(const std::string& name, const std::string& flags = "") const {
    return accept("--results=" + path(name) + " " + flags);
  }
  static void expect_refused(const Outcome& outcome, const std::string& reason) {
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.last_line.rfind("error: ", 0), 0u) << outcome.output;
    EXPECT_NE(outcome.last_line.find(reason), std::string::npos) << outcome.output;
    EXPECT_EQ(outcome.output.find("VERDICT:"), std::string::npos) << "a file that cannot be read has no verdict";
  }

  static void expect_unwritten(const Outcome& outcome, int code, const std::string& state, const std::string& reason) {
    EXPECT_EQ(outcome.exit_code, code);
    EXPECT_NE(outcome.output.find(reason), std::string::npos) << outcome.output;
    EXPECT_EQ(outcome.last_line.rfind("VERDICT: " + state, 0), 0u) << outcome.output;
  }

  const Folder folder;
};

class ShakedownProgram : public AcceptanceTest {
 protected:
  Outcome shakedown(const std::string& words) const { return run(SHAKEDOWN_PROGRAM " " + words); }
};

}  // namespace shakedown::acceptance_program
