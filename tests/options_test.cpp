// Flags of the benchmark programs: what every rank makes of rank 0's arguments.
#include "fixtures/options.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace shakedown {
namespace {

std::string last_value(const Options& options, const std::string& name) {
  std::string value = "not given";
  for (const auto& flag : options.library_flags) {
    if (flag.rfind("--" + name + "=", 0) == 0) value = flag.substr(name.size() + 3);
  }
  return value;
}

std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse_options(arguments);
    return "accepted";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(Options, WithoutFlagsMeasureTheQuickTierOnWhateverThereIs) {
  const auto options = parse_options({});
  EXPECT_EQ(options.backend, "auto");
  EXPECT_EQ(options.tier, "quick");
  EXPECT_EQ(options.timeout, 300);
  EXPECT_EQ(options.format, "console");
  EXPECT_EQ(options.min_time, "0.05");
}

TEST(Options, TheFullTierSamplesTwiceAsLong) { EXPECT_EQ(parse_options({"--tier=full"}).min_time, "0.1"); }

TEST(Options, TheSearchMustFitIntoTheTimeOfABenchmark) {
  EXPECT_EQ(parse_options({}).search, 0);
  EXPECT_EQ(parse_options({"--search=20"}).search, 20);
  EXPECT_EQ(refusal({"--search=151"}),
            "--search: takes more than half of what --timeout allows for one benchmark; see --help");
  EXPECT_EQ(parse_options({"--search=151", "--timeout=400"}).search, 151);
  EXPECT_NE(refusal({"--search=0"}), "accepted");
  EXPECT_NE(refusal({"--search=soon"}), "accepted");
  EXPECT_NE(refusal({"--search"}), "accepted");
}

TEST(Options, AlgorithmsComeFromAFile) {
  EXPECT_EQ(parse_options({"--algorithms=gemm.json"}).algorithms, "gemm.json");
  EXPECT_EQ(refusal({"--algorithms"}), "--algorithms: names no file; see --help");
  EXPECT_EQ(refusal({"--algorithms="}), "--algorithms: names no file; see --help");
}

TEST(Options, AUsersMinimalTimeWinsOverTheTier) {
  EXPECT_EQ(parse_options({"--benchmark_min_time=2", "--tier=full"}).min_time, "2");
}

TEST(Options, TheMinimalTimeIsWrittenAsTheLibraryWantsIt) {
  EXPECT_EQ(min_time_for("1.7.1", "0.05"), "0.05");
  EXPECT_EQ(min_time_for("1.7.1", "0.05s"), "0.05");
  EXPECT_EQ(min_time_for("1.8.3", "0.05"), "0.05s");
  EXPECT_EQ(min_time_for("1.9.5", "2s"), "2s");
  EXPECT_EQ(min_time_for("1.8.3", "3x"), "3x");
}

TEST(Options, EveryFlagThatSteersTheLoopIsGivenExplicitly) {
  const auto options = parse_options({});
  for (const auto* flag : {"benchmark_repetitions", "benchmark_min_warmup_time", "benchmark_enable_random_interleaving",
                           "benchmark_report_aggregates_only", "benchmark_filter", "benchmark_perf_counters"}) {
    EXPECT_NE(last_value(options, flag), "not given") << flag;
  }
}

TEST(Options, OutputFlagsStayWithUsBecauseRankZeroAloneWrites) {
  const auto options =
      parse_options({"--benchmark_out=a.json", "--benchmark_out_format=csv", "--benchmark_format=json"});
  EXPECT_EQ(options.out, "a.json");
  EXPECT_EQ(options.out_format, "csv");
  EXPECT_EQ(options.format, "json");
  EXPECT_EQ(last_value(options, "benchmark_out"), "");
}

TEST(Options, VariablesBecomeFlagsBeforeTheArguments) {
  const auto arguments = with_environment({{"BENCHMARK_REPETITIONS", "3"}, {"BENCHMARK_MIN_TIME", "1"}, {"HOME", "/"}},
                                          {"--benchmark_min_time=2"});
  const auto options = parse_options(arguments);
  EXPECT_EQ(options.repetitions, 3);
  EXPECT_EQ(options.min_time, "2");
}

TEST(Options, LoseTheUserAndThePasswordOfAUrl) {
  const std::string flag = "--benchmark_context=";
  const auto given = [&](const std::string& value) { return with_environment({}, {flag + value}).front(); };
  EXPECT_EQ(given("log=https://me:pass@w0rd@host:8080/a@b,x=git://token@other"),
            flag + "log=https://host:8080/a@b,x=git://other");
  EXPECT_EQ(given("mail=me@host,url=https://host/a@b"), flag + "mail=me@host,url=https://host/a@b");
  EXPECT_EQ(with_environment({{"BENCHMARK_CONTEXT", "a=http://u:p@h"}}, {}).front(), flag + "a=http://h");
}

TEST(Options, VariablesThatTheLibraryDoesNotKnowAreLeftAlone) {
  EXPECT_TRUE(with_environment({{"BENCHMARK_HOME", "/x"}}, {}).empty());
}

TEST(Options, ExpectationsAreParsed) {
  const auto options = parse_options({"--expect=ranks=8,hosts=2"});
  EXPECT_EQ(options.expected.ranks, 8);
  EXPECT_EQ(options.expected.hosts, 2);
  EXPECT_EQ(options.expected.backend, std::nullopt);
  EXPECT_EQ(parse_options({"--expect=backend=cuda"}).expected.backend, "cuda");
  EXPECT_EQ(parse_options({"--expect=ranks=8,hosts=2,ranks=4"}).expected.ranks, 4) << "the last word counts";
}

TEST(Options, RandomInterleavingIsRefused) {
  EXPECT_NE(refusal({"--benchmark_enable_random_interleaving"}).find("shuffle"), std::string::npos);
  EXPECT_NE(refusal({"--benchmark_enable_random_interleaving=true"}).find("shuffle"), std::string::npos);
  EXPECT_EQ(refusal({"--benchmark_enable_random_interleaving=false"}), "accepted");
}

TEST(Options, MalformedValuesAreRefusedByName) {
  for (const auto* bad : {"--backend=gpu",
                          "--tier=medium",
                          "--timeout=0",
                          "--timeout=-1",
                          "--timeout=nan",
                          "--timeout=inf",
                          "--timeout=1e12",
                          "--timeout=5x",
                          "--timeout",
                          "--expect=ranks=0",
                          "--expect=nodes=3",
                          "--expect=backend=gpu",
                          "--expect=ranks=2x",
                          "--expect=",
                          "--benchmark_repetitions=0",
                          "--benchmark_repetitions=many",
                          "--benchmark_min_time=soon",
                          "--benchmark_min_time=1e999",
                          "--benchmark_format=xml",
                          "--benchmark_out_format=",
                          "--benchmark_list_tests=perhaps",
                          "--benchmark_filter=(",
                          "--telemetry=perhaps",
                          "--telemetry",
                          "plain"}) {
    const std::string flag(bad);
    EXPECT_NE(refusal({flag}).find(flag.substr(0, flag.find('='))), std::string::npos)
        << flag << ": " << refusal({flag});
  }
}

TEST(Telemetry, IsOnUnlessSwitchedOff) {
  EXPECT_TRUE(parse_options({}).telemetry);
  EXPECT_TRUE(parse_options({"--telemetry=on"}).telemetry);
  EXPECT_FALSE(parse_options({"--telemetry=off"}).telemetry);
}

TEST(Filter, FindsItsExpressionInTheKeyOrInTheNameAsPrinted) {
  EXPECT_TRUE(selected("bytes:8$", "allreduce/dtype:f32/bytes:8"));
  EXPECT_TRUE(selected("bytes:8/", "allreduce/dtype:f32/bytes:8"));
  EXPECT_FALSE(selected("bytes:8$", "allreduce/dtype:f32/bytes:88"));
}

TEST(Filter, AMinusSelectsTheRest) {
  EXPECT_FALSE(selected("-f32", "gemm/dtype:f32"));
  EXPECT_TRUE(selected("-f32", "gemm/dtype:f64"));
}

TEST(Help, NamesEveryFlagOfOurs) {
  const auto text = help_text("bench_gemm");
  for (const auto* flag :
       {"--backend", "--tier", "--timeout", "--startup-timeout", "--expect", "--telemetry", "--plan", "--version"}) {
    EXPECT_NE(text.find(flag), std::string::npos) << flag;
  }
}

}  // namespace
}  // namespace shakedown
