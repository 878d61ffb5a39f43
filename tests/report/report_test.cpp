// Tests the output formats for programs and CI against the rules of their readers.
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "base/text.hpp"
#include "report/bencher.hpp"
#include "report/csv.hpp"
#include "report/escape.hpp"
#include "report/github_annotations.hpp"
#include "report/github_benchmark.hpp"
#include "report/health_checker.hpp"
#include "report/html/page.hpp"
#include "report/junit.hpp"
#include "report/markdown.hpp"
#include "report/nagios.hpp"
#include "report/prometheus.hpp"
#include "report/regression_json.hpp"
#include "report/superbench.hpp"
#include "report/verdict_json.hpp"
#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"

namespace shakedown::report_test {
namespace {

using nlohmann::json;
using testing_support::profile;
using testing_support::ResultsBuilder;

const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
const std::string reduce = "allreduce/dtype:f32/bytes:8";

// A run with one slow rank, a good latency, an error without a rule, a waiver, and two rules for one metric.
Verdict failing() {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 600, {700, 610, 710, 600})
      .add(reduce, "latency_us", 20)
      .add("hbm/op:copy/engine:sm/bytes:8", "hbm_gb_per_s", 4000)
      .add_error("p2p/op:read/engine:ce/src:0/dst:1/bytes:8", "wrong | data <b>`x`</b>\nsecond line")
      .add_waiver("gemm/dtype:nvfp4/m:1/n:1/k:1", "needs a newer GPU");
  return judge({builder.results()},
               profile("  - {benchmark: \"" + gemm +
                       "\", metric: tflops, every: rank, min: 620, source: \"a paper\"}\n  - {benchmark: \"" + gemm +
                       "\", metric: tflops, every: rank, min: 650, source: s, severity: warn}\n  - {benchmark: \"" +
                       reduce + "\", metric: latency_us, every: run, max: 60, source: s}\n"),
               {});
}

Verdict passing() {
  return judge({ResultsBuilder().add(gemm, "tflops", 700).results()},
               profile("  - {benchmark: \"" + gemm + "\", metric: tflops, every: rank, min: 620, source: s}\n"), {});
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// ---------------------------------------------------------------------------------------------------------------------
// Markdown

TEST(Markdown, BeginsWithTheVerdictAndWhatIsWrong) {
  const std::string text = markdown_text(failing());
  EXPECT_TRUE(lines_of(text)[0].starts_with("## FAIL node0 GPU 3 (rank 3, GPU-1003, 0000:13:00.0): "));
  EXPECT_TRUE(lines_of(text)[0].ends_with("; 1 more fault"));
  const auto bad =
      text.find("| GEMM bf16, 8192 x 8192 x 8192 (tflops) | 600 TFLOPS | min 620 | rank 3 node0 GPU-1003 +1 | fail |");
  const auto good = text.find("| AllReduce f32, 8 B (latency\\_us) | 20 us |");
  ASSERT_NE(bad, std::string::npos) << text;
  ASSERT_NE(good, std::string::npos) << text;
  EXPECT_LT(text.find("wrong \\| data"), text.find("<details>")) << "no cause explains it";
  EXPECT_GT(bad, text.find("<summary>Findings "));
  EXPECT_GT(text.find(" | warn |"), text.rfind(" | fail |")) << text;
  EXPECT_GT(good, text.find("<details>"));
  EXPECT_TRUE(contains(text, "mpirun -np 4 build/bench/bench\\_p2p"));
  EXPECT_TRUE(contains(text, " min 650 | rank 3 node0 GPU-1003 +1 | warn |")) << text;
  EXPECT_TRUE(contains(text, "<summary>1 measured value ") && contains(text, ", 1 more was")) << text;
}

TEST(Markdown, KeepsEveryCellInItsPlace) {
  for (const std::string& line : lines_of(markdown_text(failing()))) {
    if (line.rfind("| ", 0) != 0) continue;
    int bars = 0;
    for (std::size_t i = 0; i < line.size(); ++i) bars += line[i] == '|' && (i == 0 || line[i - 1] != '\\') ? 1 : 0;
    EXPECT_TRUE(bars == 7 || bars == 3) << line;
  }
  EXPECT_TRUE(contains(markdown_text(failing()), "wrong \\| data &lt;b&gt;\\`x\\`&lt;/b&gt; second line"));
}

TEST(Markdown, MakesNoLinkOfANameThatIsAnAddress) {
  EXPECT_EQ(markdown_escaped("http://evil.example/x"), "http&#58;//evil.example/x");
  EXPECT_EQ(markdown_escaped("www.evil.example WWW.x"), "www&#46;evil.example WWW&#46;x");
}

TEST(Junit, IsXmlForAnyBytesInNames) {
  std::string bytes = "node\xef\xbf\xbe\xef\xbf\xbf";
  for (int c = 1; c < 256; ++c) bytes += static_cast<char>(c);
  Verdict verdict = failing();
  verdict.findings.back().detail = bytes;
  verdict.findings.back().metric = bytes;
  const auto xml = junit_xml(verdict);
  EXPECT_EQ(xml.find("\xef\xbf\xbe"), std::string::npos);
  EXPECT_EQ(xml.find("\xef\xbf\xbf"), std::string::npos);
  const auto is_control = [](char c) { return c >= 0 && c < ' ' && c != '\n'; };
  EXPECT_TRUE(std::none_of(xml.begin(), xml.end(), is_control));
  EXPECT_EQ(printable(xml), xml);
}

TEST(Markdown, OfTenThousandFailuresFitsIntoAMebibyte) {
  Verdict verdict = failing();
  const Finding one = verdict.findings.back();
  for (int i = 0; i < 10000; ++i) verdict.findings.push_back(one);
  const std::string text = markdown_text(verdict);
  EXPECT_LT(text.size(), 1u << 20);
  EXPECT_TRUE(std::regex_search(text, std::regex("and 98[0-9]{2} more")));
}

/// One launch against one: a product is 14 % slower, a step is gone, a small message cannot be judged, a copy is new.
Regression changed() {
  const auto launch = [](double tflops, const std::string& more, const std::string& metric) {
    ResultsBuilder builder;
    builder.add(gemm, "tflops", tflops).add(reduce, "latency_us", 20).add(more, metric, 100);
    return builder.results();
  };
  return judge_regression({launch(600, "hbm/op:copy/engine:sm/bytes:8", "hbm_gb_per_s")},
                          baseline_of({launch(700, "lora_step/model:qwen2_7b/batch:2/seq:4096", "step_ms")}));
}

TEST(Markdown, ShowsWhatChanged) {
  const std::string text = markdown_text(changed());
  EXPECT_EQ(lines_of(text)[0], "## REGRESSION: 1 worse, 1 missing, 0 inconclusive, 1 compared (minimal effect 1 %): " +
                                   gemm + " tflops -14.3 % and 1 more");
  EXPECT_TRUE(contains(text, "| 1, 1 | worse |")) << text;
}

TEST(RegressionJson, HasEachChangeWithItsLaunches) {
  const json document = json::parse(regression_json(changed()));
  EXPECT_EQ(document["exit_code"], 1);
  ASSERT_EQ(document["changes"].size(), 4u);
  const json& slower = document["changes"][1];
  EXPECT_EQ(slower["key"], gemm);
  EXPECT_EQ(slower["status"], "worse");
  EXPECT_NEAR(slower["percent"].get<double>(), -14.3, 0.1);
  EXPECT_EQ(slower["launches"].size(), 2u);
  EXPECT_EQ(slower["launches"][0]["new"].get<bool>() + slower["launches"][1]["new"].get<bool>(), 1);
}

TEST(RegressionJunit, FailsWhatIsWorseOrMissingAndSkipsWhatCannotBeJudged) {
  const std::string xml = junit_xml(changed());
  EXPECT_TRUE(contains(xml, "tests=\"5\" failures=\"3\" errors=\"0\" skipped=\"1\"")) << xml;
  EXPECT_TRUE(contains(xml, "name=\"" + gemm + " tflops\" time=\"0\"><failure type=\"worse\" message=\"-14.3 %"))
      << xml;
}

TEST(RegressionPage, HasEveryChangeWithItsWordsAndItsLaunches) {
  const std::string page = html_text(changed());
  const auto at = page.find("id=\"data\">") + 10;
  const auto data = nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at))["regression"];
  EXPECT_EQ(data["exit_code"], 1);
  ASSERT_EQ(data["changes"].size(), 4u);
  EXPECT_EQ(data["changes"][1]["status"], "worse");
  EXPECT_EQ(data["changes"][1]["words"][0], gemm + " tflops");
  EXPECT_TRUE(std::string(data["changes"][1]["words"][3]).starts_with("-14.3 % ("));
  EXPECT_EQ(data["changes"][1]["launches"].size(), 2u);
  if (const char* const folder = std::getenv("SHAKEDOWN_PAGES")) {
    replace_file(std::filesystem::path(folder) / "regression.html", page);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Prometheus text

// Checks the requirements of promtool and the textfile collector. HELP and TYPE come before the samples of each name,
// which are together. No series occurs twice, there are no time stamps, and gauges have base units.
void expect_valid_metrics(const std::string& text) {
  const std::regex sample(R"re(([a-z_]+)(\{([a-z_]+="([^"\\\n]|\\\\|\\"|\\n)*",?)+\})? [-+0-9.e]+)re");
  std::set<std::string> names, series;
  std::string current;
  const auto lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].rfind("# HELP ", 0) == 0) {
      current = lines[i].substr(7, lines[i].find(' ', 7) - 7);
      EXPECT_TRUE(names.insert(current).second) << current << " stands apart";
      ASSERT_LT(i + 2, lines.size());
      EXPECT_EQ(lines[++i], "# TYPE " + current + " gauge");
      continue;
    }
    std::smatch match;
    ASSERT_TRUE(std::regex_match(lines[i], match, sample)) << lines[i];
    EXPECT_EQ(match[1], current);
    EXPECT_TRUE(series.insert(lines[i].substr(0, lines[i].rfind(' '))).second) << lines[i] << " stands twice";
  }
  EXPECT_EQ(text.back(), '\n');
}

TEST(Prometheus, FollowsTheRulesOfTheCollector) {
  expect_valid_metrics(prometheus_text(failing()));
  expect_valid_metrics(prometheus_text(passing()));
  expect_valid_metrics(prometheus_text(Verdict{}));
}

TEST(Prometheus, GivesValuesAndLimitsInBaseUnits) {
  const std::string text = prometheus_text(failing());
  EXPECT_TRUE(
      contains(text, "shakedown_value_flops_per_second{key=\"" + gemm + "\",metric=\"tflops\"} 600000000000000\n"));
  EXPECT_TRUE(contains(text, "limit=\"min\",severity=\"fail\"} 620000000000000\n"));
  EXPECT_TRUE(
      contains(text,
               "shakedown_value_bytes_per_second{key=\"hbm/op:copy/engine:sm/bytes:8\",metric=\"hbm_gb_per_s\"} "
               "4000000000000\n"))
      << "what no rule judged too";
  EXPECT_TRUE(contains(text, "shakedown_findings{status=\"fail\"} 2\n"));
}

TEST(Prometheus, PassesOnlyOnAPass) {
  EXPECT_TRUE(contains(prometheus_text(passing()), "shakedown_pass{profile=\"test\"} 1\n"));
  for (const State state :
       {State::fail, State::inconclusive, State::no_reference, State::incomplete, State::host_only}) {
    Verdict verdict = passing();
    verdict.state = state;
    EXPECT_TRUE(contains(prometheus_text(verdict), "\nshakedown_pass{profile=\"test\"} 0\n"))
        << "a pass writes the series, too: an alert must not keep an old value";
    EXPECT_TRUE(contains(prometheus_text(verdict), "shakedown_verdict{verdict=\"" + lower(name(state)) + "\"} 1\n"));
    EXPECT_TRUE(contains(prometheus_text(verdict), "shakedown_verdict{verdict=\"pass\"} 0\n"));
  }
}

TEST(Prometheus, SaysWhenTheRunBeganAndWhoIsAtFault) {
  const std::string text = prometheus_text(failing());
  EXPECT_TRUE(contains(text, "\nshakedown_run_timestamp_seconds 1795237200\n")) << "2026-11-21 05:00 UTC";
  EXPECT_TRUE(contains(text, "shakedown_offender{host=\"node0\",gpu=\"3\",uuid=\"GPU-1003\",key=\"" + gemm +
                                 "\",metric=\"tflops\"} 1\n"));
  EXPECT_TRUE(contains(text, "shakedown_culprit{host=\"node0\",gpu=\"")) << text;
  EXPECT_FALSE(contains(prometheus_text(passing()), "shakedown_offender"));
  EXPECT_FALSE(contains(prometheus_text(Verdict{}), "timestamp")) << "unknown is not 1970";
}

// The output for a failing run has every series that the shipped alerts use; tests/report/alerts_test.sh fires them.
TEST(Prometheus, HasEverySeriesThatTheShippedAlertsAskFor) {
  const std::string text = prometheus_text(failing());
  const YAML::Node rules = YAML::LoadFile(SHAKEDOWN_SOURCE_DIR "/ci/prometheus/alerts.yaml");
  std::size_t alerts = 0;
  for (const YAML::Node& rule : rules["groups"][0]["rules"]) {
    ++alerts;
    const auto expr = rule["expr"].as<std::string>();
    const std::regex series("shakedown_[a-z_]+");
    auto found = std::sregex_iterator(expr.begin(), expr.end(), series);
    EXPECT_NE(found, std::sregex_iterator()) << expr;
    for (; found != std::sregex_iterator(); ++found) {
      EXPECT_TRUE(contains(text, "# TYPE " + found->str() + " gauge\n")) << expr;
    }
  }
  EXPECT_GE(alerts, 3u);
}

TEST(Prometheus, EscapesWhatItWasGiven) {
  Verdict verdict = passing();
  verdict.profile = "a\"b\\c\nd\xff";
  const std::string text = prometheus_text(verdict);
  EXPECT_TRUE(contains(text, "profile=\"a\\\"b\\\\c\\nd?\""));
  expect_valid_metrics(text);
}

// ---------------------------------------------------------------------------------------------------------------------
// Node health checkers

TEST(HealthChecker, FailsOnlyWhatFailsTheVerdict) {
  const std::string text = health_checker_json(failing());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << "it is read by the line";
  const auto document = json::parse(text);
  EXPECT_EQ(document.at("status"), "FAIL");
  std::map<std::string, std::string> states, errors;
  for (const auto& test : document.at("tests")) {
    for (const auto& check : test.at("checks")) {
      // emplace keeps the first of two rules for one metric, which is the one that counts.
      states.emplace(check.at("name"), check.at("state").at("status"));
      errors.emplace(check.at("name"), check.at("state").at("error"));
    }
  }
  EXPECT_EQ(states.at(gemm + " tflops"), "FAIL");
  EXPECT_TRUE(contains(errors.at(gemm + " tflops"), "min 620, rank 3"));
  EXPECT_EQ(states.at(reduce + " latency_us"), "PASS");
  EXPECT_EQ(errors.at(reduce + " latency_us"), "");
}

TEST(HealthChecker, NeverPassesWhatWasNotProven) {
  EXPECT_EQ(json::parse(health_checker_json(passing())).at("status"), "PASS");
  for (const State state : {State::inconclusive, State::no_reference, State::incomplete, State::host_only}) {
    Verdict verdict;
    verdict.state = state;
    EXPECT_EQ(json::parse(health_checker_json(verdict)).at("status"), "ERROR") << name(state);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// github-action-benchmark

TEST(GithubBenchmark, GivesThroughputsAndNothingElse) {
  const auto entries = json::parse(github_benchmark_json(failing()));
  std::map<std::string, json> by_name;
  for (const auto& entry : entries) {
    EXPECT_TRUE(entry["value"].is_number());
    EXPECT_GT(entry["value"], 0) << "a benchmark that failed is no 0";
    EXPECT_TRUE(by_name.emplace(entry["name"], entry).second) << entry["name"] << " stands twice";
  }
  ASSERT_EQ(by_name.size(), 2u) << entries.dump();
  EXPECT_EQ(by_name.at(gemm + " tflops")["value"], 600);
  EXPECT_EQ(by_name.at(gemm + " tflops")["unit"], "TFLOPS");
  EXPECT_EQ(by_name.at("hbm/op:copy/engine:sm/bytes:8 hbm_gb_per_s")["unit"], "GB/s");
}

// ---------------------------------------------------------------------------------------------------------------------
// Results for tools that keep histories

Judged with_results() {
  ResultsBuilder builder(4, 2);
  builder.add(gemm, "tflops", 600, {700, 610, 710, 600})
      .add("allreduce/dtype:f32/bytes:1073741824", "busbw_gb_per_s", 300)
      .add_error("p2p/op:read/engine:ce/src:0/dst:1/bytes:8", "broke")
      .add_waiver("gemm/dtype:nvfp4/m:1/n:1/k:1", "needs a newer GPU");
  Judged all{std::make_unique<const Measured>(std::vector<Results>{builder.results()}), {}, {}};
  all.verdict = judge(*all.measured, {}, {});
  return all;
}

TEST(Superbench, HasALineForEachNodeAndAFigureForEachGpu) {
  const auto lines = lines_of(superbench_jsonl(with_results()));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(json::parse(lines[0]),
            json::parse(R"({"node": "node0", "allreduce/dtype-f32/bytes-1073741824/busbw_gb_per_s": 300.0,
    "gemm/dtype-bf16/m-8192/n-8192/k-8192/tflops:0": 700.0, "gemm/dtype-bf16/m-8192/n-8192/k-8192/tflops:1": 610.0})"))
      << "and nothing of what was waived or failed";
  EXPECT_EQ(json::parse(lines[1]).at("gemm/dtype-bf16/m-8192/n-8192/k-8192/tflops:1"), 600.0);
  EXPECT_EQ(superbench_jsonl(Judged{}), "");
}

TEST(Bencher, LeavesOutWhatHasNoValue) {
  const auto document = json::parse(bencher_json(with_results()));
  EXPECT_EQ(document.size(), 2u) << document.dump();
  EXPECT_EQ(document.at(gemm).at("tflops"),
            json::parse(R"({"value": 600.0, "lower_value": 600.0, "upper_value": 710.0})"));
  EXPECT_EQ(json::parse(bencher_json(Judged{})), json::object());
}

// ---------------------------------------------------------------------------------------------------------------------
// JUnit

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Junit, TellsFailedWaivedAndWarnedApartAndSaysWhy) {
  const std::string text = junit_xml(failing());
  EXPECT_TRUE(contains(text, "<failure type=\"limit\" message=\"fail 600 TFLOPS, ") &&
              contains(text, " min 620, rank 3 node0 GPU-1003"))
      << text;
  EXPECT_TRUE(contains(text, "wrong | data &lt;b&gt;`x`&lt;/b&gt; second line")) << text;
  EXPECT_EQ(count(text, "<failure message=\"\""), 0u);
  EXPECT_TRUE(contains(text, "<system-out>warn: " + gemm)) << text;
  EXPECT_TRUE(std::regex_search(text, std::regex("<testsuite name=\"gemm\" [^>]* tests=\"[0-9]+\" failures=\"[1-9]")));
  EXPECT_TRUE(contains(text, " timestamp=\"2026-11-21T05:00:00\""));
  const auto tests = failing().findings.size() + 1;
  EXPECT_EQ(count(text, "<testcase "), tests);
  EXPECT_TRUE(contains(text, verdict_line(failing()) + "\n") && contains(text, " file: 12 findings")) << text;
  EXPECT_EQ(tests, 12u + 1 + 1);
}

TEST(Junit, SkipsWhatWasWaived) {
  const Verdict verdict = judge(
      {ResultsBuilder().add_waiver(gemm, "needs \"a\" newer GPU").results()},
      profile("  - {benchmark: \"" + gemm + "\", metric: tflops, every: rank, min: 620, may_waive: true, source: s}\n"),
      {});
  EXPECT_TRUE(contains(junit_xml(verdict), "<skipped message=\"needs &quot;a&quot; newer GPU\"/>"))
      << junit_xml(verdict);
}

TEST(Junit, NeverPassesWhatWasNotProven) {
  EXPECT_EQ(count(junit_xml(passing()), "<failure") + count(junit_xml(passing()), "<error"), 0u);
  Verdict nothing;
  nothing.notes.push_back("gemm.json: is cut off");
  EXPECT_TRUE(contains(junit_xml(nothing), "<error type=\"incomplete\" message=\"INCOMPLETE gemm.json: "));
}

TEST(Nagios, HasAStateForEachVerdict) {
  const auto state = [](State of, int exit_code) {
    Verdict verdict;
    std::tie(verdict.state, verdict.exit_code) = std::pair(of, exit_code);
    verdict.notes = {"a|b"};
    const std::string line = nagios_line(verdict);
    return line.substr(0, line.find(':'));
  };
  EXPECT_EQ(state(State::pass, 0), "SHAKEDOWN OK");
  EXPECT_EQ(state(State::fit, 0), "SHAKEDOWN OK");
  EXPECT_EQ(state(State::partial, 0), "SHAKEDOWN OK") << "--partial-ok";
  EXPECT_EQ(state(State::partial, 3), "SHAKEDOWN UNKNOWN");
  EXPECT_EQ(state(State::inconclusive, 3), "SHAKEDOWN WARNING");
  EXPECT_EQ(state(State::fail, 1), "SHAKEDOWN CRITICAL");
  EXPECT_EQ(state(State::no_reference, 3), "SHAKEDOWN UNKNOWN");
  EXPECT_EQ(state(State::incomplete, 3), "SHAKEDOWN UNKNOWN");
  Verdict incomplete;
  incomplete.notes = {"a|b"};
  EXPECT_EQ(nagios_line(incomplete), "SHAKEDOWN UNKNOWN: INCOMPLETE a/b\n") << "performance data begin with a bar";
  EXPECT_TRUE(contains(nagios_line(failing()), "|'gemm tflops'=600;;620: 'allreduce latency_us'=20;;60\n"))
      << nagios_line(failing());
}

TEST(Csv, QuotesWhatWouldEndACell) {
  const std::string text = csv_text(failing());
  EXPECT_EQ(lines_of(text).size(), 2 + failing().findings.size() + failing().unjudged.size());
  EXPECT_TRUE(contains(text, "\n" + gemm +
                                 ",\"GEMM bf16, 8192 x 8192 x 8192\",tflops,600,TFLOPS,min,620,fail,rule,limit,3,"
                                 "node0,GPU-1003,"))
      << text;
  Verdict verdict;
  verdict.findings.resize(1);
  verdict.findings[0].detail = "a \"b\"\nc";
  EXPECT_TRUE(contains(csv_text(verdict), ",\"a \"\"b\"\" c\"\n")) << csv_text(verdict);
}

TEST(GithubAnnotations, AreAtMostTenOfALevel) {
  Verdict verdict = failing();
  Finding unexplained = verdict.findings.back();
  unexplained.culprit.reset();
  for (int i = 0; i < 30; ++i) verdict.findings.push_back(unexplained);
  for (const Verdict& each : {failing(), verdict}) {
    const auto lines = lines_of(github_annotations(each));
    EXPECT_EQ(lines.front().rfind("::error title=Shakedown FAIL::FAIL node0 GPU 3 (rank 3", 0), 0u) << lines.front();
    const auto errors =
        std::count_if(lines.begin(), lines.end(), [](const auto& l) { return l.rfind("::error ", 0) == 0; });
    EXPECT_LE(errors, 10);
    EXPECT_GT(errors, 3);
  }
  EXPECT_FALSE(contains(github_annotations(failing()), "title=GEMM")) << "the first line explains it";
  EXPECT_TRUE(contains(github_annotations(failing()), " 3.2 %25 off")) << github_annotations(failing());
  EXPECT_EQ(github_annotations(passing()).rfind("::notice title=Shakedown PASS::PASS ", 0), 0u);
}

// ---------------------------------------------------------------------------------------------------------------------
// verdict.json and the shipped schema

// Checks a value against the subset of JSON Schema in report/verdict.schema.json. Returns the error and its location.
std::string schema_error(const json& root, const json& schema, const json& value, const std::string& where) {
  static const std::set<std::string> known{"$schema", "$defs",    "$ref",       "title", "description",
                                           "type",    "required", "properties", "items", "maxItems",
                                           "enum",    "const",    "minimum",    "anyOf"};
  for (const auto& [word, ignored] : schema.items()) {
    if (!known.contains(word)) return "the test does not know \"" + word + "\"";
  }
  if (schema.contains("$ref")) {
    const std::string name = schema["$ref"].get<std::string>().substr(std::string("#/$defs/").size());
    return schema_error(root, root["$defs"][name], value, where);
  }
  if (schema.contains("anyOf")) {
    std::string all;
    for (const json& choice : schema["anyOf"]) {
      const std::string wrong = schema_error(root, choice, value, where);
      if (wrong.empty()) return "";
      all += wrong + "; ";
    }
    return all;
  }
  if (schema.contains("const") && value != schema["const"]) return where + " is not " + schema["const"].dump();
  if (schema.contains("enum")) {
    const auto& choices = schema["enum"];
    if (std::find(choices.begin(), choices.end(), value) == choices.end()) return where + ": " + value.dump();
  }
  if (schema.contains("type")) {
    const json types = schema["type"].is_array() ? schema["type"] : json::array({schema["type"]});
    const auto fits = [&](const std::string& type) {
      return (type == "object" && value.is_object()) || (type == "array" && value.is_array()) ||
             (type == "string" && value.is_string()) || (type == "boolean" && value.is_boolean()) ||
             (type == "null" && value.is_null()) || (type == "integer" && value.is_number_integer()) ||
             (type == "number" && value.is_number());
    };
    if (std::none_of(types.begin(), types.end(), fits)) return where + " is no " + types.dump();
  }
  if (schema.contains("minimum") && value < schema["minimum"]) return where + " is too small";
  if (schema.contains("maxItems") && value.size() > schema["maxItems"]) return where + " is too long";
  for (const json& name : schema.value("required", json::array())) {
    if (!value.contains(name)) return where + " lacks " + name.dump();
  }
  if (schema.contains("properties")) {
    for (const auto& [name, member] : value.items()) {
      if (!schema["properties"].contains(name)) return where + "." + name + " is not described";
      const std::string wrong = schema_error(root, schema["properties"][name], member, where + "." + name);
      if (!wrong.empty()) return wrong;
    }
  }
  if (schema.contains("items")) {
    for (const json& item : value) {
      if (const std::string wrong = schema_error(root, schema["items"], item, where + "[]"); !wrong.empty())
        return wrong;
    }
  }
  return "";
}

std::string schema_error(const json& document, const std::string& name = "verdict") {
  std::ifstream in(SHAKEDOWN_SOURCE_DIR "/report/" + name + ".schema.json");
  const json schema = json::parse(in);
  return schema_error(schema, schema, document, name);
}

TEST(Schema, DescribesEveryMemberOfAVerdict) {
  EXPECT_EQ(schema_error(json::parse(verdict_json(failing()))), "");
  EXPECT_EQ(schema_error(json::parse(verdict_json(passing()))), "");
  EXPECT_EQ(schema_error(json::parse(verdict_json(Verdict{}))), "") << "of input that could not be read";
}

TEST(Schema, DescribesEveryMemberOfAComparison) {
  EXPECT_EQ(schema_error(json::parse(regression_json(changed())), "regression"), "");
  EXPECT_EQ(schema_error(json::parse(regression_json(Regression{})), "regression"), "") << "that could not be made";
}

template <class Enum>
json words_of() {
  json list = json::array();
  for (const auto word : words(Enum{})) list.push_back(word);
  return list;
}

TEST(Schema, ListsTheWordsOfProgramsAsTheyAreWritten) {
  std::ifstream in(SHAKEDOWN_SOURCE_DIR "/report/verdict.schema.json");
  const json schema = json::parse(in);
  const json& finding = schema["$defs"]["finding"]["properties"];
  EXPECT_EQ(finding["code"]["enum"], words_of<Code>());
  EXPECT_EQ(schema["$defs"]["part"]["properties"]["kind"]["enum"], words_of<PartKind>());
  json sure = words_of<Sure>();
  sure.push_back(nullptr);
  EXPECT_EQ(finding["sure"]["enum"], sure);
}

TEST(Schema, HasALineOfTheDocumentForEachCode) {
  const std::string page = read_file(SHAKEDOWN_SOURCE_DIR "/docs/verdict.md");
  const auto begin = page.find("\n- `limit`, `fact`: ");
  ASSERT_NE(begin, std::string::npos);
  const std::string list = page.substr(begin, page.find("\n\n", begin) - begin);
  for (const auto word : words(Code{})) {
    EXPECT_NE(list.find("`" + std::string(word) + "`"), std::string::npos) << word;
  }
}

TEST(Schema, RefusesWhatIsNoVerdict) {
  const json good = json::parse(verdict_json(failing()));
  const auto broken = [&](auto change) {
    json document = good;
    change(document);
    return schema_error(document);
  };
  EXPECT_NE(broken([](json& j) { j.erase("verdict"); }), "");
  EXPECT_NE(broken([](json& j) { j["verdict"] = "PASS"; }), "");
  EXPECT_NE(broken([](json& j) { j["schema"] = 2; }), "");
  EXPECT_NE(broken([](json& j) { j["findings"][0]["status"] = "maybe"; }), "");
  EXPECT_NE(broken([](json& j) { j["findings"][0]["value"] = "600"; }), "");
  EXPECT_NE(broken([](json& j) { j["findings"][0]["code"] = "slow"; }), "");
  EXPECT_NE(broken([](json& j) { j["findings"][0]["part"].erase("host"); }), "");
}

}  // namespace
}  // namespace shakedown::report_test
