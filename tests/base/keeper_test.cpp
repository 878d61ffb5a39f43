// Work that hangs, dies, receives a signal, or takes too long: the keeper answers for it in time.
#include "base/keeper.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "base/timed_call.hpp"

namespace shakedown::keeper_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

[[noreturn]] void hang() {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  for (;;) pause();
}

class Keeper : public testing::Test {
 protected:
  // The table of limits is read only once, by the first test that needs it.
  static void SetUpTestSuite() { setenv("SHAKEDOWN_LIMITS_SCALE", "0.02", 1); }

  int keep_in_time(const std::function<int()>& work, Keeping keeping = {}) {
    keeping.answer = [this](const std::string& reason) {
      why = reason;
      return 3;
    };
    const auto began = Clock::now();
    const int code = keep(keeping, [&]() -> int { _exit(work()); });
    seconds = std::chrono::duration<double>(Clock::now() - began).count();
    return code;
  }

  std::string why;
  double seconds = 0;
};

TEST_F(Keeper, ReturnsTheExitCodeOfItsWork) {
  EXPECT_EQ(keep_in_time([] { return 7; }), 7);
  EXPECT_EQ(why, "");
}

TEST_F(Keeper, NamesTheFileThatDoesNotAnswerAndThePhase) {
  EXPECT_EQ(keep_in_time([]() -> int {
              const TimedCall phase(CallKind::phase, "judging");
              const TimedCall outer("list", "/results");
              const TimedCall call("open", "/results/gemm.json");
              hang();
            }),
            3);
  EXPECT_NE(why.find(": open /results/gemm.json does not answer, 0 s (judging)"), std::string::npos) << why;
  EXPECT_LT(seconds, 5);
}

TEST_F(Keeper, NamesTheDriverThatDoesNotAnswer) {
  keep_in_time([]() -> int {
    const TimedCall call(CallKind::driver, "nvmlInit_v2");
    hang();
  });
  EXPECT_NE(why.find("driver"), std::string::npos) << why;
  EXPECT_NE(why.find(": nvmlInit_v2, 1 s"), std::string::npos) << why;
}

TEST_F(Keeper, NoticesWorkThatHangsOutsideAnyCall) {
  keep_in_time([]() -> int { hang(); });
  EXPECT_EQ(why, "no progress for 7 s");
}

TEST_F(Keeper, LeavesCallsAloneThatReturnInTime) {
  EXPECT_EQ(keep_in_time([] {
              for (int i = 0; i < 40; ++i) {
                const TimedCall call("read", "/sys/class/net");
                std::this_thread::sleep_for(20ms);
              }
              return 0;
            }),
            0);
}

TEST_F(Keeper, SaysWhichSignalEndedItsWork) {
  EXPECT_EQ(keep_in_time([]() -> int {
              raise(SIGKILL);
              return 0;
            }),
            3);
  EXPECT_EQ(why, "died of SIGKILL");
}

TEST_F(Keeper, HandsASignalOnAndWaitsForTheAnswer) {
  const pid_t keeper = getpid();
  EXPECT_EQ(keep_in_time(
                [=] {
                  kill(keeper, SIGTERM);
                  sigset_t term;
                  sigemptyset(&term);
                  sigaddset(&term, SIGTERM);
                  int signal = 0;
                  sigwait(&term, &signal);
                  return signal == SIGTERM ? 5 : 6;
                },
                {.answers_signals = true}),
            5);
}

TEST_F(Keeper, DoesNotWaitAfterASignalForACallThatHangs) {
  const pid_t keeper = getpid();
  keep_in_time(
      [=]() -> int {
        kill(keeper, SIGTERM);
        hang();
      },
      {.answers_signals = true});
  EXPECT_EQ(why, "ended by SIGTERM");
  EXPECT_LT(seconds, 5);
}

TEST_F(Keeper, AnswersWhenTheTimeForAllIsOver) {
  keep_in_time(
      []() -> int {
        const TimedCall phase(CallKind::phase, "measuring gemm");
        for (;;) {
          note_progress();
          std::this_thread::sleep_for(10ms);
        }
      },
      {.limit = Seconds(0.5)});
  EXPECT_NE(why.find("measuring gemm"), std::string::npos) << why;
  EXPECT_LT(seconds, 3);
}

TEST(CallBoard, ForgetsCallsOfAProcessThatWasKilled) {
  const CallBoard board;
  const pid_t child = fork();
  if (child == 0) {
    board.use();
    const TimedCall call("read", "/dead");
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::this_thread::sleep_for(500ms);  // longer than the scaled limit of a file
  EXPECT_FALSE(board.overdue({}));
}

TEST(CallBoard, NamesOneCallAloneWhereOthersTakeItsPlace) {
  const CallBoard board;
  board.use();
  std::atomic<int> seen = 0;
  std::string mixed;
  {
    const std::jthread watcher([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        const auto call = board.latest();
        if (!call) continue;
        ++seen;
        if (call->what != std::string(200, call->what.front())) mixed = call->what;
      }
    });
    const std::string names[] = {std::string(200, 'a'), std::string(200, 'b')};
    for (std::size_t i = 0; i < 200'000 || seen < 100; ++i) {
      const TimedCall call(CallKind::driver, names[i % 2]);
      if (i % 1000 == 0) std::this_thread::sleep_for(1ms);  // most calls end before they are read
    }
  }
  CallBoard::use_own();
  EXPECT_EQ(mixed, "");
}

}  // namespace
}  // namespace shakedown::keeper_test
