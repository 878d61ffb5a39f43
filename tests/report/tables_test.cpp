// Tests the pages of a fleet and of a history.
#include "report/html/tables.hpp"

#include <gtest/gtest.h>

#include <string>

namespace shakedown::tables_test {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// True if the page is whole, loads nothing, and has no script.
bool stands_alone(const std::string& page) {
  return page.starts_with("<!doctype html>") && page.ends_with("</html>\n") && !has(page, "{{") &&
         !has(page, "<script") && !has(page, "http:") && !has(page, "https:");
}

TEST(FleetPage, HasARowForEachNodeAndTheRunsThatAreLeftOut) {
  Fleet fleet;
  FleetNode bad, good;
  bad.host = "n1";
  bad.state = NodeState::bad;
  bad.reasons = {"GPU 3 is <slow>"};
  good.host = "n2";
  good.state = NodeState::good;
  fleet.nodes = {bad, good};
  fleet.left_out = {{"runs/n3", "has no results"}};
  const auto page = html_text(fleet);
  EXPECT_TRUE(stands_alone(page)) << page;
  EXPECT_TRUE(has(page, "<header class=\"bad\">"));
  EXPECT_TRUE(has(page, "<td>n1</td><td>bad</td>") && has(page, "GPU 3 is &lt;slow&gt;")) << page;
  EXPECT_TRUE(has(page, "<td>n2</td><td>good</td>"));
  EXPECT_TRUE(has(page, "<td>runs/n3</td><td>"));
  fleet.nodes = {good};
  EXPECT_TRUE(has(html_text(fleet), "<header class=\"doubt\">")) << "a run is left out";
  fleet.exit_code = 0;
  EXPECT_TRUE(has(html_text(fleet), "<header class=\"good\">"));
}

TEST(HistoryPage, DrawsAFigureThatChangedWithItsChange) {
  LedgerEvent run;
  run.node = "n1";
  run.time = "2026-11-20T06:00:00Z";
  Course course;
  course.unit = "serial-7";
  course.key = Key("hbm/op:copy");
  course.metric = "hbm_gb_per_s";
  for (const double value : {4000.0, 4000.0, 3600.0}) course.values.push_back({&run, value});
  History history;
  history.selected = "n1";
  history.courses = {course};
  EXPECT_FALSE(has(html_text(history), "<svg")) << "it has not changed";
  ChangePoint point;
  point.at = 2;
  point.change.trend = Trend::worse;
  point.change.before = 4000;
  point.change.after = 3600;
  point.change.percent = -10;
  point.software = {"driver 570 -> 580"};
  history.courses.front().changes = {point};
  const auto page = html_text(history);
  EXPECT_TRUE(stands_alone(page)) << page;
  EXPECT_TRUE(has(page, "points=\"20.0,20.0 380.0,20.0 740.0,100.0 \"")) << page;
  EXPECT_TRUE(has(page, "<line class=\"mark\" x1=\"560.0\"")) << "between the last two runs: " << page;
  EXPECT_TRUE(has(page, "serial-7 hbm/op:copy hbm_gb_per_s") && has(page, "driver 570 -&gt; 580")) << page;
}

}  // namespace
}  // namespace shakedown::tables_test
