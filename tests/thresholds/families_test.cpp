// Tests the generator of the table of families, and the table with one more row: of_host, which GPUs do not have.
#include "thresholds/catalogue/families.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <fstream>
#include <set>

#include "base/files.hpp"
#include "base/process.hpp"
#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown::families_test {
namespace {

const std::filesystem::path source = SHAKEDOWN_SOURCE_DIR;

/// A stored launch of 4 H200 with one more row, which is waived or has the figures of its first row.
Verdict with(const std::string& key, bool waived) {
  auto files = read_results(std::vector{source / "tests/data/h200-sxm-4ranks-full/1"});
  auto& rows = files.front().rows;
  Row row = waived ? Row{} : rows.front();
  row.key = Key(key);
  if (waived) row.waived = "no GPU does this";
  rows.push_back(row);
  return judge(files, testing_support::shipped_profiles(), {});
}

TEST(Families, ThatOnlyTheHostHasLeaveAStoredRunOfGpusAtPass) {
  EXPECT_EQ(verdict_line(with("of_host/x:1", true)),
            "VERDICT: PASS 185/185 (profile h200-sxm, 4 ranks, 9 of 10 families judged)");
  EXPECT_EQ(with("of_nothing/x:1", true).state, State::no_reference) << "the table has no row of it";
  EXPECT_EQ(with("of_host/x:1", false).state, State::no_reference) << "it was measured after all";
}

TEST(Families, AreMeasuredInTheOrderOfTheTable) {
  std::vector<std::string> measured, known;
  std::ifstream lines(MEASURED_FAMILIES);
  for (std::string line; std::getline(lines, line);) measured.push_back(line);
  for (const FamilyRow& row : family_rows()) known.emplace_back(row.name);
  EXPECT_EQ(std::erase(known, "of_host"), 1u);
  EXPECT_EQ(known, measured) << "thresholds/families/families.yaml and bench/CMakeLists.txt";
}

TEST(Families, ThatTheTableLeavesUnjudgedStandInNoShippedProfileByName) {
  for (const Profile& profile : load_profiles(source / "thresholds")) {
    const std::set<std::string> once(profile.unjudged.begin(), profile.unjudged.end());
    EXPECT_EQ(once.size(), profile.unjudged.size()) << profile.name;
    EXPECT_EQ(once.contains("checkpoint"), profile.match.backend == Backend::cuda) << profile.name;
  }
}

TEST(Families, AreRefusedWithLineAndColumn) {
  const testing_support::Folder folder;
  const std::string begin = "- {family: gemm, shows: s, on: {host: judged, cuda: judged}", plan = ", plan: {seconds: 1";
  const std::string row = begin + plan + "}, source: s}\n";
  const auto with_on = [&](const std::string& on) {
    return "- {family: gemm, shows: s, on: {" + on + "}" + plan + "}, source: s}";
  };
  const std::vector<std::array<std::string, 3>> wrong{
      {row + row, "2:12", "duplicate family \"gemm\""},
      {"- {family: Gemm, shows: s, on: {host: judged, cuda: judged}" + plan + "}, source: s}", "1:12", "not a name"},
      {begin + plan + "}}", "1:3", "without \"source\""},
      {begin + plan + "}, source: ''}", "1:90", "not empty"},
      {with_on("host: judged, rocm: judged"), "1:53", "unknown backend \"rocm\""},
      {with_on("host: judged"), "1:32", "without \"cuda\""},
      {with_on("host: judged, cuda: maybe"), "1:53", "choose one of judged, unjudged, absent"},
      {begin + plan + "}, source: s, why: s}", "1:93", "unknown key \"why\""},
      {begin + ", source: s}", "1:3", "without \"plan\""},
      {begin + ", plan: {tuning: 1}, source: s}", "1:68", "without \"seconds\""},
      {begin + ", plan: {seconds: -1}, source: s}", "1:78", "cannot be negative"},
      {begin + plan + ", tuning: 0}, source: s}", "1:89", "tuning must be above 0"},
      {begin + plan + "}, own_memory: 1, source: s}", "1:94", "choose one of true, false"},
      {begin + plan + "}, in_gate: 1, source: s}", "1:91", "choose one of true, false"},
      {begin + plan + "}, on_request: 1, source: s}", "1:94", "choose one of true, false"},
      {"- {family: gemm, on: {host: judged, cuda: judged}" + plan + "}, source: s}", "1:3", "without \"shows\""},
      {"- {family: gemm, shows: 'a\"b', on: {host: judged, cuda: judged}" + plan + "}, source: s}", "1:25", "quote"},
      {"[]", "1:1", "no family"}};
  const auto table = folder.path() / "table.hpp";
  const auto generate = [&](const std::string& text) {
    return output_of({FAMILIES_TABLE, folder.write("f.yaml", text).string(), table.string()}, std::chrono::minutes(1));
  };
  for (const auto& [text, place, what] : wrong) {
    const auto output = generate(text);
    EXPECT_EQ(output.code, 2) << text;
    EXPECT_TRUE(output.text.starts_with((folder.path() / "f.yaml").string() + ":" + place + ": ")) << output.text;
    EXPECT_NE(output.text.find(what), std::string::npos) << output.text;
    EXPECT_FALSE(std::filesystem::exists(table)) << text;
  }
  EXPECT_EQ(generate(row).code, 0);
  const auto* const line =
      "FamilyRow{\"gemm\", \"s\", {Need::judged, Need::judged, Need::judged}, {.seconds = 1}, false, false, false},";
  EXPECT_NE(read_file(table).find(line), std::string::npos) << read_file(table) << "virtual is as cuda";
}

}  // namespace
}  // namespace shakedown::families_test
