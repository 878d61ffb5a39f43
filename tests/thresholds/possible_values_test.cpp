// Tests which figures are possible, at the boundary of each check: the value at the limit is accepted, the next is not.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/possible.hpp"
#include "thresholds/rules/validity.hpp"

namespace shakedown::possible_values_test {
namespace {

using testing_support::ResultsBuilder;
using testing_support::Values;

const std::string free_row = "counting/x:1";  // of no family of the catalogue
const std::string step_row = "lora_step/model:llama_8b/batch:8/seq:4096";
const std::string copy_row = "pcie/op:h2d/bytes:268435456";

using Change = std::function<void(Row& row, Context& context)>;

/// Judges one row, and returns "metric: reason" of its finding; "" if its figures are possible.
std::string refused(const ResultsBuilder& builder, const Change& change = {}, const Profile* profile = nullptr) {
  std::vector<Results> files{builder.results()};
  if (change) change(files.front().rows.front(), files.front().context);
  const auto findings = judge_validity(benchmarks_of(files), profile, {});
  return findings.empty() ? "" : findings.front().metric + ": " + findings.front().detail;
}

std::string refused(const std::string& key, const Change& change, int ranks = 1) {
  return refused(ResultsBuilder(ranks).add(key, "value", 1), change);
}

/// A row with these numbers; the other members are those of ResultsBuilder.
Change with(const std::map<std::string, double>& metrics, double iterations = 100, double real_time = 1.5e-3) {
  return [=](Row& row, Context&) {
    row.metrics = metrics;
    row.iterations = iterations;
    row.real_time = real_time;
  };
}

struct Boundary {
  const char* why;
  std::string key;
  Change accepted, not_accepted;
  std::string says;  // how the finding begins
};

TEST(PossibleValues, IncludeTheLimitAndNothingBeyond) {
  const double week = 7 * 86400, infinite = std::numeric_limits<double>::infinity();
  const std::vector<Boundary> boundaries{
      {"one iteration", free_row, with({}, 1), with({}, 0.5), "iterations: no iterations were timed"},
      {"iterations", free_row, with({}), with({}, infinite), "iterations: no iterations were timed"},
      {"time", free_row, with({}, 1, 1e-9), with({}, 1, 0), "real_time: not a possible time"},
      {"finite time", free_row, with({}), with({}, 1, infinite), "real_time: not a possible time"},
      {"finite figure", free_row, with({{"x", -1}}), with({{"x", infinite}}), "x: not a finite number"},
      {"positive", free_row, with({{"x_gb", 1e-9}}), with({{"x_gb", 0}}), "x_gb: 0: must be above zero"},
      {"not negative", free_row, with({{"power_w", 0}}), with({{"power_w", -1}}), "power_w: -1: cannot be below zero"},
      {"latency", free_row, with({{"latency_us", min_latency_us}}), with({{"latency_us", 0.29}}), "latency_us: faster"},
      {"whole samples", free_row, with({{"samples", 4}}), with({{"samples", 2.5}}), "samples: not a whole number"},
      {"a week", free_row, with({{"samples", 1}}, 1, week), with({{"samples", 1}}, 1, week + 1),
       "samples: 1 iterations of"},
      {"samples of one iteration", free_row, with({{"samples", 4}}, 4), with({{"samples", 4}}, 6),
       "samples: not a share"},
      {"fewer iterations", free_row, with({{"samples", 1}}, 1), with({{"samples", 2}}, 1), "samples: not a share"},
      {"samples without cv", free_row, with({{"samples", 4}}), with({{"samples", 5}}), "cv: was sampled 5 times"},
      {"cv of samples", free_row, with({{"samples", 4}, {"cv", 2}}), with({{"samples", 4}, {"cv", 2.01}}),
       "cv: more than 4"},
      {"quantiles", free_row, with({{"samples", 4}, {"p50_us", 100}, {"p99_us", 99}}),
       with({{"samples", 4}, {"p50_us", 100}, {"p99_us", 98.9}}), "p99_us: below a smaller quantile, 100 us"},
      {"quantile after a gap", free_row, with({{"samples", 4}, {"p50_us", 100}, {"max_us", 100}}),
       with({{"samples", 4}, {"p50_us", 100}, {"p999_us", 50}}), "p999_us: below a smaller quantile, 100 us"},
      {"largest sample", free_row, with({{"samples", 4}, {"cv", 0.5}, {"max_us", 2020}}, 4, 1e-3),
       with({{"samples", 4}, {"cv", 0.5}, {"max_us", 2021}}, 4, 1e-3), "max_us: with this mean and cv"},
      {"preflight without cv", "preflight/of:gpu", with({{"samples", 50}}), with({{"samples", 2.5}}),
       "samples: not a whole number"},
  };
  for (const Boundary& one : boundaries) {
    EXPECT_EQ(refused(one.key, one.accepted), "") << one.why;
    EXPECT_EQ(refused(one.key, one.not_accepted).rfind(one.says, 0), 0u)
        << one.why << ": " << refused(one.key, one.not_accepted);
  }
}

TEST(PossibleValues, AreNamedByTheFirstThatIsNot) {
  EXPECT_EQ(refused(free_row, with({{"a_gb", -1}, {"b_gb", -2}}, 0)).rfind("iterations: ", 0), 0u);
  EXPECT_EQ(refused(free_row, with({{"a_gb", -1}, {"b_gb", -2}})).rfind("a_gb: -1: ", 0), 0u);
}

TEST(PossibleValues, OfALatencyOfAProcessorHaveNoMinimum) {
  const auto builder = ResultsBuilder::host(1).add(free_row, "value", 1);
  EXPECT_EQ(refused(builder, with({{"latency_us", 0.001}})), "");
}

TEST(PossibleValues, EndAtTheCeilingOfEachRanksOwnDevice) {
  struct Kind {
    const char* metric;
    double value;
    void (*lower)(RankFacts& rank);
  };
  const std::vector<Kind> kinds{
      {"sm_mhz", 1900, [](RankFacts& rank) { rank.sm_mhz_max = 1000; }},
      {"power_w", 650, [](RankFacts& rank) { rank.power_limit_w = 300; }},
      {"capacity_gb", 120, [](RankFacts& rank) { rank.memory_bytes = 80000000000; }},
  };
  for (const Kind& kind : kinds) {
    for (const std::size_t low : {0u, 1u, 2u, 3u}) {
      const auto builder = ResultsBuilder(3).add("memtest/x:1", "value", 1);
      std::vector<Results> files{builder.results()};
      Row& row = files.front().rows.front();
      row.metrics = {};
      row.by_rank = {{kind.metric, Values(3, kind.value)}};
      for (RankFacts& rank : files.front().context.ranks) {
        rank.sm_mhz_max = 1980, rank.power_limit_w = 700, rank.memory_bytes = 141000000000;
      }
      if (low < 3) kind.lower(files.front().context.ranks[low]);
      const auto findings = judge_validity(benchmarks_of(files), nullptr, {});
      ASSERT_EQ(findings.size(), low < 3 ? 1u : 0u) << kind.metric << " of rank " << low;
      if (low == 3) continue;
      EXPECT_EQ(findings[0].limit->kind, LimitKind::ceiling);
      EXPECT_EQ(findings[0].worst->rank, static_cast<int>(low)) << kind.metric;
      EXPECT_EQ(findings[0].part.id, "GPU-100" + std::to_string(low));
    }
  }
}

TEST(PossibleValues, EndAtTheCeilingOfTheProfileWithItsAllowance) {
  Profile profile;
  profile.peak["hbm_gb_per_s"] = 4800;
  const auto says = [&](double rate) {
    const auto builder = ResultsBuilder(1).add("memtest/x:1", "value", 1);
    return refused(builder, with({{"hbm_gb_per_s", rate}}), &profile);
  };
  EXPECT_EQ(says(4800 * ceiling_allowance), "");
  EXPECT_EQ(says(4800 * ceiling_allowance + 1), "hbm_gb_per_s: above the physical limit: the measurement is wrong");
}

TEST(PossibleValues, OfALayerEndAtThePeakOfItsType) {
  Profile profile;
  profile.peak["fp8_e4m3_tflops"] = 1979;
  const auto says = [&](double rate) {
    const auto builder = ResultsBuilder(1).add("layer/model:h8192/dtype:fp8/batch:1/seq:8", "value", 1);
    return refused(builder, with({{"tflops", rate}}), &profile);
  };
  EXPECT_EQ(says(1979), "");
  EXPECT_EQ(says(1979 * ceiling_allowance + 1).rfind("tflops: above", 0), 0u);
}

TEST(PossibleValues, OfATokenEndAtTheRateOfReadingItsBytes) {
  const auto says = [&](double fraction) {
    const auto builder = ResultsBuilder(1).add("decode/model:tiny/dtype:f32/batch:1/context:8", "value", 1);
    return refused(builder, with({{"of_hbm_read", fraction}}), nullptr);
  };
  EXPECT_EQ(says(1), "");
  EXPECT_EQ(says(1.02), "of_hbm_read: above the physical limit: the measurement is wrong");
  EXPECT_NE(says(0), "");
}

TEST(PossibleValues, OfACopyFollowTheGenerationOfPcie) {
  const auto possible = [](std::optional<double> generation, std::optional<double> width, double rate) {
    ResultsBuilder builder(1);
    builder.add(copy_row, "copy_gb_per_s", rate);
    builder.add_facts("preflight/of:gpu", {{"pcie_gen_max", {generation}}, {"pcie_width_max", {width}}}, {});
    const std::vector<Results> files{builder.results()};
    const Profile profile;
    return judge_validity(benchmarks_of(files), &profile, {}).empty();
  };
  EXPECT_TRUE(possible(1, 16, 4));
  EXPECT_FALSE(possible(1, 16, 4.1));
  EXPECT_TRUE(possible(6, 16, 121));
  EXPECT_FALSE(possible(6, 16, 123));
  EXPECT_TRUE(possible(7, 16, 400)) << "a generation that is not known";
  EXPECT_TRUE(possible(0, 16, 400));
  EXPECT_TRUE(possible(std::nullopt, 16, 400));
  EXPECT_TRUE(possible(3, std::nullopt, 400));
}

/// A row with a sensor value of the run and these of two ranks.
std::string sensors(std::optional<double> run, const Values& ranks) {
  return refused(
      free_row,
      [&](Row& row, Context&) {
        row.metrics = {};
        if (run) row.metrics["power_w"] = *run;
        row.by_rank = {{"power_w", ranks}};
      },
      2);
}

TEST(PossibleValues, OfASensorAreThoseOfARank) {
  EXPECT_EQ(sensors(1e6, {1e6 + 1, 1}), "") << "as exact as the file";
  EXPECT_EQ(sensors(1e6, {1e6 + 1.001, 1}).rfind("power_w: ", 0), 0u);
  EXPECT_EQ(sensors(500, {std::nullopt, 500}), "");
  EXPECT_EQ(sensors(500, {std::nullopt, std::nullopt}), "") << "no rank knows it";
  EXPECT_EQ(sensors(std::nullopt, {500, 600}), "") << "the run does not know it";
}

TEST(PossibleValues, OfARunAreWithinTheFactorOfItsSlowestRank) {
  const auto says = [](std::optional<double> run, const Values& ranks) {
    return refused(
        "hbm/op:copy/engine:sm/bytes:4294967296",
        [&](Row& row, Context&) {
          row.metrics = {};
          if (run) row.metrics["hbm_gb_per_s"] = *run;
          row.by_rank = {{"hbm_gb_per_s", ranks}};
        },
        2);
  };
  EXPECT_EQ(says(1, {0.99, 2}), "");
  EXPECT_EQ(says(1, {0.98, 2}), "hbm_gb_per_s: the run has 1, the slowest rank has 0.98 GB/s");
  EXPECT_EQ(says(1, {agreement_factor, 9}), "");
  EXPECT_TRUE(says(1, {agreement_factor + 0.1, 9}).ends_with(" 5.1 GB/s"));
  EXPECT_EQ(says(1, {std::nullopt, std::nullopt}), "hbm_gb_per_s: a rank that took part has no value");
  EXPECT_EQ(says(std::nullopt, {1, 1}).rfind("hbm_gb_per_s: the ranks ", 0), 0u);
}

TEST(PossibleValues, OfBitsAreTheSameOnDevicesOfOneKind) {
  const auto says = [](const Values& sums, const std::string& last_device) {
    return refused(
        free_row,
        [&](Row& row, Context& context) {
          row.metrics = {};
          row.by_rank = {{"checksum", sums}};
          context.ranks.back().device = last_device;
        },
        3);
  };
  EXPECT_EQ(says({1, 1, 1}, "NVIDIA H200"), "");
  EXPECT_EQ(says({1, std::nullopt, 1}, "NVIDIA H200"), "");
  EXPECT_EQ(says({1, 1, 2}, "NVIDIA H100"), "");
  EXPECT_EQ(says({1, 1, 2}, "NVIDIA H200"), "checksum: ranks with devices of one kind computed different bits");
  EXPECT_EQ(says({std::nullopt, 1, 2}, "NVIDIA H200"), says({1, 1, 2}, "NVIDIA H200"));
}

/// A training step of 0.1 s, with these values on both ranks.
std::string step(const std::map<std::string, double>& values, const std::string& key = step_row) {
  return refused(
      key,
      [&](Row& row, Context&) {
        row.metrics = {};
        row.by_rank = {{"seconds", {0.1, 0.1}}};
        for (const auto& [name, value] : values) row.by_rank[name] = {value, value};
        if (values.contains("tokens_per_s")) row.metrics["tokens_per_s"] = values.at("tokens_per_s");
      },
      2);
}

TEST(PossibleValues, OfAStepAddUp) {
  EXPECT_EQ(step({{"compute_ms", 85}, {"exposed_comm_ms", 15}}), "");
  EXPECT_EQ(step({{"compute_ms", 70}, {"exposed_comm_ms", 15}}).rfind("compute_ms: together", 0), 0u);
  EXPECT_EQ(step({{"compute_ms", 50}}), "") << "how long it waited is unknown";
  const std::map<std::string, double> phases{
      {"compute_ms", 95}, {"exposed_comm_ms", 5}, {"forward_ms", 30}, {"backward_ms", 30}, {"optimizer_ms", 10}};
  EXPECT_TRUE(step(phases).starts_with("compute_ms: contradicts ") && step(phases).ends_with(", 70 ms"));
  for (const char* part : {"/accumulation:4", "/shard:zero3", "/tp:2"})
    EXPECT_EQ(step(phases, step_row + part), "") << part;
  for (const char* phase : {"forward_ms", "backward_ms", "optimizer_ms"}) {
    auto some = phases;
    some.erase(phase);
    EXPECT_EQ(step(some), "") << "without " << phase;
  }
}

TEST(PossibleValues, OfAStepByItselfHaveNothingToWaitFor) {
  const auto says = [](double compute) {
    return refused(step_row, [&](Row& row, Context&) {
      row.metrics = {};
      row.by_rank = {{"seconds", {0.1}}, {"compute_ms", {compute}}};
    });
  };
  EXPECT_EQ(says(95), "");
  EXPECT_EQ(says(80).rfind("compute_ms: together", 0), 0u);
}

TEST(PossibleValues, PerClockAreComparedUnlessTheRankWaits) {
  const double rate = 8 * 4096 / 0.1;
  const auto says = [&](double wait, double per_ghz) {
    return step({{"compute_ms", 90},
                 {"exposed_comm_ms", wait},
                 {"tokens_per_s", rate},
                 {"tokens_per_s_per_ghz", per_ghz},
                 {"sm_mhz", 1000}});
  };
  EXPECT_EQ(says(9, rate), "");
  EXPECT_EQ(says(9, 2 * rate).rfind("tokens_per_s_per_ghz: contradicts ", 0), 0u) << "a tenth is not yet waiting";
  EXPECT_EQ(says(9.1, 2 * rate), "");
}

TEST(PossibleValues, OfLossesFallByATenth) {
  const auto says = [](const Values& first, const Values& last, const std::string& key = step_row) {
    return refused(
        key,
        [&](Row& row, Context&) {
          row.metrics = {};
          row.by_rank = {{"seconds", {0.1, 0.1}}, {"first_loss", first}, {"last_loss", last}};
        },
        2);
  };
  EXPECT_EQ(says({10, 10}, {8.9, 8.9}), "");
  EXPECT_EQ(says({10, 10}, {8.9, 9}).rfind("last_loss: almost constant: 10 ", 0), 0u);
  EXPECT_EQ(says({10, std::nullopt}, {8.9, 9}), "");
  EXPECT_EQ(says({10, 10}, {8.9, 9}, "train_step/model:gpt2/batch:8/seq:1024"), "");
}

TEST(PossibleValues, AreRepeatableAsTheProfileAsks) {
  Profile profile;
  profile.samples_min = 10;
  profile.cv_max["hbm"] = 0.25;
  const auto says = [&](const std::string& key, double samples, std::optional<double> cv) {
    return refused(
        ResultsBuilder(1).add(key, "value", 1),
        [&](Row& row, Context&) {
          row.metrics = {{"samples", samples}, {"hbm_gb_per_s", 1}};
          if (cv) row.metrics["cv"] = *cv;
          row.by_rank = {{"hbm_gb_per_s", {1}}};
        },
        &profile);
  };
  const std::string hbm = "hbm/x:1";
  EXPECT_EQ(says(hbm, 10, 0.25), "");
  EXPECT_NE(says(hbm, 10, 0.26).find("cv 0.26, at most 0.25"), std::string::npos);
  EXPECT_EQ(says(hbm, 5, 0.1), "samples: fewer samples than required: 5 of 10");
  EXPECT_EQ(says(free_row, 10, 0.9), "") << "no limit for this family";
  EXPECT_EQ(says("preflight/x:1", 5, 0.1), "");
}

TEST(PossibleValues, NeedAFigureToJudgeAndATimeOfARank) {
  const auto says = [](const std::map<std::string, double>& metrics, const ByRank& ranks) {
    return refused("hbm/x:1", [&](Row& row, Context&) {
      row.metrics = metrics;
      row.metrics["samples"] = 4;
      row.by_rank = ranks;
    });
  };
  EXPECT_EQ(says({{"hbm_gb_per_s", 1}}, {{"hbm_gb_per_s", {1}}}), "");
  EXPECT_EQ(says({}, {{"seconds", {1}}}), ": was timed but has no figure to judge");
  EXPECT_NE(says({{"hbm_gb_per_s", 1}}, {{"power_w", {1}}}).find("no rank"), std::string::npos);
}

}  // namespace
}  // namespace shakedown::possible_values_test
