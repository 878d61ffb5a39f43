// The descriptions of XIDs in findings and in the documentation.
#include "base/xids.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

namespace shakedown::xids_test {
namespace {

TEST(Xids, HaveNvidiasActionInWords) {
  EXPECT_EQ(advice_on("xid_79"),
            "the GPU has fallen off the bus; NVIDIA: restart the node, power included; again: have the GPU replaced "
            "(RESTART_BM)");
  EXPECT_EQ(advice_on("xid_9999"), "");
  EXPECT_EQ(advice_on("ecc_uncorrected"), "");
  for (const KnownXid& xid : xids()) EXPECT_NE(action_in_words(xid.bucket), "") << xid.number;
}

// The table in the documentation must match this one.
TEST(Xids, StandInTheDocumentation) {
  std::ifstream file(SHAKEDOWN_SOURCE_DIR "/docs/troubleshooting.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const KnownXid& xid : xids()) {
    const std::string row = "| " + std::to_string(xid.number) + " | " + std::string(xid.what) + " | " +
                            std::string(action_in_words(xid.bucket)) + " | `" + std::string(xid.bucket) + "` |\n";
    EXPECT_NE(text.find(row), std::string::npos) << row;
  }
}

}  // namespace
}  // namespace shakedown::xids_test
