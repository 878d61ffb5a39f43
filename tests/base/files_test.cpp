// Small files of /sys and /proc, and the sorting of names.
#include "base/files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <span>
#include <string_view>
#include <thread>

#include "base/descriptor.hpp"

namespace shakedown::files_test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class Files : public testing::Test {
 protected:
  Files() { fs::create_directories(folder); }
  ~Files() override { fs::remove_all(folder); }
  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name) << text;
    return folder / name;
  }
  Words in_order(const Words& names) const {
    for (const auto& name : names) write(name, "");
    const auto sorted = names_in(folder).value();
    for (const auto& name : names) fs::remove(folder / name);
    return sorted;
  }
  const fs::path folder = fs::temp_directory_path() / ("shakedown_files_" + std::to_string(getpid()));
};

TEST_F(Files, AreSortedByTheNumbersInTheirNames) {
  EXPECT_EQ(in_order({"eth10", "eth2", "eth9", "eth0", "eth"}), (Words{"eth", "eth0", "eth2", "eth9", "eth10"}));
  EXPECT_EQ(in_order({"a3b9", "a2b10"}), (Words{"a2b10", "a3b9"}));
  EXPECT_EQ(in_order({"nvme2n10", "nvme2n9", "nvme10n1"}), (Words{"nvme2n9", "nvme2n10", "nvme10n1"}));
  EXPECT_EQ(in_order({"ib", "eth:1", "eth1", "eth"}), (Words{"eth", "eth1", "eth:1", "ib"}));
  EXPECT_EQ(in_order({"7", "07", "8", "06"}), (Words{"06", "07", "7", "8"}));
  EXPECT_EQ(in_order({"a99", "a100", "a98"}), (Words{"a98", "a99", "a100"}));
  EXPECT_FALSE(names_in(folder / "none"));
}

TEST_F(Files, AreReadAndWrittenFromAnyByteOn) {
  const Descriptor file(open(write("file", "0123456789").c_str(), O_RDWR | O_CLOEXEC));
  const auto text = [](std::string_view from) { return std::as_bytes(std::span(from)); };
  std::array<std::byte, 4> four{};
  EXPECT_EQ(read_at(file.get(), four, 3), 4u);
  EXPECT_TRUE(std::ranges::equal(four, text("3456")));
  EXPECT_EQ(read_at(file.get(), four, 8), 2u) << "the file ends";
  EXPECT_EQ(read_at(file.get(), four, 10), 0u);
  EXPECT_EQ(write_at(file.get(), text("abcd"), 8), 4u);
  EXPECT_EQ(read_at(file.get(), four, 8), 4u);
  EXPECT_TRUE(std::ranges::equal(four, text("abcd")));
  const Descriptor folder_itself(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_EQ(read_at(folder_itself.get(), four, 0), std::nullopt);
  EXPECT_EQ(errno, EISDIR);
  EXPECT_EQ(write_at(folder_itself.get(), four, 0), std::nullopt);
}

TEST_F(Files, GiveTheirFirstLineWithoutBlanks) {
  EXPECT_EQ(line_of(write("a", " \tone two \r\nthree\n")), "one two");
  EXPECT_FALSE(line_of(write("a", "\none\n"))) << "the first one is empty";
  EXPECT_FALSE(line_of(write("a", "")));
  EXPECT_FALSE(line_of(folder / "none"));
}

TEST_F(Files, GiveTheNumberThatTheyBeginWith) {
  EXPECT_EQ(number_of(write("a", "32.0 GT/s PCIe\n")), 32);
  EXPECT_EQ(number_of(write("a", "-1")), -1);
  EXPECT_FALSE(number_of(write("a", "Unknown\n")));
  EXPECT_FALSE(number_of(write("a", "")));
  EXPECT_FALSE(number_of(folder / "none"));
}

TEST_F(Files, GiveTheValueOfAField) {
  const auto file = write("a", "MemTotal:  16 kB\nMemFree: \nName : x: y\nset=7\n");
  EXPECT_EQ(field_of(file, "MemTotal"), "16 kB");
  EXPECT_EQ(field_of(file, "Name"), "x: y");
  EXPECT_EQ(field_of(file, "set", '='), "7");
  EXPECT_FALSE(field_of(file, "MemFree")) << "it is empty";
  EXPECT_FALSE(field_of(file, "Mem"));
  EXPECT_FALSE(field_of(folder / "none", "Mem"));
}

TEST_F(Files, GiveAllTheirLines) {
  EXPECT_EQ(lines_of(write("a", "one\n\ntwo")), (Words{"one", "", "two"}));
  EXPECT_EQ(lines_of(write("a", "")), Words{});
  EXPECT_FALSE(lines_of(folder / "none"));
}

TEST_F(Files, AreFoldersOrNot) {
  EXPECT_TRUE(is_folder(folder));
  EXPECT_FALSE(is_folder(write("a", "")));
  EXPECT_FALSE(is_folder(folder / "none"));
  EXPECT_FALSE(is_folder(folder / "a/b")) << "below a file";
  fs::create_symlink("circle", folder / "circle");
  EXPECT_THROW(is_folder(folder / "circle"), std::runtime_error) << "it cannot be said";
}

std::string unwritable(const fs::path& file, const std::string& why) {
  return file.string() + ": cannot be written: " + why;
}

std::string error_of_replacing(const fs::path& file) {
  try {
    replace_file(file, "new");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST_F(Files, AreReplacedAsAWholeAndLeaveNothingBeside) {
  const auto file = write("a", "old");
  fs::create_symlink("a", folder / "link");
  replace_file(folder / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link")) << "a link keeps pointing where it does";
  EXPECT_EQ(read_file(file), "new");
  EXPECT_EQ(error_of_replacing(folder), unwritable(folder, "Is a directory"));
  EXPECT_EQ(error_of_replacing(folder / ""), unwritable(folder / "", "Is a directory"));
  EXPECT_EQ(error_of_replacing(folder / "none/a"), unwritable(folder / "none/a", "No such file or directory"));
  const auto long_name = folder / std::string(255, 'x');
  EXPECT_EQ(error_of_replacing(long_name), unwritable(long_name, "File name too long"))
      << "of the file that replaces it";
  EXPECT_EQ(names_in(folder).value(), (Words{"a", "link"}));
}

TEST_F(Files, KeepTheOldTextWhereTheNewOneCannotBeWritten) {
  const auto file = folder / "a";
  replace_file(file, "old");
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  auto low = limit;
  low.rlim_cur = 1;
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const auto error = error_of_replacing(file);
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(error, unwritable(file, "File too large"));
  EXPECT_EQ(read_file(file), "old");
  EXPECT_EQ(names_in(folder).value(), Words{"a"}) << "no part of the new text";
}

TEST_F(Files, ThatAreLinksOfAnotherUserAreNotFollowed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root makes files of other users";
  const auto file = write("a", "old"), link = folder / "link";
  fs::create_symlink("a", link);
  constexpr uid_t other = 65534;
  ASSERT_EQ(lchown(link.c_str(), other, other), 0);
  for (const mode_t mode : {0755U, 01777U}) {
    for (const uid_t owner : {0U, other}) {
      ASSERT_EQ(chmod(folder.c_str(), mode) + lchown(folder.c_str(), owner, owner), 0);
      EXPECT_EQ(error_of_replacing(link), unwritable(link, "Permission denied"));
    }
  }
  EXPECT_EQ(read_file(file), "old");
  ASSERT_EQ(lchown(link.c_str(), 0, 0), 0);
  EXPECT_EQ(error_of_replacing(link), "") << "this user made it";
  EXPECT_EQ(read_file(file), "new");
}

TEST_F(Files, ThatAreLinksToLinksAreFollowedToTheirEnd) {
  fs::create_directory(folder / "deep");
  fs::create_symlink("deep/next", folder / "link");
  fs::create_symlink("../a", folder / "deep/next");
  replace_file(folder / "link", "new");
  EXPECT_EQ(read_file(folder / "a"), "new") << "there was none";
  fs::create_symlink("loop", folder / "loop");
  EXPECT_EQ(error_of_replacing(folder / "loop"), unwritable(folder / "loop", "Too many levels of symbolic links"));
  std::string last = "b";
  for (const std::string name : {"1", "2", "3", "4", "5", "6", "7", "8"}) {
    fs::create_symlink(last, folder / name);
    last = name;
  }
  EXPECT_EQ(error_of_replacing(folder / last), "") << "eight links";
  fs::create_symlink(last, folder / "9");
  EXPECT_NE(error_of_replacing(folder / "9"), "") << "nine";
  const auto out = write("out", "");
  const Descriptor opened(open(out.c_str(), O_RDONLY | O_CLOEXEC));
  replace_file("/dev/fd/" + std::to_string(opened.get()), "through a descriptor");
  EXPECT_EQ(read_file(out), "through a descriptor");
}

TEST_F(Files, ThatArePipesAreWrittenOnceTheyAreRead) {
  const auto pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string text(200'000, 'x');  // more than the buffer of a pipe
  std::string read;
  {
    const std::jthread reader([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      std::ifstream in(pipe);
      read.assign(std::istreambuf_iterator<char>(in), {});
    });
    replace_file(pipe, text);
  }
  EXPECT_EQ(read, text);
  EXPECT_TRUE(fs::is_fifo(pipe));
}

}  // namespace
}  // namespace shakedown::files_test
