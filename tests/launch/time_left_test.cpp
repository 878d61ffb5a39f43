// Tests the remaining time of a job, as schedulers report it.
#include "launch/time_left.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

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

TEST(TimeLeft, IsReadAsBjobsPrintsIt) {
  EXPECT_EQ(seconds_of_bjobs("0:58 L\n"), 58 * 60);
  EXPECT_EQ(seconds_of_bjobs("26:05 L"), (26 * 60 + 5) * 60);
  for (const auto* other : {"0:58 E", "0:10 X", "-", "", "L", " L", "58 L", "0:58", "0:x L"}) {
    EXPECT_EQ(seconds_of_bjobs(other), std::nullopt) << other;
  }
}

TEST(TimeLeft, IsReadAsQstatPrintsIt) {
  const std::string job = "Job Id: 13.head\n    Job_Name = accept\n    job_state = R\n";
  const std::string limit =
      "    Resource_List.select = 2:ncpus=8\n    Resource_List.walltime = 01:00:00\n    stime = Thu Nov 26\n";
  EXPECT_EQ(seconds_of_qstat(job + limit), 3600) << "the server has not heard of the job's use yet";
  EXPECT_EQ(seconds_of_qstat(job + "    resources_used.walltime = 00:10:05\n" + limit), 3600 - 605);
  EXPECT_EQ(seconds_of_qstat(job + "    resources_used.walltime = 00:10:05\n"), std::nullopt) << "no limit";
  EXPECT_EQ(seconds_of_qstat(""), std::nullopt);
}

/// Commands of schedulers: each prints the answer to its last arguments, and fails for others.
class Commands : public testing::Test {
 protected:
  Commands() {
    std::filesystem::create_directory(folder_);
    setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
  }
  ~Commands() override {
    setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  void answer(const std::string& program, const std::string& arguments, const std::string& text) const {
    std::ofstream(folder_ / program) << "#!/bin/sh\ncase \"$*\" in\n'" << arguments << "') echo '" << text
                                     << "' ;;\n*) echo 9:00; exit 1 ;;\nesac\n";
    std::filesystem::permissions(folder_ / program, std::filesystem::perms::owner_all);
  }

 private:
  const std::string path_ = getenv("PATH");
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("schedulers." + std::to_string(getpid()));
};

TEST_F(Commands, AreAskedForTheJobThatThisIs) {
  answer("squeue", "-h -j 7 -o %L", "1:00:00");
  answer("bjobs", "-noheader -o time_left 12", "0:30 L");
  EXPECT_EQ(left({{"SLURM_JOB_ID", "7"}}), 3600);
  EXPECT_EQ(left({{"SLURM_JOB_ID", "8"}}), std::nullopt) << "squeue fails";
  EXPECT_EQ(left({{"LSB_JOBID", "12"}}), 1800);
  EXPECT_EQ(left({{"LSB_JOBID", "12"}, {"LSB_JOBINDEX", "0"}}), 1800);
  EXPECT_EQ(left({{"LSB_JOBID", "12"}, {"LSB_JOBINDEX", "3"}}), std::nullopt) << "another part of an array";
  answer("qstat", "-f 13.head", "    Resource_List.walltime = 00:20:00");
  EXPECT_EQ(left({{"PBS_JOBID", "13.head"}, {"PBS_WALLTIME", "3600"}}), 1200);
  EXPECT_EQ(left({{"PBS_JOBID", "14.head"}, {"PBS_WALLTIME", "3600"}}), 3600) << "qstat fails";
  EXPECT_EQ(left({{"PBS_JOBID", "14.head"}}), std::nullopt);
  answer("bjobs", "-noheader -o time_left 12[3]", "0:20 L");
  EXPECT_EQ(left({{"LSB_JOBID", "12"}, {"LSB_JOBINDEX", "3"}}), 1200);
}

}  // namespace
}  // namespace shakedown::time_left_test
