// Exit codes by the cause of the failure.
#include "base/exit_code.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/files.hpp"

namespace shakedown::exit_code_test {
namespace {

namespace fs = std::filesystem;

template <class Step>
Failure failure_in(const Step& step) {
  try {
    step();
  } catch (const std::exception& error) {
    return failure_of(error);
  }
  return {0, "nothing failed"};
}

std::string unreadable(const std::string& file, const std::string& why) { return file + ": cannot be read: " + why; }
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(ExitCode, OfWrongUsageAndUnreadableInputIsTwo) {
  EXPECT_EQ(failure_of(InputError("--tier: is missing")).code, exit_usage);
  EXPECT_EQ(failure_in([] { read_file("/nonexistent/a.json"); }).code, exit_usage);
  EXPECT_EQ(failure_in([] { read_file("/proc/self/stat/a.json"); }).code, exit_usage) << "a file is no folder";
  for (const int error : {ENOENT, EACCES, EPERM, ENOTDIR, ELOOP, ENAMETOOLONG}) {
    const std::error_code code(error, std::generic_category());
    EXPECT_EQ(failure_in([&] { refuse_to_read("a.json", code); }).code, exit_usage) << code.message();
  }
}

TEST(ExitCode, OfOwnTroubleIsThreeWithThePathAndTheError) {
  for (const int error : {EIO, ESTALE, EMFILE, ENFILE, ENOMEM, ETIMEDOUT}) {
    const std::error_code code(error, std::generic_category());
    const auto failure = failure_in([&] { refuse_to_read("results/a.json", code); });
    EXPECT_EQ(failure.code, exit_incomplete) << code.message();
    EXPECT_EQ(failure.text, unreadable("results/a.json", code.message()));
  }
  const auto full = std::make_error_code(std::errc::no_space_on_device);
  const auto written = failure_of(CannotWrite("v.json: cannot be written: " + full.message()));
  EXPECT_EQ(written.code, exit_incomplete) << "though it is an InputError to callers that say it";
  const auto memory = failure_of(std::bad_alloc());
  EXPECT_EQ(memory.code, exit_incomplete);
  EXPECT_TRUE(contains(memory.text, "memory")) << memory.text;
  const auto processes = failure_of(std::system_error(EAGAIN, std::generic_category(), "fork"));
  EXPECT_EQ(processes.code, exit_incomplete);
  EXPECT_TRUE(contains(processes.text, "fork: Resource temporarily unavailable")) << processes.text;
  EXPECT_EQ(failure_of(std::logic_error("a mistake of ours")).code, exit_incomplete);
}

TEST(ExitCode, OfAFileSystemThatFailsNamesBothPaths) {
  const auto stale = std::make_error_code(std::errc::io_error);
  EXPECT_EQ(failure_of(fs::filesystem_error("cannot rename", "a", "b", stale)).text, "a and b: Input/output error");
  EXPECT_EQ(failure_of(fs::filesystem_error("status", "/mnt/a", stale)).text, "/mnt/a: Input/output error");
  const auto unnamed = failure_of(fs::filesystem_error("cannot advance", stale));
  EXPECT_TRUE(contains(unnamed.text, "cannot advance")) << unnamed.text;
  EXPECT_EQ(unnamed.code, exit_incomplete);
}

TEST(ReadFile, WithoutDescriptorsIsNoMissingFile) {
  const auto file = fs::temp_directory_path() / ("shakedown_descriptors_" + std::to_string(getpid()));
  replace_file(file, "text");
  rlimit usual{};
  getrlimit(RLIMIT_NOFILE, &usual);
  const rlimit none{0, usual.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  const auto failure = failure_in([&] { read_file(file); });
  setrlimit(RLIMIT_NOFILE, &usual);
  EXPECT_EQ(failure.code, exit_incomplete) << failure.text;
  EXPECT_EQ(failure.text, unreadable(file, "Too many open files"));
  EXPECT_EQ(read_file(file), "text");
  fs::remove(file);
}

TEST(ReadFile, ThatFailsHalfWaySaysTheError) {
  const auto failure = failure_in([] { read_file("/proc/self/mem"); });  // address 0 is not mapped
  EXPECT_EQ(failure.code, exit_incomplete) << failure.text;
  EXPECT_EQ(failure.text, unreadable("/proc/self/mem", "Input/output error"));
}

TEST(ReadFile, ReadsAllOfAFileWhoseSizeIsNotKnown) {
  EXPECT_GT(read_file("/proc/self/status").size(), 100U);
  EXPECT_EQ(read_file("/proc/self/comm").back(), '\n');
}

[[noreturn]] void run_out_of_memory() { throw std::bad_alloc(); }
void call_without_a_handler() noexcept { run_out_of_memory(); }

TEST(Terminate, EndsWithThreeAndALineInsteadOfASignal) {
  const auto ends = [](bool with_verdict) {
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    end_incomplete_on_terminate(with_verdict);
    call_without_a_handler();
  };
  EXPECT_EXIT(ends(true), testing::ExitedWithCode(exit_incomplete),
              "^VERDICT: INCOMPLETE 0/0 .*\nshakedown: out of mem");
  EXPECT_EXIT(ends(false), testing::ExitedWithCode(exit_incomplete), "^shakedown: .*memory");
}

}  // namespace
}  // namespace shakedown::exit_code_test
