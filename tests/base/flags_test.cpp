// The table of flags, and what is refused.
#include "base/flags.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace shakedown::flags_test {
namespace {

using Words = std::vector<std::string>;

GivenFlags parsed(const std::string& taker, const Words& words) { return parse_flags(flag_table(), taker, words); }

std::string refusal(const std::string& taker, const Words& words) {
  return input_error_of([&] { parsed(taker, words); });
}

TEST(Flags, TakeTheirValueAfterAnEqualsSignOrAsTheNextWord) {
  for (const Words& words : {Words{"--timeout=7", "--plan"}, {"--timeout", "7", "--plan"}}) {
    const auto given = parsed("accept", words);
    double timeout = 300;
    given("--timeout", timeout);
    EXPECT_EQ(timeout, 7);
    EXPECT_TRUE(given.has("--plan"));
  }
}

TEST(Flags, ThatMissTheirValueDoNotTakeTheNextFlagForIt) {
  EXPECT_EQ(refusal("report", {"--results", "--all"}), "--results: needs a value: --results=F[,F...]; see --help");
  EXPECT_EQ(refusal("report", {"--results=", "--all"}), refusal("report", {"--results", "--all"}));
}

TEST(Flags, WithAnOptionalValueTakeItAfterAnEqualsSignOnly) {
  std::optional<std::vector<int>> nodes;
  parsed("accept", {"--scaling", "--plan"})("--scaling", nodes);
  EXPECT_EQ(nodes, std::vector<int>{});
  parsed("accept", {"--scaling=1,2,4"})("--scaling", nodes);
  EXPECT_EQ(nodes, (std::vector<int>{1, 2, 4}));
}

TEST(Flags, KeepAnEqualsSignInsideAValue) {
  EXPECT_EQ(parsed("accept", {"--expect=ranks=8"}).all().at("--expect"), "ranks=8");
  EXPECT_EQ(parsed("bench_gemm", {"--benchmark_filter", "-f32"}).all().at("--benchmark_filter"), "-f32");
}

TEST(Flags, HaveShortFormsForHelpAndVersion) {
  EXPECT_TRUE(parsed("report", {"-h"}).has("--help"));
  EXPECT_TRUE(parsed("bench_gemm", {"-V"}).has("--version"));
}

TEST(Flags, OfOneNameMeanWhatTheirVerbMakesOfThem) {
  EXPECT_EQ(refusal("accept", {"--scaling=runs"}),
            "--scaling: 'runs' must be increasing numbers of nodes, such as 1,2,4,8; see --help");
  EXPECT_EQ(refusal("report", {"--scaling=runs"}), "");
}

TEST(Typos, AreAnsweredWithTheFlagThatTheyResemble) {
  for (const auto& [taker, typed, meant] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"accept", "--familes=gemm", "--families"},
           {"accept", "--teir=full", "--tier"},
           {"accept", "--timout=3", "--timeout"},
           {"accept", "--dispite-preflight", "--despite-preflight"},
           {"report", "--result=x", "--results"},
           {"report", "--treshold=x", "--thresholds"},
           {"report", "--colour", "--color"},
           {"nodes", "--kubctl", "--kubectl"},
           {"regress", "--min_effect=0.1", "--min-effect"},
           {"baseline_create", "--floor=x.yaml", "--floors"},
           {"bench_gemm", "--backed=host", "--backend"},
           {"bench_gemm", "--benchmark_fliter=x", "--benchmark_filter"}}) {
    EXPECT_EQ(refusal(taker, {typed}), "unknown flag \"" + typed + "\"; see --help (did you mean " + meant + "?)");
  }
}

TEST(WrongUsage, IsRefusedWithTheNameOfTheFlagAndTheReason) {
  for (const auto& [taker, words, reason] : std::vector<std::tuple<std::string, Words, std::string>>{
           {"accept", {"--tier=medium"}, "--tier: 'medium' is not one of quick, full"},
           {"accept", {"--tier"}, "--tier: needs a value: --tier=quick|full"},
           {"accept", {"--plan=no"}, "--plan: takes no value"},
           {"accept", {"--plan="}, "--plan: takes no value"},
           {"accept", {"--plan", "--plan"}, "--plan is given twice"},
           {"accept", {"--tier=quick", "--tier", "full"}, "--tier is given twice"},
           {"accept", {"--families=gemm,,hbm"}, "--families: 'gemm,,hbm' has an empty word"},
           {"accept", {"--family=gemm"}, "--family is now called --families"},
           {"accept", {"--timeout=0"}, "--timeout: '0' is not a positive number"},
           {"accept", {"--timeout=nan"}, "--timeout: 'nan' is not a positive number"},
           {"accept", {"--timeout=10000001"}, "--timeout: '10000001' is not a positive number"},
           {"accept", {"--keep=1.5"}, "--keep: '1.5' is not a positive number"},
           {"accept", {"--for=10"}, "--for: '10' has no unit"},
           {"accept", {"--for=xs"}, "--for: 'xs' is not a positive number"},
           {"accept", {"--seed=-1"}, "--seed: '-1' is not a number from 0"},
           {"accept", {"--scaling=4,2"}, "--scaling: '4,2' must be increasing"},
           {"accept", {"--tolerance=-1"}, "--tolerance: '-1' must be at least 0"},
           {"accept", {"--tolerance=1"}, "--tolerance: '1' must be at least 0"},
           {"measure", {"--for=1h"}, "--for: measure does not take it; it is a flag of accept"},
           {"report", {"--width=39"}, "--width: '39' must be a number of columns, at least 40"},
           {"report", {"--color=red"}, "--color: 'red' is not one of yes, no"},
           {"report", {"--scontrol"}, "--scontrol: report does not take it; it is a flag of fleet, nodes"},
           {"report", {"stray"}, "unknown flag \"stray\"; flags begin with --;"},
           {"regress", {"--min-effect=0"}, "--min-effect: '0' must be above 0"},
           {"regress", {"--min-effect=1"}, "--min-effect: '1' must be above 0 and below 1"},
           {"baseline_create", {"--quantile=0.5"}, "--quantile: '0.5' must be at least 0 and below 0.5"},
           {"baseline_create", {"--tolerance=0.1"}, "--tolerance: baseline create does not take it"},
           {"bench_gemm", {"--stream"}, "--stream: bench_gemm does not take it; it is a flag of bench_all"},
           {"bench_gemm", {"--results=x"}, "--results: bench_gemm does not take it"},
           {"bench_all",
            {"--against=batch:8"},
            "--against: bench_all does not take it; it is a flag of bench_lora_step, bench_train_step"},
           {"bench_all",
            {"--benchmark_list_tests=perhaps"},
            "--benchmark_list_tests: 'perhaps' is neither true nor false"},
           {"bench_all", {"--benchmark_min_time=soon"}, "--benchmark_min_time: 'soon' must be seconds up to 1000"}}) {
    EXPECT_EQ(refusal(taker, words).substr(0, reason.size()), reason);
    EXPECT_EQ(refusal(taker, words).find('\n'), std::string::npos);
  }
}

TEST(Help, OfAVerbHasOneLineForEachOfItsFlagsAndNoOther) {
  const auto help = flags_help(flag_table(), "nodes");
  for (const auto* flag : {"--results", "--scontrol", "--site", "--version"})
    EXPECT_NE(help.find(flag), std::string::npos);
  for (const auto* flag : {"--tier", "--explain", "--benchmark_"})
    EXPECT_EQ(help.find(flag), std::string::npos) << flag;
}

// Every taker in the table: flags of one taker have names of their own, and each line of its help fits.
TEST(Help, FitsTheScreen) {
  std::set<std::string> takers{"bench_gemm"};
  for (const auto& flag : flag_table()) {
    std::istringstream words(flag.takers);
    for (std::string taker; words >> taker;) takers.insert(taker);
  }
  for (const auto& taker : takers) {
    std::set<std::string> names;
    std::istringstream lines(flags_help(flag_table(), taker));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 120u) << line;
      const auto name = line.substr(0, line.find_first_of("=[ ", 2));
      EXPECT_TRUE(!name.starts_with("  --") || names.insert(name).second) << taker << " has two flags " << name;
    }
  }
}

}  // namespace
}  // namespace shakedown::flags_test
