// Tests the messages of ssh, srun and mpirun as these programs print them: OpenSSH 9.2, Slurm 22.05.8, Open MPI 4.1.4.
#include "launch/launcher_words.hpp"

#include <gtest/gtest.h>

namespace shakedown::launcher_words_test {
namespace {

using Words = std::vector<std::string>;

// Puts a message of ssh into the frame that mpirun prints around it, in a short form.
Words framed(const std::string& said) {
  const std::string rule(74, '-');
  return {said,
          rule,
          "ORTE was unable to reliably start one or more daemons.",
          "This usually is caused by:",
          "",
          "* lack of authority to execute on one or more specified nodes.",
          "  Please verify your allocation and authorities.",
          rule,
          "[vm:24116] 1 more process has sent help message help-errmgr-base.txt / failed-daemon-launch",
          "[vm:24116] Set MCA parameter \"orte_base_help_aggregate\" to 0 to see all help / error messages"};
}

class KnownSentence : public testing::TestWithParam<const char*> {};

TEST_P(KnownSentence, IsTheReasonAfterABannerAndInsideTheFrameOfOpenMpi) {
  Words lines = framed(GetParam());
  lines.insert(lines.begin(),
               {"Authorized users only", "Warning: Permanently added 'u3' (ED25519) to the list of known hosts."});
  EXPECT_EQ(start_failure(lines), GetParam());
}

INSTANTIATE_TEST_SUITE_P(OfSsh, KnownSentence,
                         testing::Values("u3: Permission denied (publickey,password).", "Host key verification failed.",
                                         "ssh: Could not resolve hostname u3: Name or service not known",
                                         "ssh: connect to host u3 port 22: Connection refused",
                                         "ssh: connect to host u3 port 22: No route to host",
                                         "ssh: connect to host u3 port 22: Network is unreachable",
                                         "ssh: connect to host u3 port 22: Connection timed out",
                                         "kex_exchange_identification: read: Connection reset by peer",
                                         "Connection closed by 10.0.0.3 port 22",
                                         "bash: line 1: orted: command not found",
                                         "/opt/shakedown/bin/shakedown: No such file or directory",
                                         "root@u3's password: "));
INSTANTIATE_TEST_SUITE_P(
    OfSrun, KnownSentence,
    testing::Values(
        "srun: error: Node failure on node-a2",
        "srun: error: Unable to create step for job 7: Required node not available (down, drained or reserved)",
        "srun: error: Task launch for StepId=7.0 failed on node node-a2: Communication connection failure",
        "srun: error: Unable to contact slurm controller (connect failure)",
        "srun: error: Unable to create step for job 7: Invalid node name specified",
        "srun: error: Application launch failed: Unspecified error"));
INSTANTIATE_TEST_SUITE_P(OfMpirun, KnownSentence, testing::Values("mpirun: Error: unknown option \"--nosuch\""));

TEST(StartFailure, IsASentenceOfTheFrameWhereNothingElseIsSaid) {
  const std::string rule(74, '-');
  EXPECT_EQ(start_failure({rule, "There are not enough slots available in the system to satisfy the 9",
                           "slots that were requested by the application:", "", "  hostname", rule}),
            "There are not enough slots available in the system to satisfy the 9 slots that were requested by the "
            "application:");
  EXPECT_EQ(start_failure({rule, "mpirun was unable to launch the specified application as it could not access",
                           "or execute an executable:", "", "Executable: /nosuch", rule}),
            "mpirun was unable to launch the specified application as it could not access or execute an executable:");
  auto lines = framed("");
  EXPECT_EQ(start_failure(lines), "ORTE was unable to reliably start one or more daemons. This usually is caused by:");
  EXPECT_EQ(start_failure({"", "a sentence of an unknown program", "and another one"}),
            "a sentence of an unknown program");
  EXPECT_EQ(start_failure({}), "");
}

TEST(StartFailure, OfOneHostIsALineThatNamesIt) {
  const Words lines{"srun: error: Node failure on node-a21", "srun: error: Node failure on node-a2"};
  EXPECT_EQ(start_failure(lines, "node-a2"), "srun: error: Node failure on node-a2");
  EXPECT_EQ(start_failure(lines, "node-a"), "");
  EXPECT_EQ(start_failure({"node-a2"}, "node-a2"), "node-a2");
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
