// Tests the remaining time of a job, as schedulers report it.
#include "launch/time_left.hpp"

#include <gtest/gtest.h>

#include <map>

namespace shakedown::time_left_test {
namespace {

std::optional<double> left(const std::map<std::string, std::string>& variables) {
  return seconds_left(
      [&](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      1'000'000);
}

TEST(TimeLeft, IsReadFromTheVariablesOfSchedulers) {
  EXPECT_EQ(left({{"SLURM_JOB_END_TIME", "1000060"}, {"SLURM_JOB_ID", "7"}}), 60);
  EXPECT_EQ(left({{"SLURM_JOB_END_TIME", "999990"}}), -10) << "it is over";
  EXPECT_EQ(left({{"SLURM_JOB_END_TIME", "never"}}), std::nullopt);
  EXPECT_EQ(left({{"PBS_WALLTIME", "3600"}}), 3600);
  EXPECT_EQ(left({}), std::nullopt);
}

TEST(TimeLeft, IsReadAsSqueuePrintsIt) {
  EXPECT_EQ(seconds_of_squeue("4:05\n"), 245);
  EXPECT_EQ(seconds_of_squeue("3:04:05"), 11045);
  EXPECT_EQ(seconds_of_squeue("2-03:04:05"), 2 * 86400 + 11045);
  for (const auto* other : {"UNLIMITED", "INVALID", "", "7", "-", "x-1:00", "1:x", "1:-5"}) {
    EXPECT_EQ(seconds_of_squeue(other), std::nullopt) << other;
  }
}

}  // namespace
}  // namespace shakedown::time_left_test
