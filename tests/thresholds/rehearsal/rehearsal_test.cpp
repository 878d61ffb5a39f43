// The generator says what its description says.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "base/files.hpp"
#include "tests/rehearsal/outcome.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/rehearsal/fleet.hpp"

namespace shakedown::rehearsal {
namespace {

namespace fs = std::filesystem;

const fs::path source = SHAKEDOWN_SOURCE_DIR;

Noise noise(const std::string& name) { return read_noise(source / "thresholds/rehearsal/noise" / (name + ".yaml")); }

Order order(int hosts, std::vector<Fault> faults = {}, const std::string& name = "calm") {
  Order order;
  order.shape.hosts = hosts;
  order.shape.leaf_hosts = 2;
  order.noise = noise(name);
  order.faults = std::move(faults);
  order.seed = 7;
  return order;
}

class Folder {
 public:
  Folder() : path_(fs::path(testing::TempDir()) / ("rehearsal-" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

std::map<std::pair<std::string, int>, Row> rows_of(const std::vector<Results>& all) {
  std::map<std::pair<std::string, int>, Row> rows;
  for (const Results& results : all) {
    for (const Row& row : results.rows) rows.emplace(std::pair(row.key, row.repetition), row);
  }
  return rows;
}

/// The keys whose rows take longer at `rank` with the faults than without: the operation, or its own part of a step.
std::set<std::string> slower_at(int rank, const Order& with) {
  Order without = with;
  without.faults.clear();
  Order faulty = with;
  without.repeats = faulty.repeats = false;
  const auto healthy = rows_of(Fleet(without).results()), weak = rows_of(Fleet(faulty).results());
  std::set<std::string> keys;
  for (const auto& [name, row] : healthy) {
    for (const char* column : {"seconds", "compute_ms"}) {
      const auto times = row.by_rank.find(column);
      if (times == row.by_rank.end() || !weak.contains(name)) continue;
      const auto& before = times->second[static_cast<std::size_t>(rank)];
      const auto& after = weak.at(name).by_rank.at(column)[static_cast<std::size_t>(rank)];
      if (before && after && *after > *before) keys.insert(name.first);
    }
  }
  return keys;
}

std::set<std::string> families(const std::set<std::string>& keys) {
  std::set<std::string> names;
  for (const auto& key : keys) names.insert(family_of(key));
  return names;
}

TEST(Rehearsal, WritesTheSameBytesForTheSameSeed) {
  const Folder folder;
  Order other = order(2);
  other.seed = 8;
  write(Fleet(order(2)).results(), folder / "a");
  write(Fleet(order(2)).results(), folder / "b");
  write(Fleet(other).results(), folder / "c");
  for (const char* file : {"gemm.json", "preflight.json", "pairs.json", "p2p.json"}) {
    EXPECT_EQ(read_file(folder / "a" / file), read_file(folder / "b" / file)) << file;
    EXPECT_NE(read_file(folder / "a" / file), read_file(folder / "c" / file)) << file;
  }
}

TEST(Rehearsal, IsReadAsItIsInMemory) {
  const Folder folder;
  const auto made = Fleet(order(3, {{Weakness::gemm, 0.05, 1, 2}})).results();
  write(made, folder / "run");
  const auto expected = rows_of(made), found = rows_of(read_results(std::vector{folder / "run"}));
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, row] : expected) {
    ASSERT_TRUE(found.contains(name)) << name.first;
    const Row& read = found.at(name);
    EXPECT_EQ(read.metrics, row.metrics) << name.first;
    EXPECT_EQ(read.by_rank, row.by_rank) << name.first;
    EXPECT_EQ(read.text_by_rank, row.text_by_rank) << name.first;
    EXPECT_EQ(read.waived, row.waived) << name.first;
    EXPECT_EQ(read.repetitions, row.repetitions) << name.first;
    EXPECT_NEAR(read.real_time, row.real_time, 1e-12 * row.real_time + 1e-15) << name.first;
  }
}

TEST(Rehearsal, SpreadsRatesAsItsDescriptionSays) {
  const Row row = Fleet(order(100)).measure("hbm/op:copy/engine:sm/bytes:4294967296", 0);
  double sum = 0, squares = 0;
  for (const auto& rate : row.by_rank.at("hbm_gb_per_s")) {
    sum += std::log(*rate);
    squares += std::log(*rate) * std::log(*rate);
  }
  const double n = 800, deviation = std::sqrt(squares / n - sum / n * sum / n);
  const Spread& spread = noise("calm")[Kind::hbm];
  EXPECT_NEAR(deviation, std::hypot(spread.chip, spread.row), 0.1 * deviation);
}

TEST(Rehearsal, SlowsProductsAndStepsOfAGpuWithWeakProducts) {
  const auto keys = slower_at(3, order(1, {{Weakness::gemm, 0.05, 0, 3}}));
  EXPECT_EQ(families(keys), (std::set<std::string>{"gemm", "lora_step"}));
  EXPECT_EQ(families(slower_at(2, order(1, {{Weakness::gemm, 0.05, 0, 3}}))), std::set<std::string>{"lora_step"})
      << "all wait for the slowest rank of a step, and for nothing else";
}

TEST(Rehearsal, SlowsWhatReadsAWeakMemory) {
  const auto keys = slower_at(3, order(1, {{Weakness::hbm, 0.04, 0, 3}}));
  EXPECT_EQ(families(keys), (std::set<std::string>{"hbm", "memtest", "lora_step"}));
}

TEST(Rehearsal, SlowsTheRowsOfOneTypeOrLoadAlone) {
  EXPECT_EQ(slower_at(1, order(1, {{Weakness::f64, 0.05, 0, 1}})),
            std::set<std::string>{"gemm/dtype:f64/m:8192/n:8192/k:8192"});
  EXPECT_EQ(slower_at(1, order(1, {{Weakness::sustained, 0.06, 0, 1}})),
            (std::set<std::string>{"gemm/dtype:bf16/m:8192/n:8192/k:8192/load:sustained",
                                   "lora_step/model:qwen2_7b/batch:2/seq:4096"}));
}

TEST(Rehearsal, SlowsCopiesFromAndToAWeakPort) {
  const Order weak = order(1, {{Weakness::link, 0.2, 0, 3}});
  EXPECT_TRUE(slower_at(3, weak).contains("p2p/op:read/engine:ce/shift:1/bytes:1073741824"));
  const auto at_its_neighbour = slower_at(4, weak);
  EXPECT_TRUE(at_its_neighbour.contains("p2p/op:read/engine:ce/shift:1/bytes:1073741824")) << "which reads from it";
  EXPECT_FALSE(at_its_neighbour.contains("p2p/op:read/engine:ce/shift:2/bytes:1073741824"));
  EXPECT_EQ(families(at_its_neighbour), (std::set<std::string>{"p2p", "allreduce", "collectives"}));
}

TEST(Rehearsal, SlowsWhatGoesOverAWeakNic) {
  const Order weak = order(4, {{Weakness::nic, 0.5, 0, 3}});
  EXPECT_EQ(families(slower_at(3, weak)), (std::set<std::string>{"allreduce", "collectives", "pairs"}));
  const auto beside = slower_at(4, weak);
  for (const auto& key : beside) {
    EXPECT_EQ(key.find("scope:node"), std::string::npos) << key;
    EXPECT_EQ(key.find("sendrecv/scope"), std::string::npos) << key;
  }
}

TEST(Rehearsal, SlowsOnlyPairsAcrossLeavesForAWeakLeaf) {
  for (const auto& key : slower_at(0, order(4, {{Weakness::leaf, 0.5, 0, 0}}))) {
    EXPECT_EQ(key.find("scope:leaf"), std::string::npos) << key;
    EXPECT_EQ(key.find("scope:node"), std::string::npos) << key;
  }
}

TEST(Rehearsal, ShowsALinkThatIsDown) {
  const auto rows = rows_of(Fleet(order(1, parse_faults("lane"))).results());
  EXPECT_EQ(rows.at({"preflight/of:nvlink", 0}).by_rank.at("nvlinks_up")[0], 17);
  EXPECT_EQ(rows.at({"preflight/of:nvlink", 0}).by_rank.at("nvlinks_up")[1], 18);
}

TEST(Rehearsal, TellsOneTimeInAllFiguresOfARow) {
  const Fleet fleet(order(3));
  Scale scale{24, 3, false, 1980, 700, 150.11, 64, 148.981678};
  int compared = 0;
  for (const auto& [name, row] : rows_of(fleet.results())) {
    for (const auto& [metric, value] : row.metrics) {
      const Metric* known = find_metric(Key(name.first), metric);
      if (known == nullptr || known->of_mean || row.key.family() == "pairs") continue;
      const auto told = implied_seconds(*known, Key(name.first), value, scale);
      if (!told || metric == "max_us" || metric == "p99_us" || metric == "p999_us") continue;
      double slowest = 0;
      for (const auto& seconds : row.by_rank.at("seconds")) slowest = std::max(slowest, seconds.value_or(0));
      EXPECT_NEAR(*told, slowest, 1e-3 * slowest) << name.first << " " << metric;
      ++compared;
    }
  }
  EXPECT_GT(compared, 200);
}

TEST(Rehearsal, AnswersRetestsWithOtherNoiseOfTheSameGpus) {
  const Fleet fleet(order(1, {{Weakness::hbm, 0.04, 0, 5}}));
  const std::string key = "hbm/op:read/engine:sm/bytes:4294967296";
  const auto weak = fleet.measure(key, "hbm_gb_per_s", 5, 20), good = fleet.measure(key, "hbm_gb_per_s", 4, 20);
  ASSERT_EQ(weak.size(), 20U);
  EXPECT_NE(weak[0], weak[1]);
  EXPECT_EQ(weak, fleet.measure(key, "hbm_gb_per_s", 5, 20));
  for (std::size_t i = 0; i < weak.size(); ++i) EXPECT_NEAR(weak[i] / good[i], 0.96, 0.005);
  EXPECT_THROW(fleet.measure("hbm/op:none", 0), InputError);
}

TEST(Rehearsal, RepeatsWhatIsInDoubtUnlessToldNotTo) {
  Order weak = order(1, {{Weakness::f64, 0.05, 0, 1}});
  const std::string key = "gemm/dtype:f64/m:8192/n:8192/k:8192";
  const auto repeated = rows_of(Fleet(weak).results());
  EXPECT_EQ(repeated.at({key, 0}).repetitions, 3);
  EXPECT_TRUE(repeated.contains({key, 2}));
  EXPECT_FALSE(repeated.contains({"gemm/dtype:f32/m:8192/n:8192/k:8192", 1}));
  weak.repeats = false;
  EXPECT_FALSE(rows_of(Fleet(weak).results()).contains({key, 1}));
}

TEST(Rehearsal, MeasuresPairsInDoubtAgainWithFastHosts) {
  Order weak = order(8, {{Weakness::nic, 0.5, 5, 3}});
  const Row row =
      rows_of(Fleet(weak).results()).at({"pairs/op:sendrecv/scope:any/confirm:0/dir:both/bytes:268435456", 0});
  ASSERT_FALSE(row.waived);
  EXPECT_LT(*row.by_rank.at("busbw_gb_per_s")[5 * 8 + 3], 30);
  EXPECT_GT(*row.by_rank.at("busbw_gb_per_s")[5 * 8 + 4], 40);
  EXPECT_FALSE(row.by_rank.at("busbw_gb_per_s")[0]) << "only of hosts in doubt";
}

TEST(Rehearsal, MakesAHealthyFleetThatIsJudgedGood) {
  const auto profiles = load_profiles(source / "thresholds");
  const Fleet fleet(order(1));
  const Outcome outcome = outcome_of(fleet, judge_fleet(fleet, profiles));
  EXPECT_EQ(outcome.state, State::pass);
  EXPECT_FALSE(outcome.innocent);
  const Fleet weak(order(1, {{Weakness::gpu, 0.1, 0, 6}}));
  EXPECT_TRUE(outcome_of(weak, judge_fleet(weak, profiles)).first);
}

TEST(Rehearsal, ReadsEveryNoiseFileAndRefusesWhatItDoesNotKnow) {
  for (const auto& file : fs::directory_iterator(source / "thresholds/rehearsal/noise")) {
    EXPECT_GT(read_noise(file.path())[Kind::gemm].row, 0) << file.path();
  }
  const Folder folder;
  const auto refused = [&](const std::string& text) -> std::string {
    std::ofstream(folder / "bad.yaml") << text;
    try {
      read_noise(folder / "bad.yaml");
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refused("kinds: {gemm: {chips: 0.1}}").find("kinds: gemm: chips is unknown"), std::string::npos);
  EXPECT_NE(refused("falling: much").find("falling is no number"), std::string::npos);
  EXPECT_NE(refused("falling: 3").find("must be from 0 to 0.5"), std::string::npos);
  EXPECT_NE(refused("stall: {odds: 1}").find("stall is unknown"), std::string::npos);
}

TEST(Rehearsal, RefusesAFaultThatItDoesNotKnow) {
  EXPECT_EQ(parse_faults("hbm:0.04+link:0.2").size(), 2U);
  EXPECT_THROW(parse_faults("gemn:0.1"), InputError);
  EXPECT_THROW(parse_faults("gemm"), InputError);
  EXPECT_THROW(parse_faults("gemm:1.5"), InputError);
}

TEST(Rehearsal, BoundsARateByClopperAndPearson) {
  EXPECT_NEAR(upper_bound(0, 100), 0.0295, 0.0001) << "1 - 0.05^(1/100)";
  EXPECT_NEAR(upper_bound(1, 10), 0.3942, 0.0001);
  EXPECT_EQ(upper_bound(5, 5), 1);
}

}  // namespace
}  // namespace shakedown::rehearsal
