// Tests run folders: each run has its own, and no other run writes to it.
#include "launch/run_folder.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <regex>
#include <thread>
#include <vector>

#include "base/files.hpp"
#include "base/process.hpp"
#include "launch/launch.hpp"

namespace shakedown::run_folder_test {
namespace {

namespace fs = std::filesystem;

class Runs : public testing::Test {
 protected:
  Runs() { fs::remove_all(results); }
  ~Runs() override { fs::remove_all(results); }
  static void write(const fs::path& file, const std::string& text = "x") { std::ofstream(file) << text; }
  std::size_t folders() const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(results)) count += entry.is_directory() && !entry.is_symlink();
    return count;
  }
  template <class Step>
  static std::string refusal(const Step& step) {
    try {
      step();
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }
  const fs::path results = fs::temp_directory_path() / ("shakedown_runs_" + std::to_string(getpid()));
};

TEST_F(Runs, LatestLeadsToARunFromItsStart) {
  const auto first = RunFolder::create(results, "first", 20);
  EXPECT_EQ(fs::canonical(results / "latest"), fs::canonical(first.path()));
  const auto second = RunFolder::create(results, "", 20);
  EXPECT_EQ(fs::canonical(results / "latest"), fs::canonical(second.path()));
  EXPECT_EQ(second.shown_path().filename(), second.id());
  EXPECT_TRUE(std::regex_match(second.id(), std::regex("[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6}"))) << second.id();
  EXPECT_TRUE(line_of(second.path() / "lock")->starts_with("host: ")) << "for people";
}

TEST_F(Runs, LatestIsThereAtEachMoment) {
  RunFolder::create(results, "first", 20);
  std::atomic<bool> missing = false;
  {
    const std::jthread reads([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        struct stat of_link {};
        if (lstat((results / "latest").c_str(), &of_link) != 0) missing = true;
      }
    });
    for (int i = 0; i < 100; ++i) RunFolder::create(results, "again", 20);
  }
  EXPECT_FALSE(missing);
}

TEST_F(Runs, AFolderThatCannotBeReadIsNeitherEmptiedNorTaken) {
  fs::create_directories(results);
  write(results / "thesis.tex");
  rlimit usual{};
  getrlimit(RLIMIT_NOFILE, &usual);
  const int last = dup(0);
  close(last);
  const rlimit few{static_cast<rlim_t>(last), usual.rlim_max};
  const auto why = refusal([&] {
    // Restores the limit before the error is examined, because UBSan opens a pipe for that.
    const std::unique_ptr<const rlimit, void (*)(const rlimit*)> raises(
        &usual, [](const rlimit* limit) { setrlimit(RLIMIT_NOFILE, limit); });
    setrlimit(RLIMIT_NOFILE, &few);
    RunFolder::take(results, "");
  });
  EXPECT_NE(why.find(results.string() + ": "), std::string::npos) << why;
  EXPECT_TRUE(fs::exists(results / "thesis.tex"));
}

TEST_F(Runs, ARunOfTheSameIdThatLivesIsNotDisturbed) {
  const auto first = RunFolder::create(results, "mine", 20);
  write(first.path() / "gemm.json");
  const auto why = refusal([&] { RunFolder::create(results, "mine", 20); });
  EXPECT_NE(why.find("is in use by process " + std::to_string(getpid())), std::string::npos) << why;
  EXPECT_TRUE(fs::exists(first.path() / "gemm.json"));
}

TEST_F(Runs, OneThatHasEndedIsTakenEmpty) {
  write((RunFolder::create(results, "mine", 20).path() / "gemm.json"));
  const auto again = RunFolder::create(results, "mine", 20);
  EXPECT_FALSE(fs::exists(again.path() / "gemm.json"));
}

TEST_F(Runs, OnlyTheNewestAreKeptAndThoseThatLive) {
  const auto lives = RunFolder::create(results, "lives", 20);
  fs::create_directories(results / "notes");
  write(results / "notes/mine");
  fs::create_directories(results / "packages");
  write(results / "packages/lock");
  for (int i = 0; i < 5; ++i) RunFolder::create(results, "old" + std::to_string(i), 3);
  EXPECT_EQ(folders(), 6U) << "three, the one that lives, and what is no run, whatever it calls a lock";
  EXPECT_TRUE(fs::exists(results / "old4"));
  EXPECT_TRUE(fs::exists(lives.path()));
  EXPECT_TRUE(fs::exists(results / "notes/mine"));
}

TEST_F(Runs, AreRefusedWhereLatestCannotBeMade) {
  const auto in_the_way = results / ".latest.first";
  fs::create_directories(in_the_way);
  write(in_the_way / "mine");
  const auto why = refusal([&] { RunFolder::create(results, "first", 20); });
  EXPECT_NE(why.find("latest cannot be made: "), std::string::npos) << why;
  EXPECT_FALSE(fs::exists(fs::symlink_status(results / "latest")));
  EXPECT_TRUE(fs::exists(in_the_way / "mine"));
  fs::remove_all(in_the_way);
  fs::create_directories(results / "latest");
  write(results / "latest/mine");
  EXPECT_NE(refusal([&] { RunFolder::create(results, "first", 20); }).find((results / "latest").string()),
            std::string::npos);
  EXPECT_TRUE(fs::exists(results / "latest/mine")) << "a folder of that name is kept";
}

TEST_F(Runs, AsManyAreKeptAsWereAskedForAndThatOfCtest) {
  ctest::begin(results / "ctest", {getpid(), "of an earlier process"}, "theirs");
  for (const auto* id : {"first", "second", "third"}) RunFolder::create(results, id, 20);
  RunFolder::create(results, "fourth", 2);
  EXPECT_EQ(folders(), 3U) << "two, and that of ctest";
  RunFolder::create(results, "fifth", 1);
  EXPECT_EQ(folders(), 2U);
  RunFolder::create(results, "sixth", 0);
  EXPECT_EQ(folders(), 2U) << "a run keeps its own";
  EXPECT_TRUE(fs::exists(results / "sixth"));
  EXPECT_TRUE(fs::exists(results / "ctest/run_id"));
}

TEST_F(Runs, AFolderWithAnEmptyLockAloneIsThatOfARunThatBegins) {
  fs::create_directories(results);
  write(results / "lock", "");
  EXPECT_EQ(refusal([&] { RunFolder::take(results, ""); }), "");
  write(results / "lock", "no run's");
  EXPECT_NE(refusal([&] { RunFolder::take(results, ""); }), "");
  write(results / "lock", "");
  write(results / "thesis.tex");
  EXPECT_NE(refusal([&] { RunFolder::take(results, ""); }), "");
}

TEST_F(Runs, OneThatGoesOnKeepsItsFilesAndItsId) {
  const auto file = RunFolder::create(results, "mine", 20).shown_path() / "gemm.json";
  write(file);
  EXPECT_EQ(RunFolder::resume(results / "mine", "mine").id(), "mine");
  EXPECT_TRUE(fs::exists(file));
  const auto taken = RunFolder::take(results / "mine", "other");
  EXPECT_EQ(taken.id(), "other");
  EXPECT_FALSE(fs::exists(file));
  EXPECT_NE(RunFolder::take(results / "more", "").id(), "");
}

TEST_F(Runs, AFolderThatAllUsersMayWriteIsNeitherTakenNorGoneOnWith) {
  const auto file = RunFolder::create(results, "mine", 20).shown_path() / "gemm.json";
  write(file);
  chmod((results / "mine").c_str(), 0777);
  const auto why = refusal([&] { RunFolder::take(results / "mine", ""); });
  EXPECT_NE(why.find("mine: "), std::string::npos);
  EXPECT_EQ(refusal([&] { RunFolder::resume(results / "mine", "mine"); }), why);
  EXPECT_TRUE(fs::exists(file));
  fs::create_directories(results / "ctest");
  chmod((results / "ctest").c_str(), 0777);
  EXPECT_NE(
      refusal([&] { ctest::begin(results / "ctest", owner_of(getpid()), "mine"); }).find((results / "ctest").string()),
      std::string::npos);
}

TEST_F(Runs, AStepOfCtestWithoutItsBeginIsRefused) {
  fs::create_directories(results / "ctest");
  const auto why = refusal([&] { ctest::check(results / "ctest", owner_of(getpid())); });
  EXPECT_NE(why.find("run_id is missing: "), std::string::npos) << why;
}

TEST_F(Runs, AnIdHasLettersDigitsAndThreeSigns) {
  for (const auto* id : {"a.b_c-1", "Z", "7"}) EXPECT_EQ(RunFolder::create(results, id, 20).id(), id);
  for (const auto* id : {"a:b", "a@b", "a\xc3\xa4", "a/b", "a\n"}) {
    EXPECT_NE(refusal([&] { RunFolder::create(results, id, 20); }), "") << id;
  }
}

TEST_F(Runs, AFolderThatHoldsSomethingElseIsNotEmptied) {
  fs::create_directories(results);
  write(results / "thesis.tex");
  const auto why = refusal([&] { RunFolder::take(results, ""); });
  EXPECT_NE(why.find("has files that belong to no run"), std::string::npos) << why;
  EXPECT_TRUE(fs::exists(results / "thesis.tex"));
  write(results / "lock");
  EXPECT_EQ(refusal([&] { RunFolder::take(results, ""); }), why);
  EXPECT_NE(refusal([&] { ctest::begin(results, owner_of(getpid()), ""); }), "");
  EXPECT_TRUE(fs::exists(results / "thesis.tex"));
}

TEST_F(Runs, AnIdThatIsNoNameIsRefused) {
  for (const auto* id : {"../up", "a b", "latest", "ctest", ".hidden"}) {
    EXPECT_NE(refusal([&] { RunFolder::create(results, id, 20); }).find("SHAKEDOWN_RUN_ID"), std::string::npos) << id;
  }
}

TEST_F(Runs, ARunWithoutAnEndIsToldFromOneThatEnded) {
  fs::path folder;
  {
    auto run = RunFolder::create(results, "", 20);
    folder = run.shown_path();
    EXPECT_FALSE(unfinished(folder)) << "the run that measures judges before its end";
  }
  write_lock(folder / "lock", owner_of(getppid()));
  EXPECT_FALSE(unfinished(folder)) << "and so do the steps of ctest";
  write_lock(folder / "lock", {getpid(), "of an earlier process"});
  EXPECT_TRUE(unfinished(folder)) << "it broke off";
  write(folder / "verdict.json");
  EXPECT_FALSE(unfinished(folder));
  fs::remove(folder / "verdict.json");
  RunFolder::create(results, folder.filename(), 20).finish();
  EXPECT_FALSE(unfinished(folder)) << "it was only measured";
  EXPECT_FALSE(unfinished(results)) << "the folder of no run";

  RunFolder::take(folder, "").break_off("ended by\nSIGTERM");
  std::ofstream(folder / "verdict.json") << "{}";
  EXPECT_TRUE(unfinished(folder).value_or("").ends_with("ended by SIGTERM")) << "its verdict is of a part";
}

// In a container the program itself may be process 1, and its children judge.
TEST_F(Runs, OneOfProcess1IsReadByItsChildren) {
  int ancestor = getpid();
  while (ancestor > 1) {
    const auto stat = stat_of(ancestor);
    ancestor = stat ? static_cast<int>(stat->parent) : 0;
  }
  if (ancestor != 1) GTEST_SKIP() << "this process came into the container from outside";
  const auto folder = RunFolder::create(results, "", 20).shown_path();
  write_lock(folder / "lock", owner_of(1));
  EXPECT_FALSE(unfinished(folder));
}

TEST_F(Runs, AFolderWhoseLockIsALinkIsNeitherTakenNorEmptied) {
  fs::create_directories(results / "mine");
  write_lock(results / "theirs", {1, "of an earlier process"});
  const auto lock = read_file(results / "theirs");
  fs::create_symlink(results / "theirs", results / "mine/lock");
  write(results / "mine/gemm.json");
  const auto why = refusal([&] { RunFolder::take(results / "mine", ""); });
  EXPECT_NE(why.find("mine/lock "), std::string::npos) << why;
  EXPECT_TRUE(fs::exists(results / "mine/gemm.json"));
  EXPECT_EQ(read_file(results / "theirs"), lock);
}

TEST_F(Runs, ASecondCtestThatLivesIsRefusedByName) {
  const auto mine = owner_of(getpid()), other = owner_of(getppid());
  ctest::begin(results / "ctest", other, "theirs");
  const auto why = refusal([&] { ctest::begin(results / "ctest", mine, "mine"); });
  EXPECT_NE(why.find("process " + std::to_string(getppid())), std::string::npos) << why;
  EXPECT_NE(refusal([&] { ctest::check(results / "ctest", mine); }), "");
  EXPECT_EQ(ctest::check(results / "ctest", other), "theirs");
}

TEST_F(Runs, TheFolderIsFreeWhenItsCtestHasEndedHoweverItDid) {
  const pid_t child = fork();
  if (child == 0) {
    ctest::begin(results / "ctest", owner_of(getpid()), "theirs");
    std::ofstream(results / "ctest/old.json") << "x";
    std::_Exit(0);
  }
  waitpid(child, nullptr, 0);
  ctest::begin(results / "ctest", owner_of(getpid()), "");
  EXPECT_FALSE(fs::exists(results / "ctest/old.json")) << "a new run empties it";
  EXPECT_NE(ctest::check(results / "ctest", owner_of(getpid())), "theirs") << "and has an id of its own";
  EXPECT_EQ(fs::canonical(results / "latest"), fs::canonical(results / "ctest"));
}

TEST_F(Runs, AStepOfTheSameCtestMayBeginAnew) {
  for (const auto* id : {"first", "second"}) {
    ctest::begin(results / "ctest", owner_of(getpid()), id);
    EXPECT_EQ(ctest::check(results / "ctest", owner_of(getpid())), id);
  }
}

TEST_F(Runs, GoWhereTheUserSaysElseIntoTheBuildTree) {
  const char* const set = std::getenv("SHAKEDOWN_RESULTS");
  const std::string before = set == nullptr ? "" : set;
  setenv("SHAKEDOWN_RESULTS", results.c_str(), 1);
  EXPECT_EQ(usual_results(), results);
  setenv("SHAKEDOWN_RESULTS", "", 1);
  const auto build = fs::read_symlink("/proc/self/exe").parent_path().parent_path();
  ASSERT_TRUE(fs::exists(build / "CMakeCache.txt")) << "tests are run where they were built";
  EXPECT_EQ(fs::weakly_canonical(usual_results()), build / "results");
  unsetenv("SHAKEDOWN_RESULTS");
  const auto here = fs::current_path();
  fs::current_path("/");
  EXPECT_EQ(fs::weakly_canonical(usual_results()), build / "results") << "wherever it is called";
  fs::current_path(here);
  if (set != nullptr) setenv("SHAKEDOWN_RESULTS", before.c_str(), 1);
}

TEST_F(Runs, AProcessIsToldFromALaterOneOfItsNumber) {
  auto owner = owner_of(getpid());
  EXPECT_TRUE(lives(owner));
  owner.started += "1";
  EXPECT_FALSE(lives(owner));
  EXPECT_FALSE(lives(owner_of(0)));
}

}  // namespace
}  // namespace shakedown::run_folder_test
