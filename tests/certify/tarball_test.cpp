#include "certify/tarball.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "base/files.hpp"
#include "base/temporary_folder.hpp"

namespace shakedown::tarball_test {
namespace {

namespace fs = std::filesystem;

class Tarball : public ::testing::Test {
 protected:
  Tarball() {
    fs::create_directories(run_ / "kept");
    write("gemm.json", "{\"argv\": [\"--shared=http://me:word@host/x\"]}\n");
    write("kept/hbm.json", std::string(700, 'x'));
    write("log", "AWS_SECRET_ACCESS_KEY=abc123 NCCL_DEBUG=INFO\n\"HF_TOKEN\": \"xyz\"\n");
    write("lock", "host: me\n");
    fs::create_symlink("/etc/passwd", run_ / "link");
  }
  void write(const std::string& name, const std::string& text) const { std::ofstream(run_ / name) << text; }
  static std::string why(const fs::path& folder, const fs::path& out) {
    try {
      write_tarball(folder, out);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
  /// Returns the output of a shell command.
  static std::string output_of(const std::string& command) {
    std::string text;
    std::FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
    pclose(pipe);
    return text;
  }

  const TemporaryFolder folder_;
  const fs::path scratch_ = folder_.path(), run_ = scratch_ / "run-1";
};

TEST_F(Tarball, HoldsEveryFileOfTheRunWithHashesThatTheTarOfAnySystemReads) {
  const auto out = scratch_ / "vendor.tar";
  write_tarball(run_, out);
  EXPECT_EQ(output_of("tar -tf " + out.string()),
            "run-1/gemm.json\nrun-1/kept/hbm.json\nrun-1/log\nrun-1/SHA256SUMS\n");
  EXPECT_EQ(output_of("cd " + scratch_.string() +
                      " && rm -r run-1 && tar -xf vendor.tar && cd run-1 && sha256sum -c SHA256SUMS"),
            "gemm.json: OK\nkept/hbm.json: OK\nlog: OK\n");
}

TEST_F(Tarball, HoldsNoPasswordsAndNoTokens) {
  write_tarball(run_, scratch_ / "vendor.tar");
  const auto text = read_file(scratch_ / "vendor.tar");
  for (const char* secret : {"word@host", "abc123", "xyz", "root:"})
    EXPECT_EQ(text.find(secret), std::string::npos) << secret;
  EXPECT_NE(text.find("AWS_SECRET_ACCESS_KEY=***\n"), std::string::npos);
}

TEST_F(Tarball, AFileThatIsThereStaysAsItIs) {
  const auto out = scratch_ / "vendor.tar";
  std::ofstream(out) << "mine";
  EXPECT_NE(why(run_, out).find("exists"), std::string::npos);
  EXPECT_EQ(read_file(out), "mine");
}

TEST_F(Tarball, AFullDiskLeavesNothingBehind) {
  // Exceeding a file size limit acts like a full disk: there is an error, and no partial file remains.
  const auto said = output_of("cd " + scratch_.string() +
                              " && trap '' XFSZ && ulimit -f 1 && " SHAKEDOWN_PROGRAM
                              " archive --results=run-1 --out=small.tar 2>&1; echo code $?");
  EXPECT_NE(said.find("small.tar: "), std::string::npos) << said;
  EXPECT_NE(said.find("File too large"), std::string::npos) << said;
  EXPECT_NE(said.find("code 3"), std::string::npos) << said;
  EXPECT_EQ(output_of("cd " + scratch_.string() + " && ls"), "run-1\n");
}

TEST_F(Tarball, AFolderWithoutResultsIsRefusedInOneLine) {
  fs::create_directory(scratch_ / "empty");
  EXPECT_NE(why(scratch_ / "empty", scratch_ / "a.tar").find("no results"), std::string::npos);
  EXPECT_NE(why(run_, scratch_ / "nosuch" / "a.tar").find("nosuch/a.tar: "), std::string::npos);
  EXPECT_FALSE(fs::exists(scratch_ / "a.tar"));
}

}  // namespace
}  // namespace shakedown::tarball_test
