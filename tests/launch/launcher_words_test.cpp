// Stored samples of the messages of ssh, shells, srun and mpirun that start nothing; each has its source.
#include "launch/launcher_words.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace shakedown::launcher_words_test {
namespace {

using Words = std::vector<std::string>;

struct Sample {
  std::string program, fault, host, end, source;
  Words lines;
};

std::vector<Sample> samples() {
  std::ifstream file(std::filesystem::path(SHAKEDOWN_SOURCE_DIR) / "tests/launch/start_samples.txt");
  std::vector<Sample> all;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("=== ", 0) == 0) {
      std::istringstream head(line.substr(4));
      auto& sample = all.emplace_back();
      head >> sample.program >> sample.fault >> sample.host >> sample.end;
      std::getline(file, sample.source);
    } else if (!all.empty()) {
      all.back().lines.push_back(line);
    }
  }
  return all;
}

std::string text_of(const Words& lines, const std::string& host = "") {
  const auto failure = start_failure(lines, host);
  return failure ? failure->text() : "nothing";
}

TEST(StartFaults, EachSampleIsKnownWithItsHostAndHasAnAction) {
  ASSERT_GE(samples().size(), 100U);
  for (const auto& sample : samples()) {
    SCOPED_TRACE(sample.program + ", " + sample.source + ": " + sample.lines.front());
    const auto failure = start_failure(sample.lines);
    ASSERT_TRUE(failure && failure->known) << text_of(sample.lines);
    EXPECT_EQ(code(failure->known->row->fault), sample.fault);
    EXPECT_EQ(failure->known->host, sample.host == "-" ? "" : sample.host);
    const auto text = failure->text();
    EXPECT_EQ(text.find('\n'), std::string::npos);
    EXPECT_LT(text.size(), 420U) << text;
    EXPECT_NE(text.find("; " + std::string(action(failure->known->row->fault))), std::string::npos) << text;
    EXPECT_TRUE(sample.host == "-" || text.find(sample.host) != std::string::npos) << text;
  }
}

TEST(StartFaults, EachRowOfEachTableHasASample) {
  std::set<std::string_view> seen;
  for (const auto& sample : samples()) {
    const auto failure = start_failure(sample.lines);
    if (failure && failure->known) seen.insert(failure->known->row->pattern);
  }
  for (const auto& table : start_tables()) {
    for (const auto& row : table.rows) EXPECT_TRUE(seen.contains(row.pattern)) << table.program << ": " << row.pattern;
  }
}

TEST(StartFaults, AKnownSentenceIsTheCauseAfterABannerAndBesideAnotherProgramsFrame) {
  for (const auto& sample : samples()) {
    if (sample.fault == "daemon_not_started") continue;  // any other line says more
    Words lines{"Authorized users only", "Warning: Permanently added 'u9' (ED25519) to the list of known hosts."};
    lines.insert(lines.end(), sample.lines.begin(), sample.lines.end());
    EXPECT_EQ(text_of(lines), text_of(sample.lines)) << sample.lines.front();
  }
}

TEST(StartFailure, NamesTheHostTheCauseAndTheActionInOneLine) {
  EXPECT_EQ(text_of({"root@u3: Permission denied (publickey,password)."}),
            "root@u3: Permission denied (publickey,password); allow this user to log in there with a key "
            "(ssh-copy-id)");
  const std::string rule(74, '-');
  EXPECT_EQ(text_of({rule, "mpirun was unable to launch the specified application as it could not access",
                     "or execute an executable:", "", "Executable: /nosuch", "Node: vm", "", "while attempting", rule}),
            "vm: mpirun was unable to launch the specified application as it could not access or execute an executable "
            "(/nosuch); install it there, at the same path as on the other hosts");
  EXPECT_EQ(text_of({"srun: error: invalid partition specified: nosuch"}),
            "srun: error: invalid partition specified: nosuch; choose a partition that is up (sinfo lists them)");
}

TEST(StartFailure, OfAnUnknownProgramIsItsFirstLine) {
  EXPECT_EQ(text_of({"", "a sentence of an unknown program.", "and another one"}), "a sentence of an unknown program");
  const std::string rule(74, '-');
  EXPECT_EQ(text_of({rule, "ORTE was unable to reliably start one or more daemons.", "This usually", rule,
                     "u3: an unknown word of ssh"}),
            "u3: an unknown word of ssh")
      << "mpirun's own sentence says less";
  EXPECT_EQ(text_of({rule, "A sentence of", "a frame. And more", rule}), "A sentence of a frame");
  EXPECT_EQ(text_of({}), "nothing");
  EXPECT_EQ(text_of({"srun: Job step aborted", "2 total processes failed to start"}), "nothing");
}

TEST(StartFailure, OfOneHostIsALineThatNamesIt) {
  const Words lines{"srun: error: Node failure on node-a21", "srun: error: Node failure on node-a2"};
  EXPECT_EQ(start_failure(lines, "node-a2")->line, "srun: error: Node failure on node-a2");
  EXPECT_FALSE(start_failure(lines, "node-a"));
  EXPECT_EQ(text_of({"node-a2"}, "node-a2"), "node-a2");
}

TEST(StartCause, IsTheLaunchersWordElseHowItEnded) {
  Ending ended;
  ended.code = 255;
  EXPECT_EQ(start_cause(ended, "ssh", {}).text.rfind("ssh ended with exit code 255", 0), 0U);
  EXPECT_EQ(start_cause(ended, "ssh", {"Host key verification failed."}).fault, StartFault::host_key_unknown);
  Ending late;
  late.told = "it took longer than 20 s";
  EXPECT_EQ(
      start_cause(late, "srun", {"srun: job 2 queued and waiting for resources"})
          .text.rfind(
              "srun was ended: it took longer than 20 s (srun: job 2 queued and waiting for resources; start inside",
              0),
      0U);
  Ending missing;
  missing.not_started = "No such file or directory";
  EXPECT_TRUE(start_cause(missing, "/opt/bin/srun", {}).text.ends_with(" or SHAKEDOWN_LAUNCH"));
}

TEST(RankDeath, IsReadFromSrunAndMpirun) {
  const auto of = [](const Words& lines) {
    const auto death = rank_death(lines);
    return death ? std::to_string(death->rank) + "|" + death->host + "|" + death->how : "none";
  };
  EXPECT_EQ(
      of({"--", "mpirun noticed that process rank 1 with PID 0 on node u2 exited on signal 11 (Segmentation fault)."}),
      "1|u2|signal 11 (Segmentation fault)");
  EXPECT_EQ(of({"  Process name: [[17531,1],13]", "  Exit code:    3"}), "13||exit code 3");
  EXPECT_EQ(of({"srun: error: node-a1: task 1: Segmentation fault (core dumped)"}),
            "1|node-a1|Segmentation fault (core dumped)");
  EXPECT_EQ(of({"srun: error: node-a2: tasks 2-3: Killed"}), "2|node-a2|Killed");
  for (const auto* other :
       {"srun: error: node-a1: task", "srun: error: node-a1: task 1", "srun: error: x: tasks: : ", "Process name: [[",
        "noticed that process rank x with PID 0 on node u exited on signal 1."}) {
    EXPECT_EQ(of({other, other}), "none") << other;
  }
}

}  // namespace
}  // namespace shakedown::launcher_words_test
