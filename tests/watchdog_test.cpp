// Whom the roll call names, and how a process ends that does not advance.
#include "fixtures/watchdog.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace shakedown {
namespace {

Sign at(std::uint64_t steps) {
  Sign sign;
  sign.heard = true;
  sign.steps = steps;
  return sign;
}

/// Inside a call that needs all ranks.
Sign waiting_at(std::uint64_t steps) {
  auto sign = at(steps);
  sign.together = true;
  return sign;
}

/// And sees that its GPU works on it.
Sign asking_at(std::uint64_t steps) {
  auto sign = waiting_at(steps);
  sign.asking = true;
  return sign;
}

void expect_blame(const std::vector<Sign>& signs, Blame::Why why, const std::vector<int>& ranks) {
  const auto found = blame(signs);
  EXPECT_EQ(found.why, why);
  EXPECT_EQ(found.ranks, ranks);
}

TEST(RollCall, NamesTheRankWithTheFewestSteps) {
  expect_blame({waiting_at(10), waiting_at(10), at(8), waiting_at(10)}, Blame::Why::behind, {2});
}

TEST(RollCall, NamesARankThatWentOnAndNotThoseThatWaitForIt) {
  expect_blame({waiting_at(10), waiting_at(10), waiting_at(40), waiting_at(10)}, Blame::Why::ahead, {2});
}

TEST(RollCall, NamesTheOneRankThatIsStuckInACallThatTheOthersHaveLeft) {
  expect_blame({waiting_at(12), waiting_at(10), waiting_at(12), waiting_at(12)}, Blame::Why::behind, {1});
}

TEST(RollCall, NamesBothOfTwoWhereOneWaitsInACallThatTheOtherHasLeft) {
  expect_blame({waiting_at(12), waiting_at(10)}, Blame::Why::either, {0, 1});
}

TEST(RollCall, NamesTheOneThatWentOnWhereTheOtherIsKnownToWait) {
  expect_blame({asking_at(11), waiting_at(13)}, Blame::Why::ahead, {1});
  expect_blame({waiting_at(13), asking_at(11)}, Blame::Why::ahead, {0});
}

TEST(RollCall, NamesARankThatWentOnToWorkOfItsOwn) { expect_blame({asking_at(11), at(12)}, Blame::Why::ahead, {1}); }

TEST(RollCall, NamesTheHalfThatWentOnWhereAllOfTheOtherAreKnownToWait) {
  expect_blame({asking_at(11), waiting_at(13), asking_at(11), waiting_at(13)}, Blame::Why::ahead, {1, 3});
  expect_blame({asking_at(11), waiting_at(13), waiting_at(11), waiting_at(13)}, Blame::Why::either, {0, 1, 2, 3});
}

TEST(RollCall, NamesTheOneRankThatIsStuckThoughItsDeviceAnswers) {
  expect_blame({waiting_at(13), asking_at(11), waiting_at(13)}, Blame::Why::behind, {1});
}

TEST(RollCall, NamesARankThatHasNotComeToTheCallThatAnotherAsksFor) {
  expect_blame({asking_at(11), at(10)}, Blame::Why::behind, {1});
}

TEST(RollCall, NamesAStoppedRankThatOthersAskFor) {
  auto stopped = waiting_at(11);
  stopped.silent = true;
  expect_blame({asking_at(11), stopped}, Blame::Why::silent, {1});
}

TEST(RollCall, NamesNobodyWhereAllAskForTheSameCall) {
  expect_blame({asking_at(11), asking_at(11)}, Blame::Why::nobody, {});
}

TEST(RollCall, NamesASilentRankAndNotItsVictims) {
  auto stopped = at(12);
  stopped.silent = true;
  expect_blame({at(12), stopped, at(11)}, Blame::Why::silent, {1});
}

TEST(RollCall, NamesNobodyWhereAllStandAtTheSameStep) { expect_blame({at(5), at(5)}, Blame::Why::nobody, {}); }

TEST(RollCall, LeavesOutARankThatWasNeverHeard) { expect_blame({at(9), Sign{}, at(7)}, Blame::Why::behind, {2}); }

void outlive_the_start_up_limit() {
  Watchdog watchdog("rank 5 (nodea)", 0.2);
  std::this_thread::sleep_for(std::chrono::seconds(30));
}

TEST(WatchdogDeathTest, EndsAProcessThatDoesNotGetThroughItsStartUp) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(outlive_the_start_up_limit(), testing::ExitedWithCode(3), "timeout: rank 5 \\(nodea\\).*before MPI_Init");
}

void stay_too_long_in_a_benchmark() {
  Watchdog watchdog("rank 0 (nodea)", 60);
  watchdog.enter(Phase::sample, "gemm/dtype:f32", 0.2);
  std::this_thread::sleep_for(std::chrono::seconds(30));
}

TEST(WatchdogDeathTest, NamesTheBenchmarkAndThePhase) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(stay_too_long_in_a_benchmark(), testing::ExitedWithCode(3), "gemm/dtype:f32 \\(sample\\)");
}

void hang_in_the_abort_as_well() {
  Watchdog watchdog("rank 0 (nodea)", 0.2);
  watchdog.on_abort([] { std::this_thread::sleep_for(std::chrono::hours(1)); }, {});
  std::this_thread::sleep_for(std::chrono::seconds(60));
}

TEST(WatchdogDeathTest, LeavesWithinTenSecondsEvenIfTheAbortHangs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(hang_in_the_abort_as_well(), testing::ExitedWithCode(3), "timeout");
}

void get_terminated() {
  Watchdog watchdog("rank 0 (nodea)", 60);
  kill(getpid(), SIGTERM);
  std::this_thread::sleep_for(std::chrono::seconds(30));
}

TEST(WatchdogDeathTest, EndsAtOnceOnATerminationSignal) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(get_terminated(), testing::ExitedWithCode(3), "");
}

TEST(Watchdog, LetsAProcessGoOnThatAdvances) {
  Watchdog watchdog("rank 0 (nodea)", 0.3);
  for (int i = 0; i < 4; ++i) {
    watchdog.enter(Phase::sample, "gemm", 0.5);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

}  // namespace
}  // namespace shakedown
