// Tests the HTML page: a browser can parse it, it makes no network requests, and it is complete.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <string_view>

#include "base/text.hpp"
#include "report/escape.hpp"
#include "report/html/page.hpp"
#include "tests/thresholds/results_builder.hpp"
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
  return judged(read_results(std::vector<std::filesystem::path>{source + "/ci/baselines/h200-sxm/4ranks/1"}),
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

struct Tag {
  std::string name, attributes;
};

// True if the text between the name and the end of a tag consists of attributes, with values in quotes or without
// values.
bool is_attributes(std::string_view text) {
  while (!text.empty() && text != "/") {
    if (text.front() != ' ') return false;
    const auto end =
        std::min(text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-", 1), text.size());
    if (end == 1) return false;
    text.remove_prefix(end);
    if (!text.starts_with("=")) continue;
    const auto quote = text.starts_with("=\"") ? text.find('"', 2) : std::string_view::npos;
    if (quote == std::string_view::npos || text.substr(2, quote - 2).find('<') != std::string_view::npos) return false;
    text.remove_prefix(quote + 1);
  }
  return true;
}

// Returns every tag of a page, in order. Fails if an element is not closed, closed twice, or closed by another element.
// Also fails if an attribute has no quotes, or if '<' or '&' starts no tag or entity.
std::vector<Tag> tags_of(const std::string& page) {
  static const std::set<std::string> empty{"meta", "br", "input"};
  std::vector<Tag> tags;
  std::vector<std::string> open;
  const auto end_of_style = page.find("</style>"), last_script = page.rfind("<script>");
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at)) {
    const auto end = page.find('>', at);
    if (end == std::string::npos) {
      ADD_FAILURE() << "not ended: " << page.substr(at, 60);
      return tags;
    }
    const std::string tag = page.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag == "!doctype html") continue;
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) {
        ADD_FAILURE() << "<" << tag << "> closes <" << (open.empty() ? "" : open.back()) << "> at " << at;
        return tags;
      }
      open.pop_back();
      continue;
    }
    const auto name_end = std::min(tag.find_first_of(" /"), tag.size());
    const std::string name = tag.substr(0, name_end), rest = tag.substr(name_end);
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789"), std::string::npos) << tag;
    EXPECT_TRUE(is_attributes(rest)) << tag.substr(0, 200);
    tags.push_back({name, rest});
    if (!empty.contains(name) && !rest.ends_with('/')) open.push_back(name);
    if (name == "style" || name == "script") at = page.find("</" + name, at);  // no markup inside
  }
  EXPECT_TRUE(open.empty()) << open.back();
  for (std::size_t at = page.find('&', end_of_style); at < last_script; at = page.find('&', at + 1)) {
    const std::string entity = page.substr(at + 1, std::min<std::size_t>(page.find(';', at) - at - 1, 8));
    EXPECT_TRUE(entity == "amp" || entity == "lt" || entity == "gt" || entity == "quot" || entity.front() == '#')
        << page.substr(at, 20);
  }
  return tags;
}

TEST(Page, IsWellFormedWhateverTheVerdict) {
  tags_of(html_text(stored()));
  tags_of(html_text(failing()));
  for (const State state :
       {State::pass, State::fail, State::inconclusive, State::no_reference, State::incomplete, State::host_only}) {
    Judged nothing;
    nothing.verdict.state = state;
    tags_of(html_text(nothing));
  }
}

TEST(Page, AsksNobodyForAnything) {
  for (const std::string& page : {html_text(stored()), html_text(failing("https://example.org/x.js"))}) {
    for (const Tag& tag : tags_of(page)) {
      EXPECT_FALSE(contains(tag.attributes, " src=")) << tag.name;
      EXPECT_FALSE(std::regex_search(tag.attributes, std::regex(" (href|action|data|poster)=\"[^#]"))) << tag.name;
      EXPECT_NE(tag.name, "link");
      EXPECT_NE(tag.name, "iframe");
    }
    EXPECT_FALSE(contains(page, "url("));
    EXPECT_FALSE(contains(page, "@import"));
    EXPECT_TRUE(contains(page, "default-src 'none'")) << "and a browser holds it to that";
  }
}

TEST(Page, TakesAHostNameAsText) {
  const std::string page = html_text(failing("<img src=x onerror='alert(1)'>\"&amp;"));
  for (const Tag& tag : tags_of(page)) EXPECT_NE(tag.name, "img");
  EXPECT_TRUE(contains(page, "&lt;img src=x onerror=&#39;alert(1)&#39;&gt;&quot;&amp;amp;"));
  EXPECT_TRUE(contains(page, "a &lt;b&gt;paper&lt;/b&gt;"));
}

TEST(Page, AnswersInItsFirstScreenWhoMustLeaveAndWhatToDo) {
  const std::string page = html_text(failing());
  const std::string first = page.substr(0, page.find("id=\"fault\""));
  EXPECT_TRUE(contains(first, "<h1>Take out 1 of 2 nodes: node0</h1>")) << first.substr(first.find("<h1>"), 200);
  EXPECT_TRUE(contains(first, "node0 GPU 2 (rank 2, "));
  EXPECT_TRUE(contains(first, "Take node0 out of service (ISOLATE)"));
  EXPECT_TRUE(contains(first, "<pre>ssh node0 nvidia-smi"));
  EXPECT_TRUE(contains(first, "<pre>ssh node0 nvidia-bug-report.sh\nbuild/bin/shakedown archive"));
  EXPECT_TRUE(contains(first, "2026-11-21 05:00 UTC"));
  EXPECT_TRUE(contains(first, "not measured: preflight (the machine before anything is measured), jitter"));
}

TEST(Page, OfAPassSaysYesAndWhatIsNotProven) {
  const std::string page = html_text(stored());
  const std::string first = page.substr(0, page.find("id=\"peers\""));
  EXPECT_TRUE(contains(first, "<h1>Yes, use it</h1>"));
  EXPECT_FALSE(contains(page, "nvidia-bug-report")) << "nothing is to be repaired";
  EXPECT_FALSE(contains(page, ">-0.0<")) << "nothing is a little less than nothing";
  EXPECT_TRUE(std::regex_search(first, std::regex("([0-9]+) of \\1 good, [0-9]+ % over its floors")));
  EXPECT_TRUE(contains(first, "one host only: nothing is said of the network between hosts"));
  EXPECT_TRUE(
      std::regex_search(first, std::regex("waived: preflight/of:folder \\([0-9]+ findings\\): no folder was named")));
}

TEST(Page, NeverSaysYesToLessThanAPass) {
  for (const State state :
       {State::fail, State::inconclusive, State::no_reference, State::incomplete, State::host_only}) {
    Judged one = stored();
    one.verdict.state = state;
    EXPECT_FALSE(contains(html_text(one), "Yes, use it")) << name(state);
  }
}

TEST(Page, HasEveryFindingThatIsNotGoodInFull) {
  const Judged all = failing();
  const std::string page = html_text(all);
  std::size_t bad = 0;
  for (const Finding& finding : all.verdict.findings) {
    if (finding.good()) continue;
    ++bad;
    EXPECT_TRUE(contains(page, html_escaped(finding.key))) << finding.key;
    EXPECT_TRUE(contains(page, html_escaped(one_line(finding.detail)))) << finding.detail;
    EXPECT_TRUE(contains(page, html_escaped(finding.next))) << finding.next;
  }
  ASSERT_GE(bad, 2u);
  std::size_t rows = 0;
  for (const Tag& tag : tags_of(page)) rows += tag.name == "tr" && contains(tag.attributes, "data-good=\"no\"") ? 1 : 0;
  EXPECT_EQ(rows, bad);
}

TEST(Page, MarksWhoStandsOutAmongPeersBySignAndNotByColourAlone) {
  const std::string page = html_text(failing());
  const auto row = page.find("2 node0 GPU 2</th>");
  ASSERT_NE(row, std::string::npos);
  EXPECT_TRUE(contains(page.substr(row, 200), "class=\"w4 out\">-18.6 !</td>")) << page.substr(row, 200);
}

TEST(Page, ShowsCopiesByPairStepsByPartAndCollectivesBySize) {
  const std::string page = html_text(stored());
  for (const char* words :
       {"p2p/op:read/engine:ce/bytes:1073741824 on vm, GB/s", "allreduce/dtype:f32/bytes:N over its size", "ceiling",
        "forward, backward, waiting for others, optimizer, rest", "Temperature, C", "580.159.04"}) {
    EXPECT_TRUE(contains(page, words)) << words;
  }
}

TEST(Page, ShowsHostsByRailWithTheBestOfTheirRounds) {
  ResultsBuilder builder(8, 4);
  const std::string round = "pairs/op:sendrecv/scope:any/round:";
  builder.add(round + "0/bytes:268435456", "busbw_gb_per_s", 30, {46, 46, 30, 46, 46, 46, 30, 46})
      .add(round + "1/bytes:268435456", "busbw_gb_per_s", 30, {30, 46, 30, 46, 46, 46, 46, {}});
  const std::string page = html_text(judged({builder.results()}, {}));
  EXPECT_TRUE(contains(page, "node0</th><td>46.0</td><td>46.0</td>")) << "a slow partner is not its fault";
  EXPECT_TRUE(contains(page, "node1</th><td class=\"w4 out\">30.0 !</td><td>46.0</td>"));
}

TEST(Page, NamesTheHostThatDiffersFromTheOthers) {
  ResultsBuilder builder(4, 4);
  builder.add_facts("preflight/of:software", {}, {{"driver", {{"580.159"}, {"580.159"}, {"570.86"}, {"580.159"}}}});
  const std::string page = html_text(judged({builder.results()}, {}));
  EXPECT_TRUE(contains(page, "580.159 on 3; 570.86 on rank 2 on node2")) << page.substr(page.find("580.159"), 200);
}

TEST(Page, SaysWhichPartsOfTheFleetStandOff) {
  Judged one = failing();
  one.verdict.fleet = {};
  EXPECT_FALSE(contains(html_text(one), "id=\"fleet\"")) << "nothing is known of it";
  one.verdict.fleet.levels = {{"gemm", "tflops", 9, 0.021, false}, {"p2p", "copy_gb_per_s", 7, -0.012, true}};
  FleetLine rack{Grouping::rack, "<r7>", "gemm", 64, -0.02, -0.07, 0.03, -0.023};
  rack.temperature_c = 58;
  rack.hotter_c = 8.2;
  rack.slow = rack.hot = true;
  FleetLine driver{Grouping::driver, "580.159", "gemm", 64, 0.001, -0.03, 0.03, 0.001};
  one.verdict.fleet.lines = {rack, driver};
  const std::string page = html_text(one), part = page.substr(page.find("id=\"fleet\""));
  EXPECT_TRUE(contains(part, "What is usual, against its reference: p2p -1.2 %"));
  EXPECT_TRUE(contains(part, "Rack &lt;r7&gt; (64 GPUs): 2.3 % slower in gemm, 8 C hotter than the others; a warning"));
  EXPECT_TRUE(contains(part, "-7.0 %</td>")) << "its 1 %";
  EXPECT_TRUE(contains(part, "stands off: 2.3 % slower, 8 C hotter than the others</td>"));
  EXPECT_TRUE(contains(part, "2 parts of the fleet, by class"));
  EXPECT_TRUE(contains(part, "driver 580.159"));
  tags_of(page);
}

TEST(Page, OfANodeStaysBelow300Kilobytes) { EXPECT_LT(html_text(stored()).size(), 300'000u); }

TEST(Page, OfThousandsOfGpusShowsTheWorstFiftyAndADistribution) {
  constexpr int hosts = 250, ranks = 8 * hosts;
  ResultsBuilder builder(ranks, hosts);
  for (const char* op : {"copy", "read", "write"}) {
    Values values;
    for (int rank = 0; rank < ranks; ++rank) values.push_back(rank == 1234 ? 3500.0 : 4300.0 + rank % 7);
    builder.add("hbm/op:" + std::string(op) + "/engine:sm/bytes:4294967296", "hbm_gb_per_s", 3500, values);
  }
  const std::string page = html_text(judged({builder.results()}, {}));
  EXPECT_LT(page.size(), 500'000u) << "what grows with the number of GPUs would not fit in 5 MB for 10,000";
  EXPECT_TRUE(contains(page, "The 50 worst of 2000 GPUs"));
  EXPECT_TRUE(contains(page, "<th scope=\"row\" title=\"GPU-2234\">1234 node154 GPU 2</th>"));
  EXPECT_TRUE(contains(page, "aria-label=\"hbm of all GPUs\""));
  tags_of(page);
}

TEST(Page, OfASoakShowsItsRoundsOverTime) {
  Soak soak;
  soak.plan = {"watch-1", "2026-11-22T12:00:00Z", 4 * 3600, 7, {"gemm"}, "quick"};
  const ResultsBuilder four;
  for (int number = 1; number <= 80; ++number) {
    SoakRound round;
    round.number = number;
    round.started = "2026-11-22T12:00:00Z";
    round.begin_s = 180.0 * (number - 1);
    round.length_s = 180;
    round.state = number == 7 ? State::fail : State::pass;
    if (number == 7) round.findings = {{"gemm/a:1", "tflops", Status::fail, true, {}, "below <its> floor"}};
    round.profile = "h200-sxm";
    round.hosts = 1;
    if (number == 1) round.ranks = four.context.ranks;
    for (const auto& rank : four.context.ranks) {
      round.units.push_back(*rank.uuid);
      const bool slow = rank.rank == 2 && number > 60;
      round.figures["gemm/dtype:bf16/m:8192/n:8192/k:8192 tflops"].push_back((slow ? 600 : 780) + 0.1 * (number % 7));
    }
    soak.rounds.push_back(std::move(round));
  }
  const SoakJudgement judgement = judge_soak(soak);
  const Judged all{nullptr, {}, judgement.verdict, &soak, &judgement};
  const std::string page = html_text(all);
  const std::string rounds = page.substr(page.find("<section id=\"rounds\""));
  EXPECT_TRUE(contains(page, "not measured: preflight"));
  EXPECT_FALSE(contains(page, "gemm (matrix products)")) << "it was, round for round";
  EXPECT_TRUE(contains(rounds, "80 rounds, 1 of them no pass"));
  EXPECT_TRUE(contains(rounds, "below &lt;its&gt; floor"));
  const auto row = rounds.find("<th scope=\"row\">node0 GPU 2 gemm");
  ASSERT_NE(row, std::string::npos) << rounds.substr(0, 2000);
  const std::string slow = rounds.substr(row, rounds.find("</tr>", row) - row);
  EXPECT_TRUE(std::regex_search(slow, std::regex("<td>0.0</td>.*<td class=\"w4 out\">-23.[01] !</td>$"))) << slow;
  EXPECT_EQ(rounds.find("<th scope=\"row\">"), row) << "the worst comes first";
  tags_of(page);
  EXPECT_FALSE(contains(html_text(stored()), "id=\"rounds\"")) << "of one run there are none";
}

TEST(Page, OfAStoredVerdictSaysThatItHasNoFigures) {
  Judged one = failing();
  one.measured.reset();
  const std::string page = html_text(one);
  EXPECT_TRUE(contains(page, "made of a stored verdict, which has no figures"));
  EXPECT_TRUE(contains(page, "node0 GPU 2 (rank 2, "));
}

}  // namespace
}  // namespace shakedown::html_test
