// Processes: their state in the kernel, their output, and how they are abandoned.
#include "base/process.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace shakedown::process_test {
namespace {

using namespace std::chrono_literals;

TEST(Process, HasItsParentAndWhenItBegan) {
  const auto mine = stat_of(getpid()), parent = stat_of(getppid());
  ASSERT_TRUE(mine && parent);
  EXPECT_EQ(mine->parent, getppid());
  EXPECT_EQ(mine->state, 'R');
  EXPECT_GE(std::atoll(mine->started.c_str()), std::atoll(parent->started.c_str()));
}

TEST(Process, ThatThereIsNotHasNothing) { EXPECT_FALSE(stat_of(-1)); }

TEST(OutputOf, GivesWhatAProgramPrintsAndItsExitCode) {
  const auto output = output_of({"bash", "-c", "echo out; echo error >&2; exit 5"}, 10s);
  EXPECT_TRUE(output.started && !output.timed_out);
  EXPECT_EQ(output.code, 5);
  EXPECT_EQ(output.text, "out\nerror\n");
}

TEST(OutputOf, KnowsAProgramThatIsNotThere) { EXPECT_FALSE(output_of({"no-such-program-here"}, 1s).started); }

TEST(OutputOf, WaitsForAProgramThatClosesItsOutput) {
  const auto output = output_of({"bash", "-c", "echo out; exec >&- 2>&-; sleep 0.3; exit 7"}, 10s);
  EXPECT_EQ(output.code, 7);
  EXPECT_EQ(output.text, "out\n");
  EXPECT_FALSE(output.timed_out);
}

TEST(OutputOf, EndsAProgramThatIgnoresSigterm) {
  const auto output = output_of({"bash", "-c", "trap '' TERM; echo one; while :; do sleep 0.1; done"}, 200ms, 200ms);
  EXPECT_TRUE(output.timed_out);
  EXPECT_EQ(output.code, 128 + SIGKILL);
  EXPECT_EQ(output.text, "one\n");
}

TEST(RunApart, ReturnsTheAnswerOrWhyThereIsNone) {
  EXPECT_EQ(run_apart([] { return std::string(100000, 'x'); }).text, std::string(100000, 'x'));
  const auto failed = run_apart([]() -> std::string { throw std::runtime_error("no such device"); });
  EXPECT_FALSE(failed.text);
  EXPECT_EQ(failed.why_not, "no such device");
  EXPECT_EQ(run_apart([]() -> std::string { std::abort(); }).why_not, "SIGABRT");
}

TEST(Fork, IsGivenUpAfterItsLimitAndKilled) {
  const auto child = Fork::make("sd-test");
  if (child->is_child()) {
    pause();
    _exit(0);
  }
  EXPECT_FALSE(child->wait(50ms));
  EXPECT_EQ(child->kill().signal, SIGKILL);
}

}  // namespace
}  // namespace shakedown::process_test
