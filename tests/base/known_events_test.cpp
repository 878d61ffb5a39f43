// The meaning of events in findings and in the documentation.
#include "base/known_events.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "base/process.hpp"

namespace shakedown::known_events_test {
namespace {

TEST(KnownEvents, HaveNvidiasActionInWords) {
  EXPECT_TRUE(advice_on("xid_79").ends_with(" (RESTART_BM)"));
  EXPECT_EQ(advice_on("xid_9999"), "");
  EXPECT_EQ(advice_on("ecc_uncorrected"), "");
  for (const XidRow& xid : xids()) EXPECT_NE(action_in_words(xid.action), "") << xid.number;
}

TEST(KnownEvents, HaveEachXidOfTheCatalogue) {
  std::set<int> numbers;
  for (const XidRow& xid : xids()) numbers.insert(xid.number);
  EXPECT_EQ(numbers.size(), 172u);
  EXPECT_EQ(*numbers.begin(), 1);
  EXPECT_EQ(*numbers.rbegin(), 172);
}

TEST(KnownEvents, CondemnAGpuOrAreHarmlessAsNvidiaSays) {
  for (const int xid : {46, 48, 54, 62, 64, 74, 79, 95, 119, 140, 143, 155, 158}) EXPECT_TRUE(condemns(xid)) << xid;
  for (const int xid : {13, 31, 43, 45, 63, 92, 94, 121, 145, 154, 171, 9999}) EXPECT_FALSE(condemns(xid)) << xid;
  for (const int xid : {13, 31, 43, 44, 45, 63, 106, 121, 137}) EXPECT_TRUE(is_harmless(xid)) << xid;
  for (const int xid : {32, 39, 48, 79, 94, 145, 167, 9999}) EXPECT_FALSE(is_harmless(xid)) << xid;
}

/// Returns the numbers of some rows of the table: "39-41, 70, 71".
std::string ranges(std::size_t begin, std::size_t end) {
  std::string text;
  for (std::size_t last = begin; begin < end; begin = ++last) {
    while (last + 1 < end && xids()[last + 1].number == xids()[last].number + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(xids()[begin].number);
    if (last > begin) text += (last > begin + 1 ? "-" : ", ") + std::to_string(xids()[last].number);
  }
  return text;
}

// The lists in the documentation must match the table.
TEST(KnownEvents, AreInTheDocumentation) {
  std::ifstream file(SHAKEDOWN_SOURCE_DIR "/docs/troubleshooting.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (std::size_t first = 0, end = 0; first < xids().size(); first = end) {
    const XidRow& row = xids()[first];
    for (end = first; end < xids().size() && xids()[end].means == row.means;) ++end;
    const std::string action = "`" + std::string(row.action) + "`";
    const std::string line = "- " + ranges(first, end) + ": " + std::string(row.means) + ": " + action + "\n";
    EXPECT_NE(text.find(line), std::string::npos) << line;
    const std::string item = "- " + action + ": " + std::string(action_in_words(row.action)) + "\n";
    EXPECT_NE(text.find(item), std::string::npos) << item;
  }
}

TEST(KnownEvents, AreRefusedWithLineAndColumn) {
  const auto folder = std::filesystem::temp_directory_path() / ("shakedown_events_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string shape = "{driver: d, contains: c, means: m, source: s}";
  const std::string limit = "{counter: c, words: w, per_hour: 1, source: s}";
  const std::string version = "{component: nccl, versions: ['1'], means: m, source: s}";
  const auto refusal = [&](const std::string& rows) {
    std::ofstream(folder / "e.yaml") << "actions: [{action: RESET_GPU, means: m}]\nxids: {source: s, rows: [" << rows
                                     << "]}\nkernel_log: [" << shape << "]\nbmc_log: [" << shape
                                     << "]\nport_counters: [" << limit << "]\nfaulty_versions: [" << version << "]\n";
    const auto output = output_of({EVENTS_TABLE, folder / "e.yaml", folder / "table.hpp"}, std::chrono::minutes(1));
    EXPECT_EQ(output.code == 0, std::filesystem::exists(folder / "table.hpp")) << rows;
    return output.code == 2 ? output.text : "accepted";
  };
  const std::string row = "{xid: [79], means: m, action: RESET_GPU}";
  EXPECT_NE(refusal(row + ", " + row).find(":2:75: duplicate XID 79"), std::string::npos) << refusal(row + ", " + row);
  EXPECT_NE(refusal("{xid: [79], means: m, action: PRAY}").find("\"PRAY\""), std::string::npos);
  EXPECT_NE(refusal("{xid: [79], action: RESET_GPU}").find("\"means\""), std::string::npos);
  EXPECT_EQ(refusal(row), "accepted");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace shakedown::known_events_test
