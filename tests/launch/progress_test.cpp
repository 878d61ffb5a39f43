// Tests the progress display of an acceptance.
#include "launch/progress.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace shakedown::progress_test {
namespace {

Finding finding(const std::string& key, double value, double limit, LimitKind kind = LimitKind::min) {
  Finding result;
  result.key = Key(key);
  result.metric = "tflops";
  result.value = value;
  result.limit = {kind, limit};
  result.unit = "TFLOPS";
  if (result.limit->is_missed_by(value)) result.status = Status::fail;
  return result;
}

Verdict verdict(const std::vector<Finding>& findings) {
  Verdict result;
  result.findings = findings;
  return result;
}

std::string line(const Progress& progress, const std::string& family, double now = 10, std::size_t width = 200) {
  const auto text = progress.text(now, width, false);
  const auto at = text.find(family);
  if (at == std::string::npos) return "";
  const auto begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

Event row(const std::string& key, int number, std::optional<double> seconds = std::nullopt) {
  return {.kind = Event::Kind::row, .key = key, .row = number, .rows = 5, .seconds = seconds};
}

class BoardTest : public testing::Test {
 protected:
  Progress progress{{"preflight", "gemm", "hbm"}};
};

TEST_F(BoardTest, BeginsWithEveryFamilyWaiting) {
  EXPECT_EQ(progress.text(0, 80, false),
            "      preflight         \n      gemm              \n      hbm               \n0 of 3 families, 0 s");
}

TEST_F(BoardTest, ShowsHowFarAFamilyIsAndHowLongItStillTakes) {
  progress.heard(row("gemm/dtype:bf16/m:8192", 1), 10);
  EXPECT_EQ(line(progress, "gemm"), "...   gemm         0 s  1/5  gemm/dtype:bf16/m:8192");
  progress.heard(row("gemm/dtype:f32/m:8192", 3, 6.4), 14);
  EXPECT_EQ(line(progress, "gemm", 16), "...   gemm         6 s  3/5, about 4 s left  gemm/dtype:f32/m:8192");
  EXPECT_NE(line(progress, "gemm", 99).find("about 0 s left"), std::string::npos);
}

TEST_F(BoardTest, KnowsFromThePlanHowLongAFirstRunTakes) {
  for (const auto& [family, seconds] : std::map<std::string, double>{{"preflight", 3}, {"gemm", 9.4}, {"hbm", 2}}) {
    progress.heard({.kind = Event::Kind::plan, .key = family, .rows = 5, .seconds = seconds}, 1);
  }
  EXPECT_EQ(line(progress, "hbm"), "      hbm               about 2 s");
  EXPECT_NE(progress.text(1, 80, false).find("0 of 3 families, 1 s, about 14 s left"), std::string::npos);
  progress.arrived("preflight", verdict({}), 4);
  progress.heard(row("gemm/a:1", 1, 8), 5);
  EXPECT_NE(progress.text(6, 80, false).find("1 of 3 families, 6 s, about 9 s left"), std::string::npos);
}

TEST_F(BoardTest, ShowsOfAFamilyTheFigureThatIsNearestToItsLimit) {
  progress.heard(row("gemm/a:1", 1), 1);
  progress.arrived("gemm", verdict({finding("gemm/a:1", 800, 400), finding("gemm/b:2", 440, 400)}), 4);
  EXPECT_EQ(line(progress, "gemm"), "ok    gemm         3 s  440 TFLOPS (min 400)  gemm/b:2");
  EXPECT_EQ(progress.line_of("gemm"), "[1/3] gemm: ok, 3 s; closest to its limit: 440 TFLOPS (min 400)  gemm/b:2");
}

TEST_F(BoardTest, ShowsWhatFailsAndCountsTheRest) {
  progress.arrived(
      "hbm",
      verdict({finding("hbm/a:1", 300, 400), finding("hbm/b:2", 9, 8, LimitKind::max), finding("hbm/c:3", 9, 8)}), 5);
  EXPECT_EQ(line(progress, "hbm"), "FAIL  hbm          5 s  300 TFLOPS (min 400)  hbm/a:1 and 1 more");
  EXPECT_NE(progress.text(6, 200, false).find("1 of 3 families, 6 s"), std::string::npos);
}

TEST_F(BoardTest, TakesAnEventThatIsNoProgressForNone) {
  progress.heard(row("nosuch/a", 1), 3);
  progress.heard({.kind = Event::Kind::note, .key = "gemm/a", .row = 1, .rows = 2, .text = "hello"}, 3);
  progress.heard({.kind = Event::Kind::lost, .key = "gemm/a", .row = 1, .rows = 2}, 3);
  EXPECT_NE(progress.text(3, 80, false).find("      gemm              \n"), std::string::npos)
      << progress.text(3, 80, false);
  EXPECT_EQ(progress.line_of("gemm"), "") << "it has no result";
  EXPECT_EQ(progress.line_of("nosuch"), "");
}

TEST_F(BoardTest, SaysAFindingInOneLine) {
  auto slow = finding("hbm/a:1", 300, 400);
  slow.worst = Culprit{3, "node7", {}, {}, 300.0};
  EXPECT_EQ(short_text(slow), "fail: hbm/a:1 300 TFLOPS (min 400)  rank 3 node7");
  auto impossible = finding("hbm/a:1", 300, 200);
  impossible.limit = {};
  impossible.status = Status::invalid;
  impossible.detail = "contradicts 5 us\nfor the operation";
  EXPECT_EQ(short_text(impossible), "invalid: hbm/a:1 300 TFLOPS (contradicts 5 us for the operation)");
}

TEST_F(BoardTest, NamesTheFactOfWhichItsKeyHasMany) {
  auto link = finding("preflight/of:nvlink", 17, 18);
  link.metric = "nvlinks_up", link.unit = "";
  EXPECT_EQ(short_text(link), "fail: preflight/of:nvlink nvlinks_up 17 (min 18)");
  progress.arrived("preflight", verdict({link}), 4);
  EXPECT_NE(line(progress, "preflight").find("17 (min 18)  preflight/of:nvlink nvlinks_up"), std::string::npos);
}

TEST_F(BoardTest, FitsAnyWidth) {
  progress.heard(row("gemm/dtype:bf16/m:8192/n:8192/k:8192", 1), 10);
  for (const std::size_t width : {1u, 4u, 20u, 79u}) {
    const auto text = progress.text(10, width, false) + "\n";
    std::size_t begin = 0;
    for (auto end = text.find('\n'); end != std::string::npos; begin = end + 1, end = text.find('\n', begin)) {
      EXPECT_LE(end - begin, width);
    }
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  }
}

TEST_F(BoardTest, ColorsTheStateOnly) {
  progress.arrived("gemm", verdict({}), 4);
  EXPECT_NE(progress.text(4, 80, true).find("\033[32mok  \033[0m  gemm"), std::string::npos);
  EXPECT_EQ(progress.text(4, 80, false).find('\033'), std::string::npos);
}

}  // namespace
}  // namespace shakedown::progress_test
