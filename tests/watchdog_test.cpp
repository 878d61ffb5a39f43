// Whom the roll call names, how a process ends that does not advance, and what strangers get at the port of rank 0.
#include "fixtures/watchdog.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "base/group.hpp"
#include "fixtures/socket.hpp"

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

/// Inside a call of its host.
Sign on_host(int host, Sign sign, bool inside = true) {
  sign.host = host;
  sign.on_host = inside;
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

TEST(RollCall, LooksInsideAHostWhoseRanksWaitForEachOther) {
  // Host 0 is done and waits for all. On host 1 rank 3 went on, or has not come.
  expect_blame({waiting_at(40), waiting_at(40), on_host(1, waiting_at(10)), on_host(1, waiting_at(40), false),
                on_host(1, waiting_at(10))},
               Blame::Why::ahead, {3});
  expect_blame({waiting_at(40), waiting_at(40), on_host(1, waiting_at(10)), on_host(1, at(8), false),
                on_host(1, waiting_at(10))},
               Blame::Why::behind, {3});
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

TEST(Watchdog, BeginsTheDeadlineAnewWithEveryPartThatAllRanksHaveDone) {
  Watchdog watchdog("rank 0 (nodea)", 3);
  for (int i = 0; i < 8; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    watchdog.renew();
  }
}

struct FailsWhenCopied {
  FailsWhenCopied() = default;
  FailsWhenCopied(FailsWhenCopied&&) = default;
  FailsWhenCopied(const FailsWhenCopied&) { throw std::runtime_error("out of something"); }
  void operator()() const {}
};

void fail_in_the_thread() {
  Watchdog watchdog("rank 0 (nodea)", 0.2);
  watchdog.on_abort(FailsWhenCopied(), {});
  std::this_thread::sleep_for(std::chrono::seconds(30));
}

TEST(WatchdogDeathTest, EndsWithALineWhereItsThreadFails) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(fail_in_the_thread(), testing::ExitedWithCode(3), "watchdog cannot go on: out of something");
}

// ---------------------------------------------------------------------------------------------------------------------
// Strangers

void send_text(const Socket& socket, const std::string& text) {
  static_cast<void>(send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL));
}

/// What comes next; nothing: the other end has closed the connection, or says nothing for 20 s.
std::string answer_to(const Socket& socket) {
  char answer = 0;
  if (!readable(socket, std::chrono::seconds(20))) return "silence";
  return recv(socket.get(), &answer, 1, 0) == 1 ? std::string(1, answer) : "closed";
}

/// Rank 0 of two as the other one sees it: what was offered, and what happens until all have come.
class TwoRanks final : public GroupOfOne<Group> {
 public:
  explicit TwoRanks(bool one_host, std::function<void(TwoRanks&)> meanwhile = {})
      : one_host_(one_host), meanwhile_(std::move(meanwhile)) {}

  int size() const override { return 2; }
  Group& on_host() override { return one_host_ ? static_cast<Group&>(*this) : alone_; }
  void barrier() override {
    if (meanwhile_) meanwhile_(*this);
  }
  std::vector<std::string> gather(const std::string& message) override {
    std::istringstream words(message);
    words >> token_;
    for (std::string word; words >> word;) offered_.push_back(word);
    return {message, ""};
  }

  const std::vector<std::string>& offered() const { return offered_; }
  Socket connect() const {
    const auto& last = offered_.back();  // 127.0.0.1
    return connect_to(last.substr(0, last.find(':')), std::stoi(last.substr(last.find(':') + 1)));
  }
  /// The first message of rank 1.
  std::string hello() const {
    std::string text(160, '\0');
    const std::int32_t rank = 1;
    std::memcpy(text.data(), &token_, sizeof token_);
    std::memcpy(text.data() + 16, &rank, sizeof rank);
    return text;
  }

  /// Who has come may not leave before the watchdog.
  std::string answer_to_rank_1() {
    rank_1_ = connect();
    send_text(rank_1_, hello());
    return answer_to(rank_1_);
  }

 private:
  bool one_host_;
  std::function<void(TwoRanks&)> meanwhile_;
  Socket rank_1_;
  Alone alone_;
  std::uint64_t token_ = 0;
  std::vector<std::string> offered_;
};

void open_channel(TwoRanks& world) {
  Watchdog watchdog("rank 0 (nodea)", 120);
  EXPECT_EQ(watchdog.open_channel(world, {"nodea", "nodea"}), "");
}

TEST(Strangers, AreDroppedWhoDoNotShowTheTokenAtOnce) {
  TwoRanks world(true, [](TwoRanks& ranks) {
    const auto idle = ranks.connect(), slow = ranks.connect(), liar = ranks.connect(), flood = ranks.connect();
    send_text(slow, ranks.hello().substr(0, 159));
    send_text(liar, std::string(160, 'x'));
    send_text(flood, std::string(1 << 20, 'x'));
    EXPECT_EQ(answer_to(liar), "closed");
    EXPECT_EQ(answer_to(flood), "closed");
    EXPECT_EQ(answer_to(idle), "closed");
    EXPECT_EQ(answer_to(slow), "closed");
    EXPECT_EQ(ranks.answer_to_rank_1(), "h");
  });
  open_channel(world);
}

TEST(Strangers, AreFewAtATimeAndKeepNoRankOut) {
  TwoRanks world(true, [](TwoRanks& ranks) {
    const auto descriptors = [] {
      return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
    };
    constexpr int strangers = 200;
    const auto before = descriptors();
    std::vector<Socket> idle;
    for (int i = 0; i < strangers; ++i) idle.push_back(ranks.connect());
    EXPECT_EQ(ranks.answer_to_rank_1(), "h");
    EXPECT_LT(descriptors(), before + strangers + 50);
  });
  open_channel(world);
}

TEST(Strangers, FindNoPortOnceAllRanksHaveCome) {
  TwoRanks world(true);
  Watchdog watchdog("rank 0 (nodea)", 120);
  watchdog.open_channel(world, {"nodea", "nodea"});
  bool open = true;
  for (int tries = 0; tries < 200 && open; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    open = world.connect().open();
  }
  EXPECT_FALSE(open);
}

TEST(Strangers, OfOtherHostsFindNoPortWhereAllRanksAreOnOneHost) {
  const auto addresses_for = [](bool one_host) {
    TwoRanks world(one_host);
    open_channel(world);
    std::vector<std::string> addresses;
    for (const auto& word : world.offered()) addresses.push_back(word.substr(0, word.find(':')));
    return addresses;
  };
  EXPECT_EQ(addresses_for(true), std::vector<std::string>{"127.0.0.1"});
  EXPECT_EQ(addresses_for(false), own_addresses());
  TwoRanks world(true, [](TwoRanks& ranks) {
    const auto& local = ranks.offered().back();
    for (const auto& address : own_addresses()) {
      const auto port = std::stoi(local.substr(local.find(':') + 1));
      EXPECT_EQ(connect_to(address, port).open(), address == "127.0.0.1") << address;
    }
  });
  open_channel(world);
}

}  // namespace
}  // namespace shakedown
