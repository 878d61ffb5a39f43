// Folders and files of a run that another user renames or replaces with links.
#include "base/held_folder.hpp"
#include "base/shown_path.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/files.hpp"

namespace shakedown::held_folder_test {
namespace {

namespace fs = std::filesystem;

class HeldFolderTest : public testing::Test {
 protected:
  HeldFolderTest() { fs::create_directories(root / "results"); }
  ~HeldFolderTest() override { fs::remove_all(root); }
  void write(const fs::path& file, const std::string& text) const { std::ofstream(root / file) << text; }
  std::string text(const fs::path& file) const { return read_file(root / file); }
  template <class Step>
  static std::string refusal(const Step& step) {
    return input_error_of(step);
  }

  const fs::path root = fs::temp_directory_path() / ("shakedown_held_" + std::to_string(getpid()));
};

TEST_F(HeldFolderTest, WritesToTheFolderThatWasOpenedWhateverBecomesOfItsName) {
  const auto run = HeldFolder::create(HeldFolder::open(root / "results"), "run");
  fs::rename(root / "results/run", root / "moved");
  fs::create_directory(root / "results/run");
  replace_file(run.path() / "gemm.json", "measured");
  RunFile(run.path() / "log", RunFile::Mode::append).write("line\n");
  EXPECT_EQ(text("moved/gemm.json"), "measured");
  EXPECT_EQ(text("moved/log"), "line\n");
  EXPECT_TRUE(fs::is_empty(root / "results/run"));
  EXPECT_EQ(shown(run.path() / "log"), fs::canonical(root) / "moved/log");
}

TEST_F(HeldFolderTest, FollowsNoLinkThatIsPutInARun) {
  write("secret", "of root");
  const auto run = HeldFolder::create(HeldFolder::open(root / "results"), "run");
  for (const auto* name : {"verdict.json", "log"}) fs::create_symlink(root / "secret", root / "results/run" / name);
  fs::create_hard_link(root / "secret", root / "results/run/lock");
  replace_file(run.path() / "verdict.json", "FAIL");
  EXPECT_EQ(text("results/run/verdict.json"), "FAIL");
  RunFile(run.path() / "soak.jsonl", RunFile::Mode::append).write_durably("round\n");
  EXPECT_EQ(text("results/run/soak.jsonl"), "round\n");
  EXPECT_NE(refusal([&] { RunFile(run.path() / "log", RunFile::Mode::append); }).find("log: "), std::string::npos);
  EXPECT_NE(refusal([&] { RunFile(run.path() / "lock", RunFile::Mode::replace); }).find("has another name elsewhere"),
            std::string::npos);
  EXPECT_EQ(text("secret"), "of root");
}

TEST_F(HeldFolderTest, RefusesALinkAFileAndAFolderThatAllUsersMayWriteTo) {
  const auto results = HeldFolder::open(root / "results");
  fs::create_directory_symlink(root, root / "results/link");
  write("results/file", "");
  fs::create_directory(root / "results/open");
  ::chmod((root / "results/open").c_str(), 0777);
  for (const auto* name : {"link", "file"}) {
    EXPECT_NE(refusal([&] { HeldFolder::create(results, name); }).find("is a link, or not a folder"),
              std::string::npos);
  }
  EXPECT_NE(refusal([&] { HeldFolder::create(results, "open"); }).find("can be written by all users"),
            std::string::npos);
  EXPECT_NE(refusal([&] { HeldFolder::open(root / "results/file"); }).find("results/file: "), std::string::npos);
}

TEST_F(HeldFolderTest, NamesTheFileAsPeopleKnowIt) {
  const auto run = HeldFolder::create(HeldFolder::open(root / "results"), "run");
  const auto why = refusal([&] { read_file(run.path() / "absent.json"); });
  EXPECT_NE(why.find("/results/run/absent.json: "), std::string::npos) << why;
  EXPECT_EQ(shown("/proc/self/fd/9999/x"), "/proc/self/fd/9999/x");
}

}  // namespace
}  // namespace shakedown::held_folder_test
