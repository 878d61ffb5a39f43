// Tests the data of the HTML page: no bytes in it can be markup, it makes no network requests, and it is complete.
// html_browser_test.sh opens the pages of these tests in a browser, and reads what it shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text.hpp"
#include "report/escape.hpp"
#include "report/html/page.hpp"
#include "report/html/page_text.hpp"
#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/headline.hpp"
#include "thresholds/judge/judge.hpp"

namespace shakedown::html_test {
namespace {

using testing_support::profile;
using testing_support::ResultsBuilder;
using testing_support::Values;

const std::string source = SHAKEDOWN_SOURCE_DIR;
const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";

Judged judged(std::vector<Results> results, std::vector<Profile> profiles) {
  Judged all{std::make_unique<const Measured>(std::move(results)), std::move(profiles), {}};
  all.verdict = judge(*all.measured, all.profiles, {});
  return all;
}

Judged stored() {
  return judged(read_results(std::vector<std::filesystem::path>{source + "/tests/data/h200-sxm-4ranks-full/1"}),
                load_profiles(source + "/thresholds"));
}

// A run with slow memory on one GPU, on a host whose name contains HTML.
ResultsBuilder slow_memory(const std::string& host) {
  ResultsBuilder builder(8, 2);
  for (auto& rank : builder.context.ranks) rank.host = rank.rank < 4 ? host : "other";
  builder.context.inventory[0].host = host;
  builder.context.inventory[1].host = "other";
  for (const char* op : {"copy", "read", "write"}) {
    Values values(8, 4300.0);
    values[2] = 3500.0;
    builder.add("hbm/op:" + std::string(op) + "/engine:sm/bytes:4294967296", "hbm_gb_per_s", 3500, values);
  }
  return builder;
}

Judged failing(const std::string& host = "node0") {
  return judged(
      {slow_memory(host).results()},
      profile("  - {benchmark: \"hbm/op:copy/engine:sm/bytes:4294967296\", metric: hbm_gb_per_s, every: rank, "
              "min: 3920, source: \"a <b>paper</b>\"}\n"));
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

using nlohmann::json;

// Makes the page, and writes it for the browser's test where that asks for it.
std::string page_of(const std::string& name, const Judged& all) {
  std::string page = html_text(all);
  if (const char* const folder = std::getenv("SHAKEDOWN_PAGES")) {
    replace_file(std::filesystem::path(folder) / (name + ".html"), page);
  }
  return page;
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const auto at = text.find(begin) + begin.size();
  return text.substr(at, text.find(end, at) - at);
}

std::string data_text(const std::string& page) { return between(page, "id=\"data\">", "</script>"); }

json data_of(const std::string& name, const Judged& all) { return json::parse(data_text(page_of(name, all))); }

TEST(Page, IsTheStaticPageWithItsTitleItsHeadlineAndItsData) {
  Judged all = failing();
  for (const State state : {State::pass, State::fail, State::inconclusive, State::no_reference, State::incomplete,
                            State::host_only, State::partial, State::fit}) {
    all.verdict.state = state;
    const std::string page = page_of("state-" + std::to_string(static_cast<int>(state)), all);
    const std::string headline = text_and_next(headline_of(all.verdict));
    EXPECT_EQ(between(page, "<noscript><header class=\"doubt\"><h1>", "</h1>"), html_escaped(headline));
    EXPECT_TRUE(between(page, "<title>", "</title>").starts_with(html_escaped(text(headline_of(all.verdict)))));
    EXPECT_EQ(json::parse(data_text(page))["verdict"]["verdict"], lower(name(state)));
    const auto begin = page_text.substr(0, page_text.find("{{title}}")),
               end = page_text.substr(page_text.find("{{data}}") + 8);
    EXPECT_TRUE(page.starts_with(begin));
    EXPECT_TRUE(page.ends_with(end));
  }
}

TEST(Page, HasHostSerialAddressAndDayInItsTitle) {
  Judged all = failing();
  all.verdict.nodes = {{"node0", 8}};
  for (Culprit& place : all.verdict.culprits.front().places) place.serial = "1654";
  const std::string title = between(page_of("serial", all), "<title>", "</title>");
  EXPECT_TRUE(title.starts_with("FAIL node0 GPU 2 (rank 2, serial 1654, ")) << title;
  EXPECT_TRUE(title.ends_with(" - node0, 2026-11-21")) << title;
}

TEST(Page, AsksNobodyForAnything) {
  const std::string fixed(page_text);
  for (const char* const word : {" src=", "url(", "@import", "<link", "<iframe", "<base", "<form", "http://",
                                 "https://", "fetch(", "XMLHttpRequest", "import("}) {
    const auto at = fixed.find(word);
    if (std::string(word) == "http://" && at != std::string::npos) {
      EXPECT_EQ(fixed.compare(at, 26, "http://www.w3.org/2000/svg"), 0) << "a name, and the only one";
      EXPECT_EQ(fixed.find(word, at + 1), std::string::npos);
      continue;
    }
    EXPECT_EQ(at, std::string::npos) << word;
  }
  EXPECT_TRUE(contains(fixed, "default-src 'none'")) << "and a browser holds it to that";
}

TEST(Page, MakesNoMarkupOfData) {
  for (const char* const way : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                                "createContextualFragment", "eval(", "Function(", "srcdoc", "setHTML"}) {
    EXPECT_FALSE(contains(std::string(page_text), way)) << way;
  }
}

TEST(Page, TakesAnyBytesAsText) {
  for (const std::string& host :
       {std::string("<img src=x onerror='alert(1)'>\"&amp;"), std::string("</script><script>alert(1)</script>"),
        std::string("<!--<script>"), std::string("{{data}}{{title}}"),
        std::string("a\x01\xe2\x80\xae"
                    "b")}) {
    const std::string page = page_of("hostile", failing(host)), data = data_text(page);
    EXPECT_EQ(data.find('<'), std::string::npos);
    EXPECT_EQ(json::parse(data)["verdict"]["culprits"][0]["places"][0]["host"], printable(host));
    EXPECT_FALSE(contains(between(page, "<title>", "</title>"), "<"));
    EXPECT_TRUE(page.ends_with(page_text.substr(page_text.find("{{data}}") + 8)));
  }
  EXPECT_EQ(json::parse(data_text(page_of("hostile", failing("a\xff"))))["nodes"]["count"], 2);
  page_of("hostile", failing("</script><img src=x onerror='alert(1)'>\"&amp;"));
}

TEST(Page, KnowsWhoMustLeaveAndWhatToDo) {
  const json data = data_of("failing", failing());
  EXPECT_EQ(data["nodes"]["bad"], 1);
  EXPECT_EQ(data["nodes"]["nodes"][0]["host"], "node0");
  EXPECT_EQ(data["nodes"]["nodes"][0]["action"], "ISOLATE");
  EXPECT_EQ(data["words"]["repair"][0], "ssh node0 nvidia-bug-report.sh");
  EXPECT_EQ(data["names"]["hbm/op:copy/engine:sm/bytes:4294967296"], "HBM copy by kernel, 4 GiB");
  EXPECT_EQ(data["units"]["hbm_gb_per_s"], "GB/s");
}

TEST(Page, HasEveryFindingThatIsNotGoodInFull) {
  const Judged all = failing();
  const json shown = data_of("failing", all)["verdict"]["findings"];
  std::size_t bad = 0;
  for (const Finding& f : all.verdict.findings) {
    if (f.good()) continue;
    ++bad;
    const auto found = std::find_if(shown.begin(), shown.end(), [&](const json& other) {
      return other["key"] == f.key.text() && other.value("metric", "") == f.metric &&
             other.value("judgement", "") == name(f.judgement) && other["status"] != "pass";
    });
    ASSERT_NE(found, shown.end()) << f.key;
    EXPECT_EQ(found->value("detail", ""), f.detail);
    EXPECT_EQ(found->value("next", ""), f.next);
    EXPECT_EQ(found->value("source", ""), f.source);
    EXPECT_EQ((*found)["offenders"].size(), f.offenders.size());
  }
  EXPECT_GE(bad, 2u);
  EXPECT_EQ(shown.size(), all.verdict.findings.size());
}

TEST(Page, KnowsWhichGpusAreOutliers) {
  const json data = data_of("failing", failing());
  const json& column = data["figures"]["peers"][0];
  EXPECT_EQ(column["class"], "HBM");
  EXPECT_EQ(column["values"][2], -186) << "tenths of a percent";
  EXPECT_EQ(column["out"], json({2}));
  EXPECT_EQ(data["figures"]["places"][2], json({"node0", 2}));
}

TEST(Page, HasCopiesByPairStepsByPartRatesAndFacts) {
  const json figures = data_of("stored", stored())["figures"];
  for (const json& matrix : figures["pairs"]["matrices"]) {
    EXPECT_EQ(matrix["healthy"], matrix["lower"].get<bool>() ? 0.2 : 0.025) << matrix["key"];
  }
  EXPECT_EQ(figures["pairs"]["matrices"][0]["values"].size(), 4u);
  EXPECT_EQ(figures["pairs"]["matrices"][0]["values"][1].size(), 4u);
  EXPECT_EQ(figures["steps"][0]["ranks"][0].size(), 5u) << "the rank, and four parts";
  EXPECT_EQ(figures["sensors"][0]["values"].size(), 4u);
  const auto has = [](const json& list, const char* field, const std::string& value) {
    return std::any_of(list.begin(), list.end(), [&](const json& item) { return item[field] == value; });
  };
  EXPECT_TRUE(has(figures["facts"], "fact", "host driver"));
  EXPECT_TRUE(has(figures["sensors"], "sensor", "temperature_c"));
  EXPECT_TRUE(has(figures["rates"], "key", "allreduce/dtype:f32/bytes:1048576"));
  for (const json& rate : figures["rates"]) {
    if (rate["key"] == gemm) {
      EXPECT_GT(rate["ceiling"], rate["value"]);
      EXPECT_LT(rate["floor"], rate["value"]);
    }
  }
}

TEST(Page, HasHostsByRailWithTheBestOfTheirRounds) {
  ResultsBuilder builder(8, 4);
  const std::string round = "pairs/op:sendrecv/scope:any/round:";
  builder.add(round + "0/bytes:268435456", "busbw_gb_per_s", 30, {46, 46, 30, 46, 46, 46, 30, 46})
      .add(round + "1/bytes:268435456", "busbw_gb_per_s", 30, {30, 46, 30, 46, 46, 46, 46, {}});
  const json figures = data_of("rails", judged({builder.results()}, {}))["figures"], &rails = figures["rails"];
  EXPECT_NEAR(figures["healthy_rail"], 0.05, 1e-12);
  EXPECT_EQ(rails[0], json({"node0", 46, 46})) << "a slow partner is not its fault";
  EXPECT_EQ(rails[1], json({"node1", 30, 46}));
}

TEST(Page, KnowsTheHostThatDiffersFromTheOthers) {
  ResultsBuilder builder(4, 4);
  builder.add_facts("preflight/of:software", {}, {{"driver", {{"580.159"}, {"580.159"}, {"570.86"}, {"580.159"}}}});
  const json facts = data_of("facts", judged({builder.results()}, {}))["figures"]["facts"];
  EXPECT_EQ(facts[0]["values"][1], json({"570.86", 1, "rank 2 on node2"}));
  EXPECT_EQ(facts[0]["count"], 4);
}

TEST(Page, KnowsWhichPartsOfTheFleetAreOutliers) {
  Judged one = failing();
  one.verdict.fleet = {};
  EXPECT_FALSE(data_of("failing", one)["words"].contains("levels")) << "nothing is known of it";
  one.verdict.fleet.levels = {{"gemm", "tflops", 9, 0.021, false}, {"p2p", "copy_gb_per_s", 7, -0.012, true}};
  FleetLine rack{Grouping::rack, "<r7>", "gemm", 64, -0.02, -0.07, 0.03, -0.023};
  rack.temperature_c = 58;
  rack.hotter_c = 8.2;
  rack.slow = rack.hot = true;
  FleetLine driver{Grouping::driver, "580.159", "gemm", 64, 0.001, -0.03, 0.03, 0.001};
  one.verdict.fleet.lines = {rack, driver};
  const json data = data_of("fleet", one);
  EXPECT_EQ(data["words"]["outliers"].size(), 1u);
  EXPECT_EQ(data["verdict"]["fleet_lines"].size(), 2u);
}

TEST(Page, OfANodeStaysBelow300Kilobytes) { EXPECT_LT(html_text(stored()).size(), 300'000u); }

TEST(Page, OfThousandsOfGpusHasAValueOfEach) {
  constexpr int hosts = 250, ranks = 8 * hosts;
  ResultsBuilder builder(ranks, hosts);
  for (const char* op : {"copy", "read", "write"}) {
    Values values;
    for (int rank = 0; rank < ranks; ++rank) values.push_back(rank == 1234 ? 3500.0 : 4300.0 + rank % 7);
    builder.add("hbm/op:" + std::string(op) + "/engine:sm/bytes:4294967296", "hbm_gb_per_s", 3500, values);
  }
  const std::string page = page_of("many", judged({builder.results()}, {}));
  EXPECT_LT(page.size(), 500'000u) << "what grows with the number of GPUs would not fit in 5 MB for 10,000";
  const json figures = json::parse(data_text(page))["figures"];
  EXPECT_EQ(figures["peers"][0]["values"].size(), 2000u);
  EXPECT_EQ(figures["places"].size(), 2000u);
}

TEST(Page, OfASoakHasItsRoundsAndTheTrendOfEachGpu) {
  Soak soak;
  soak.plan = {"watch-1", "2026-11-22T12:00:00Z", 4 * 3600, 7, {"gemm"}, Tier::quick};
  const ResultsBuilder four;
  for (int number = 1; number <= 80; ++number) {
    SoakRound round;
    round.number = number;
    round.started = "2026-11-22T12:00:00Z";
    round.begin_s = 180.0 * (number - 1);
    round.length_s = 180;
    round.state = number == 7 ? State::fail : State::pass;
    if (number == 7) round.findings = {{Key("gemm/a:1"), "tflops", Status::fail, true, {}, "below <its> floor"}};
    round.profile = "h200-sxm";
    round.hosts = 1;
    if (number == 1) round.ranks = four.context.ranks;
    for (const auto& rank : four.context.ranks) {
      round.units.push_back(*rank.uuid);
      const bool slow = rank.rank == 2 && number > 60;
      round.figures[FigureName("gemm/dtype:bf16/m:8192/n:8192/k:8192 tflops")].push_back((slow ? 600 : 780) +
                                                                                         0.1 * (number % 7));
    }
    soak.rounds.push_back(std::move(round));
  }
  const SoakJudgement judgement = judge_soak(soak);
  const Judged all{nullptr, {}, judgement.verdict, &soak, &judgement};
  const json shown = data_of("soak", all)["soak"];
  EXPECT_EQ(shown["count"], 80);
  EXPECT_EQ(shown["bad"], 1);
  EXPECT_EQ(shown["rounds"][0][3], "gemm/a:1 below <its> floor");
  EXPECT_EQ(shown["families"], json({"gemm"}));
  EXPECT_TRUE(std::string(shown["trends"][0]["name"]).starts_with("node0 GPU 2 gemm")) << "the worst comes first";
  EXPECT_EQ(shown["trends"][0]["hours"][0], 0);
  EXPECT_NEAR(shown["trends"][0]["hours"][3].get<double>(), -231, 2);
  EXPECT_FALSE(shown["trends"][0]["low"].empty());
  EXPECT_FALSE(data_of("stored", stored()).contains("soak")) << "one run has none";
}

TEST(Page, OfAStoredVerdictHasNoFigures) {
  Judged one = failing();
  one.measured.reset();
  EXPECT_FALSE(data_of("verdict", one).contains("figures"));
}

}  // namespace
}  // namespace shakedown::html_test
