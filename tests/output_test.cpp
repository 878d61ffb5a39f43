// What the library's reporters make of our runs.
#include "fixtures/output.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

namespace shakedown {
namespace {

TEST(Reporters, LeaveOutCountersThatJsonCannotHold) {
  std::ostringstream json;
  Reporters reporters;
  reporters.add("json", json, false, false);
  benchmark::BenchmarkReporter::Run run;
  run.counters["busbw_gb_per_s_cv"] = benchmark::Counter(std::nan(""));
  run.counters["busbw_gb_per_s"] = benchmark::Counter(5);
  reporters.ReportRuns({run});
  EXPECT_EQ(json.str().find("nan"), std::string::npos) << json.str();
  EXPECT_EQ(json.str().find("NaN"), std::string::npos) << json.str();
  EXPECT_NE(json.str().find("\"busbw_gb_per_s\""), std::string::npos) << json.str();
}

TEST(Writable, SaysNoToAFolderThatIsNotThereAndToAFolderAsAFile) {
  EXPECT_FALSE(writable("/nonexistent/folder/a.json"));
  EXPECT_FALSE(writable(std::filesystem::temp_directory_path()));
}

TEST(Writable, LeavesNoTrace) {
  const auto folder = std::filesystem::temp_directory_path() / "shakedown_output_test";
  std::filesystem::create_directories(folder);
  EXPECT_TRUE(writable(folder / "a.json"));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace shakedown
