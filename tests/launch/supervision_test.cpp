// Tests programs that hang, crash, report false results, or leave processes running. accept must never wait forever.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/files.hpp"
#include "base/timed_call.hpp"
#include "launch/job.hpp"
#include "launch/measure.hpp"
#include "launch/supervisor.hpp"

namespace shakedown::supervision_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class Supervision : public testing::Test {
 protected:
  Supervision() { std::filesystem::create_directory(folder); }
  ~Supervision() override { std::filesystem::remove_all(folder); }

  Job job(const std::string& script) {
    Job result{{"bash", "-c", script}};
    result.out = [this](std::string_view line) { out.emplace_back(line); };
    result.error = [this](std::string_view line) { error.emplace_back(line); };
    return result;
  }
  Ending run(const Job& one) {
    const auto began = Clock::now();
    auto ending = run_jobs({one}, signals).front();
    seconds = std::chrono::duration<double>(Clock::now() - began).count();
    return ending;
  }
  std::filesystem::path file(const std::string& name) const { return folder / name; }

  static std::ptrdiff_t open_files() {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  }

  /// True if the process whose number is in the file ends within a short time.
  bool gone(const std::string& name) const {
    for (int i = 0; i < 100; ++i) {
      const auto pid = line_of(file(name));
      if (pid && line_of("/proc/" + *pid + "/stat").value_or("x) Z").find(") Z") != std::string::npos) return true;
      std::this_thread::sleep_for(100ms);
    }
    return false;
  }
  bool appears(const std::string& name) const {
    for (int i = 0; i < 200 && !line_of(file(name)); ++i) std::this_thread::sleep_for(50ms);
    return line_of(file(name)).has_value();
  }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("shakedown_supervision_" + std::to_string(getpid()));
  Signals signals;
  std::vector<std::string> out, error;
  double seconds = 0;
};

TEST_F(Supervision, HearsBothOutputsByLinesAndTellsTheExitCode) {
  const auto ending = run(job("echo one; echo two >&2; printf three; exit 5"));
  EXPECT_EQ(ending.code, 5);
  EXPECT_EQ(out, (std::vector<std::string>{"one", "three"}));
  EXPECT_EQ(error, (std::vector<std::string>{"two"}));
}

TEST_F(Supervision, AnOutputThatNobodyHearsIsThatOfThisProcess) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const auto ending = run({{"bash", "-c", "echo result && echo warning >&2"}});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "result\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "warning\n");
  EXPECT_EQ(ending.code, 0);
}

TEST_F(Supervision, SignalsAreBlockedAsLongAsTheyAreReadAndTheirDescriptorIsClosed) {
  const auto is_blocked = [] {
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, nullptr, &blocked);
    return sigismember(&blocked, SIGTERM) == 1;
  };
  const auto before = open_files();
  {
    const Signals others;
    EXPECT_TRUE(is_blocked());
    EXPECT_EQ(open_files(), before + 1);
  }
  EXPECT_FALSE(is_blocked());
  EXPECT_EQ(open_files(), before);
  block_signals();
}

TEST_F(Supervision, AJobHasNoSignalBlockedAndNoDescriptorOfItsSupervisor) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    EXPECT_EQ(run(job("kill -" + std::to_string(signal) + " $$; exit 3")).signal, signal);
  }
  EXPECT_EQ(run(job("[[ ! -e /proc/$$/fd/9 ]]")).code, 0);
}

TEST_F(Supervision, AJobLeavesNoDescriptorOpen) {
  const auto before = open_files();
  run(job("echo one; echo two >&2"));
  run({{"/nonexistent/srun"}});
  EXPECT_EQ(open_files(), before);
}

TEST_F(Supervision, AJobThatRunsIsProgressForTheKeeper) {
  const CallBoard board;
  board.use();
  const auto progress_of = [&](const std::string& script) {
    const auto before = board.progress();
    run(job(script));
    return board.progress() - before;
  };
  const auto at_once = progress_of("true"), in_a_while = progress_of("sleep 2");
  CallBoard::use_own();
  EXPECT_GE(in_a_while, at_once + 3) << "a silent job of hours is not given up";
}

TEST_F(Supervision, AJobOutlivesTheEndOfAProcessThatItLeftBehind) {
  const auto ending = run(job("(sleep 0.2 &); sleep 1; echo done"));
  EXPECT_EQ(ending.code, 0);
  EXPECT_EQ(out, std::vector<std::string>{"done"});
}

TEST_F(Supervision, AJobIsTickedAsLongAsItRuns) {
  auto one = job("sleep 1");
  int ticks = 0;
  one.tick = [&] { ++ticks; };
  run(one);
  EXPECT_GE(ticks, 3) << "every 100 ms on an idle machine";
}

TEST_F(Supervision, TellsASignalFromAnExitCodeThatLooksLikeOne) {
  EXPECT_EQ(run(job("kill -KILL $$")).text("/usr/bin/mpirun"), "mpirun was ended by SIGKILL");
  EXPECT_EQ(run(job("exit 137")).text("mpirun"), "mpirun ended with exit code 137: SIGKILL ended a rank or itself");
  EXPECT_TRUE(run(job("exit 128")).text("srun").ends_with("code 128")) << "no signal has the number 0";
  EXPECT_NE(run(job("exit 132")).text("mpirun").find("mpirun could"), std::string::npos);
  EXPECT_NE(run(job("exit 129")).text("srun").find("SIGHUP"), std::string::npos);
  EXPECT_NE(run(job("exit 159")).text("srun").find("SIGSYS"), std::string::npos);
  for (const auto* code : {"160", "243", "255"}) {
    const auto text = run(job(std::string("exit ") + code)).text("srun");
    EXPECT_NE(text.find("no signal"), std::string::npos) << text;
  }
}

TEST_F(Supervision, AProgramThatIsNotThereSaysSo) {
  const auto ending = run({{"/nonexistent/srun"}});
  EXPECT_EQ(ending.text("/nonexistent/srun"), "srun could not be started: No such file or directory");
}

TEST_F(Supervision, AJobWithoutASignOfLifeIsEnded) {
  const auto ending_of_silent = [&](const std::string& script) {
    auto silent = job(script);
    silent.silence = 500ms;
    return run(silent);
  };
  const auto ending = ending_of_silent("echo here; sleep 100");
  EXPECT_NE(ending.told.find("printed and sent nothing"), std::string::npos) << ending.told;
  EXPECT_LT(seconds, 20);
  EXPECT_TRUE(ending_of_silent("exec sleep 100").was_alone);
  EXPECT_FALSE(ending_of_silent("sleep 100 & wait").was_alone) << "what it started still runs";
  auto speaks = job("for i in 1 2 3 4 5 6; do echo $i; sleep 0.2; done");
  speaks.silence = 5s;
  speaks.last_words = 100ms;  // it does not announce its end
  EXPECT_TRUE(run(speaks).good());
}

TEST_F(Supervision, WarningsOfALauncherAreNoSignOfLife) {
  auto warns = job("for ((i = 0;; ++i)); do echo \"warn $((i / 100000))\" >&2; sleep 0.05; done");
  warns.error = [](std::string_view) {};
  warns.silence = 500ms;
  EXPECT_NE(run(warns).told.find("sent nothing"), std::string::npos) << "the same line";
  auto has_events = job("for ((i = 0;; ++i)); do echo \"warn $i\" >&2; sleep 0.05; done");
  has_events.error = [](std::string_view) {};
  has_events.silence = 500ms;
  has_events.listen = [n = 0]() mutable { return n++ == 0 ? Job::Heard::something : Job::Heard::nothing; };
  EXPECT_NE(run(has_events).told.find("sent nothing"), std::string::npos) << "its ranks send events";
  auto speaks = job("for ((i = 0; i < 6; ++i)); do echo $i >&2; sleep 0.2; done");
  speaks.error = [](std::string_view) {};
  speaks.silence = 5s;
  EXPECT_TRUE(run(speaks).good());
}

TEST_F(Supervision, AJobThatIgnoresTermIsKilledWithAllThatItStarted) {
  auto stubborn = job("trap '' TERM; (trap '' TERM; setsid sleep 100 & echo $! >" + file("child").string() +
                      "; wait) & sleep 100; sleep 100; sleep 100");
  stubborn.limit = 500ms;
  stubborn.silence = 1s;
  const auto ending = run(stubborn);
  EXPECT_NE(ending.told.find("longer than"), std::string::npos) << "the first reason: " << ending.told;
  EXPECT_GT(seconds, 4) << "it has five seconds to obey";
  EXPECT_LT(seconds, 20);
  EXPECT_TRUE(gone("child"));
}

TEST_F(Supervision, AfterItsLastWordsAJobHasAWhileAndNoMore) {
  auto lingers = job("sleep 100");
  lingers.listen = [] { return Job::Heard::its_end; };
  lingers.last_words = 500ms;
  const auto ending = run(lingers);
  EXPECT_NE(ending.told.find("it announced its end"), std::string::npos) << ending.told;
  EXPECT_LT(seconds, 20);
}

TEST_F(Supervision, WhatAJobSaysElsewhereIsASignOfLife) {
  auto quiet = job("sleep 2");
  quiet.silence = 1s;
  quiet.listen = [] { return Job::Heard::something; };
  EXPECT_TRUE(run(quiet).good()) << "and a process that outlives it may send without end";
}

TEST_F(Supervision, WhoHoldsTheOutputsOpenIsNotWaitedFor) {
  const auto ending = run(job("setsid bash -c 'trap \"\" TERM HUP; echo $$ >" + file("left").string() +
                              "; sleep 100; sleep 100' & sleep 0.5; exit 4"));
  EXPECT_EQ(ending.code, 4);
  EXPECT_LT(seconds, 20);
  EXPECT_TRUE(gone("left"));
}

TEST_F(Supervision, EnoughIsHeardOnTheLineThatSaysSo) {
  auto streams = job("echo first; sleep 100");
  streams.enough = [this] { return out.empty() ? "" : "pre-flight failed"; };
  EXPECT_EQ(run(streams).told, "pre-flight failed");
  EXPECT_LT(seconds, 20);
  out.clear();
  auto goes_on = job("echo first; echo second; sleep 100");
  goes_on.enough = [this] { return out.size() < 2 ? "" : "pre-flight failed"; };
  EXPECT_EQ(run(goes_on).told, "pre-flight failed") << "not on the first line";
}

TEST_F(Supervision, OneHangingJobDoesNotKeepTheOthersFromBeingHeard) {
  auto hangs = job("sleep 100");
  hangs.limit = 1s;
  const auto began = Clock::now();
  const auto endings = run_jobs({hangs, job("echo here"), hangs}, signals);
  EXPECT_FALSE(endings[0].good());
  EXPECT_TRUE(endings[1].good());
  EXPECT_EQ(out, (std::vector<std::string>{"here"}));
  EXPECT_LT(Clock::now() - began, 20s);
}

TEST_F(Supervision, ASignalToUsEndsTheJob) {
  auto sleeps = job("echo $$ >" + file("pid").string() + "; echo begun; sleep 100");
  sleeps.out = [](std::string_view) { raise(SIGTERM); };
  EXPECT_EQ(run(sleeps).told, "by SIGTERM");
  EXPECT_EQ(signals.taken(), "SIGTERM");
  EXPECT_TRUE(gone("pid"));
}

TEST_F(Supervision, AfterASignalAJobThatIgnoresItIsLeftToItsGuard) {
  auto stubborn =
      job("trap '' TERM; echo $$ >" + file("pid").string() + "; echo begun; sleep 100; sleep 100; sleep 100");
  stubborn.out = [](std::string_view) { raise(SIGTERM); };
  stubborn.patience_on_signal = 500ms;
  const auto ending = run(stubborn);
  EXPECT_EQ(ending.told, "by SIGTERM");
  EXPECT_LT(seconds, 4) << "there must be time for a verdict";
  EXPECT_TRUE(gone("pid"));
}

TEST_F(Supervision, AJobIsSeenToEndWhereTheCallerIgnoresEndsOfChildren) {
  signal(SIGCHLD, SIG_IGN);  // some callers leave it set, and this process inherits it
  const auto ending = run(job("echo here; exit 5"));
  signal(SIGCHLD, SIG_DFL);
  EXPECT_EQ(ending.code, 5);
  EXPECT_LT(seconds, 20);
}

TEST_F(Supervision, ASupervisorThatIsToldToEndEndsItsJob) {
  EXPECT_EQ(run(job("kill -TERM $PPID; sleep 100")).signal, SIGTERM);
  EXPECT_LT(seconds, 20);
}

TEST_F(Supervision, ASupervisorThatIsToldAgainAndAgainKillsItsJobAfterTheFirstTime) {
  auto stubborn = job("trap '' TERM; while kill -TERM $PPID; do sleep 1; done");
  stubborn.limit = 20s;
  EXPECT_EQ(run(stubborn).signal, SIGKILL);
  EXPECT_LT(seconds, 19);
}

TEST_F(Supervision, AJobHasTheVariablesOfThisProcessAndItsOwn) {
  setenv("TEST_OF_OURS", "ours", 1);
  setenv("TEST_OF_BOTH", "ours", 1);
  auto prints = job("echo $TEST_OF_OURS $TEST_OF_BOTH $TEST_OF_IT; cat; printf 'no end'");
  prints.variables = {{"TEST_OF_BOTH", "its own"}, {"TEST_OF_IT", "its"}};
  EXPECT_TRUE(run(prints).good()) << "it reads nothing";
  EXPECT_EQ(out, (std::vector<std::string>{"ours its own its", "no end"}));
  unsetenv("TEST_OF_OURS");
  unsetenv("TEST_OF_BOTH");
}

// The supervisor cannot report, because it is killed or has no descriptor for signals.
TEST_F(Supervision, ASupervisorThatCannotReportSaysNothingOfTheJob) {
  const auto killed = run(job("kill -KILL $PPID; sleep 100"));
  EXPECT_FALSE(killed.is_known());
  EXPECT_FALSE(killed.signal) << "no signal ended the job";
  EXPECT_EQ(killed.text("mpirun"), "mpirun ended without a report: its supervisor was killed, or could not report");
  EXPECT_TRUE(run(job("exit 7")).is_known());
  EXPECT_TRUE(run(job("kill -KILL $$")).is_known());
  auto slow = job("sleep 100");
  slow.limit = 200ms;
  EXPECT_TRUE(run(slow).is_known()) << "we ended it, and know why";
}

TEST_F(Supervision, AJobThatCannotBeStartedSaysNothingOfTheMachine) {
  const auto absent = run({{"/nonexistent/srun"}});
  EXPECT_FALSE(absent.is_known());
  for (const auto* files : {"3", "4", "5"}) {  // too few for its signals and for the pipe that starts the job
    auto one = job("exit 0");
    one.variables = {{"TEST_SUPERVISOR_FILES", files}};
    const auto ending = run(one);
    EXPECT_TRUE(ending.text("srun").ends_with(": Too many open files")) << files;
    EXPECT_FALSE(ending.is_known());
    EXPECT_LT(seconds, 20);
  }
}

// The supervisor abandons a process that no signal ends, and reports how the job ended.
TEST_F(Supervision, AProcessThatCannotBeKilledKeepsNobodyWaiting) {
  auto leaves = job("setsid sleep 100 & echo $! >" + file("left").string() + "; exit 4");
  leaves.variables = {{"TEST_SUPERVISOR_CANNOT_KILL", "1"}};
  const auto ending = run(leaves);
  EXPECT_EQ(ending.code, 4);
  EXPECT_GT(seconds, 8) << "it has five seconds to obey, and five to vanish";
  EXPECT_LT(seconds, 30);
  kill(std::stoi(*line_of(file("left"))), SIGKILL);
  EXPECT_TRUE(gone("left"));
}

/// This program in a separate folder, with these benchmark programs next to it.
class BesideProgram : public Supervision {
 protected:
  BesideProgram() {
    for (const auto* name : {"tests", "bench", "bin", "share/shakedown"})
      std::filesystem::create_directories(file(name));
    std::filesystem::copy_file("/proc/self/exe", file("tests/front_door"));
    std::ofstream(file("share/shakedown/families")) << "preflight\nhbm\np2p\n";
  }
  void has(const std::string& program) const { std::ofstream(file(program)) << "x"; }
  std::string found(const std::vector<std::string>& families = {}) {
    out.clear();
    Job asks{{file("tests/front_door").string(), "programs"}};
    asks.command.insert(asks.command.end(), families.begin(), families.end());
    asks.out = [this](std::string_view line) { out.emplace_back(line); };
    run(asks);
    return out.empty() ? "" : out.front();
  }
};

TEST_F(BesideProgram, BenchmarksAreFoundInTheBuildTreeElseWhereTheyAreInstalled) {
  const auto none = found();
  EXPECT_NE(none.find("there are no benchmark programs next to "), std::string::npos) << none;
  has("bin/bench_preflight");
  EXPECT_EQ(found(), "bin preflight hbm p2p");
  has("bench/bench_preflight");
  EXPECT_EQ(found(), "bench preflight hbm p2p");
  std::filesystem::remove(file("share/shakedown/families"));
  EXPECT_EQ(found(), none) << none;
}

TEST_F(BesideProgram, FamiliesAreMeasuredInTheirUsualOrderAndUnknownOnesRefused) {
  has("bench/bench_preflight");
  EXPECT_EQ(found({"p2p", "preflight"}), "bench preflight p2p");
  EXPECT_EQ(found({"hbm"}), "bench hbm");
  EXPECT_EQ(found({"hbm", "nosuch"}).rfind("--families: \"nosuch\" ", 0), 0u) << found({"nosuch"});
}

// Ranks must end after any death of accept, even if the supervisor dies. Here the rank has its own session, and its
// launcher is killed too.
TEST_F(Supervision, NobodyIsLeftWhenTheFrontDoorIsKilled) {
  for (const bool without_supervisor : {false, true}) {
    const pid_t options = fork();
    if (options == 0) {
      Signals own;
      run_jobs({job("echo $$ >" + file("launcher").string() + "; setsid sleep 100 & echo $! >" + file("rank").string() +
                    "; echo $PPID >" + file("supervisor").string() + "; wait")},
               own);
      _exit(0);
    }
    ASSERT_TRUE(appears("supervisor"));
    if (without_supervisor) {
      kill(std::stoi(*line_of(file("supervisor"))), SIGKILL);
    } else {
      kill(options, SIGKILL);
    }
    EXPECT_TRUE(gone("launcher")) << (without_supervisor ? "supervisor" : "front door");
    EXPECT_TRUE(without_supervisor || gone("rank"));
    kill(options, SIGKILL);
    waitpid(options, nullptr, 0);
    if (without_supervisor) kill(std::stoi(*line_of(file("rank"))), SIGKILL);
    for (const auto* name : {"launcher", "rank", "supervisor"}) std::filesystem::remove(file(name));
  }
}

}  // namespace
}  // namespace shakedown::supervision_test

/// A test cannot create a process that no signal ends. Instead the signals of the supervisor are lost.
extern "C" int kill(pid_t process, int signal) noexcept {
  if (std::getenv("TEST_SUPERVISOR_CANNOT_KILL") != nullptr) return 0;
  return static_cast<int>(syscall(SYS_kill, process, signal));
}

// The supervisor is this program, as it is shakedown in production.
int main(int argc, char** argv) {
  if (const char* const files = std::getenv("TEST_SUPERVISOR_FILES")) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = std::stoul(files);
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  if (argc > 1 && std::string(argv[1]) == "programs") {
    try {
      const auto found = shakedown::find_programs({argv + 2, argv + argc});
      std::printf("%s", found.folder.filename().c_str());
      for (const auto& family : found.families) std::printf(" %s", family.c_str());
      return 0;
    } catch (const std::exception& error) {
      std::printf("%s", error.what());
      return 1;
    }
  }
  if (argc > 1 && std::string(argv[1]) == "supervisor") return shakedown::supervise({argv + 2, argv + argc});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
