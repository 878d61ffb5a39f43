// Tests that the generator follows its description.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "base/files.hpp"
#include "base/statistics.hpp"
#include "report/rehearsal_outcome.hpp"
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

/// Returns the keys of rows that take longer at `rank` with the faults than without: the operation, or its own part of
/// a step.
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

Fault parse_at(const std::string& text, int host, int local) {
  Fault fault = parse_faults(text).front();
  fault.host = host;
  fault.local = local;
  return fault;
}

/// Returns the ratio of a rank's value with the fault to the one without.
double change(const Fault& fault, const std::string& key, const std::string& metric, std::size_t rank) {
  const auto value = [&](const Order& of) { return *Fleet(of).measure(key, 0).by_rank.at(metric)[rank]; };
  return value(order(1, {fault})) / value(order(1));
}

/// Returns the value of one rank in one row of a run with these faults.
double value(const std::vector<Fault>& faults, const std::string& key, const std::string& metric, std::size_t rank) {
  return *Fleet(order(1, faults)).measure(key, 0).by_rank.at(metric)[rank];
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
  const Spread spread = noise("calm")[Kind::hbm];
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
  EXPECT_EQ(slower_at(1, order(1, {parse_at("gemm/dtype:f64:0.05", 0, 1)})),
            std::set<std::string>{"gemm/dtype:f64/m:8192/n:8192/k:8192"});
  EXPECT_EQ(slower_at(1, order(1, {{Weakness::sustained, 0.06, 0, 1}})),
            (std::set<std::string>{"gemm/dtype:bf16/m:8192/n:8192/k:8192/load:sustained",
                                   "lora_step/model:qwen2_7b/batch:2/seq:4096"}));
}

TEST(Rehearsal, SlowsOnlyTheRowsThatAFaultNames) {
  const std::string of = "/engine:sm/bytes:4294967296";
  const Fault reads = parse_at("hbm/op:read:0.1", 0, 2);
  EXPECT_NEAR(change(reads, "hbm/op:read" + of, "hbm_gb_per_s", 2), 0.9, 1e-9);
  EXPECT_EQ(change(reads, "hbm/op:read" + of, "hbm_gb_per_s", 1), 1);
  EXPECT_EQ(change(reads, "hbm/op:copy" + of, "hbm_gb_per_s", 2), 1);
}

TEST(Rehearsal, SlowsCopiesOfOnePairInOneDirection) {
  const Fault fault = parse_at("one_way:0.5", 0, 2);
  const std::string by = "/bytes:1073741824";
  EXPECT_NEAR(change(fault, "p2p/op:read/engine:ce/shift:1" + by, "copy_gb_per_s", 3), 0.5, 1e-9);
  EXPECT_EQ(change(fault, "p2p/op:read/engine:ce/shift:7" + by, "copy_gb_per_s", 2), 1);
  EXPECT_EQ(change(fault, "p2p/op:write/engine:ce/shift:2" + by, "copy_gb_per_s", 4), 1);
  EXPECT_NEAR(change(fault, "allreduce/dtype:f32/bytes:8589934592", "busbw_gb_per_s", 5), 0.5, 0.01);
}

TEST(Rehearsal, HalvesTheLanesOfAWeakPcieLink) {
  const Fault fault = parse_at("pcie:0.5", 0, 6);
  const std::string by = "/bytes:268435456";
  EXPECT_NEAR(change(fault, "pcie/op:h2d/active:one/rank:6" + by, "copy_gb_per_s", 6), 0.5, 1e-9);
  EXPECT_EQ(change(fault, "pcie/op:h2d/active:one/rank:5" + by, "copy_gb_per_s", 5), 1);
  EXPECT_EQ(value({fault}, "preflight/of:gpu", "pcie_width", 6), 8);
  EXPECT_EQ(value({fault}, "preflight/of:gpu", "pcie_width", 5), 16);
}

TEST(Rehearsal, LowersTheClockOfAHotGpuAndTheDriverGivesTheReason) {
  const std::string key = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
  const auto row = [&](const char* fault) { return Fleet(order(1, {parse_at(fault, 0, 4)})).measure(key, 0); };
  const Row hot = row("heat:0.12"), slow = row("clock:0.12");
  EXPECT_EQ(hot.throttle.at("hw_thermal")[4], 1);
  EXPECT_EQ(hot.throttle.at("sw_power_cap")[4], 0);
  EXPECT_EQ(hot.throttle.at("hw_thermal")[3], 0);
  EXPECT_EQ(hot.throttle.at("sw_power_cap")[3], 1);
  EXPECT_GE(*hot.by_rank.at("temperature_c")[4], 82);
  EXPECT_NEAR(*hot.by_rank.at("sm_mhz")[4], 1590 * 0.88, 1);
  EXPECT_FALSE(slow.throttle.contains("hw_thermal"));
  EXPECT_EQ(slow.throttle.at("sw_power_cap")[4], 0);
  EXPECT_EQ(slow.by_rank.at("throttled")[4], 0);
  EXPECT_EQ(slow.by_rank.at("tflops")[4], hot.by_rank.at("tflops")[4]);
}

TEST(Rehearsal, ShowsALowerPowerLimit) {
  const Fault fault = parse_at("power:0.3", 0, 1);
  EXPECT_EQ(value({fault}, "preflight/of:gpu", "power_limit_w", 1), 490);
  EXPECT_LT(change(fault, "gemm/dtype:bf16/m:8192/n:8192/k:8192", "sm_mhz", 1), 0.9);
  EXPECT_EQ(Fleet(order(1, {fault})).results("hbm").context.ranks[1].power_limit_w, 490);
}

TEST(Rehearsal, OthersWaitForALateRank) {
  const std::string key = "allreduce/dtype:f32/bytes:8/timing:single";
  const Order late = order(1, {parse_at("late:0.0001", 0, 5)});
  const Row before = Fleet(order(1)).measure(key, 0), after = Fleet(late).measure(key, 0);
  for (std::size_t rank = 0; rank < 8; ++rank) {
    const auto grown = [&](const char* metric) {
      return *after.by_rank.at(metric)[rank] - *before.by_rank.at(metric)[rank];
    };
    EXPECT_NEAR(grown("arrival_us"), rank == 5 ? 100 : 0, 1e-4) << rank;
    EXPECT_GE(grown("seconds"), 0) << rank;
    EXPECT_EQ(grown("seconds") == 0, rank == 5) << rank;
  }
}

TEST(Rehearsal, ShowsWrongDataAndCountedErrorsInOneRow) {
  const std::string key = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
  const Row wrong = Fleet(order(1, {parse_at("data", 0, 3), parse_at("data", 0, 6)})).measure(key, 0);
  EXPECT_EQ(wrong.wrong_ranks, (std::vector{3, 6}));
  ASSERT_TRUE(wrong.error);
  EXPECT_TRUE(wrong.error->starts_with("wrong data: rank 3 ("));
  const Fleet counted(order(1, {parse_at("xid", 0, 2)}));
  EXPECT_EQ(counted.measure(key, 0).errors_of(2).at("xid_79"), 1U);
  EXPECT_TRUE(counted.measure(key, 0).errors_of(1).empty());
  EXPECT_FALSE(Fleet(order(1, {parse_at("data", 0, 3)})).measure("gemm/dtype:f64/m:8192/n:8192/k:8192", 0).error);
}

TEST(Rehearsal, KeepsTheMachineFromLaunchToLaunch) {
  Order weak = order(1, {{Weakness::hbm, 0.1, 0, 3}});
  const Results first = Fleet(weak).results("hbm");
  weak.launch = 2;
  const Results second = Fleet(weak).results("hbm");
  EXPECT_NE(first.context.run_id, second.context.run_id);
  EXPECT_EQ(first.context.ranks[3].uuid, second.context.ranks[3].uuid);
  const auto of = [](const Results& results, std::size_t rank) { return *results.rows[2].by_rank.at("seconds")[rank]; };
  EXPECT_NE(of(first, 3), of(second, 3));
  EXPECT_NEAR(of(first, 3) / of(first, 2), of(second, 3) / of(second, 2), 0.01);
}

TEST(Rehearsal, NoFigureIsFasterThanTheHardware) {
  for (const char* name : {"stalls", "mixed", "lottery"}) {
    const Fleet fleet(order(4, {}, name));
    const auto most = [&](const Results& results, const char* metric) {
      double highest = 0;
      for (const Row& row : results.rows) {
        const auto column = row.by_rank.find(metric);
        if (column == row.by_rank.end()) continue;
        for (const auto& value : column->second) highest = std::max(highest, value.value_or(0));
      }
      return highest;
    };
    const Results gemm = fleet.results("gemm");
    EXPECT_LE(most(gemm, "sm_mhz"), 1980) << name;
    EXPECT_LE(most(gemm, "tflops_per_ghz"), 2 * 540.7) << name << ", fp8 has twice the rate of bf16";
    EXPECT_LE(most(fleet.results("hbm"), "hbm_gb_per_s"), 4800) << name;
    EXPECT_LE(most(fleet.results("p2p"), "copy_gb_per_s"), 450) << name;
    EXPECT_LE(most(fleet.results("pcie"), "copy_gb_per_s"), 128) << name;
  }
}

TEST(Rehearsal, NoCopyIsFasterThanItsLinkHoweverWideTheNoiseIs) {
  Order wide = order(4, {{Weakness::one_way, 0.1}}, "mixed");
  wide.noise.spreads[static_cast<std::size_t>(Kind::copy)].row = 0.05;
  int at_the_limit = 0;
  for (const Row& row : Fleet(wide).results("p2p").rows) {
    const auto rates = row.by_rank.find("copy_gb_per_s");
    if (rates == row.by_rank.end()) continue;
    const double link = row.key.part("engine") == "sm" ? 376.2 : 397.1;
    for (const auto& rate : rates->second) {
      EXPECT_LE(rate.value_or(0), 1.0001 * link) << row.key.text();
      at_the_limit += rate.value_or(0) > 0.9999 * link ? 1 : 0;
    }
  }
  EXPECT_GT(at_the_limit, 0);
}

TEST(Rehearsal, HasTheRowsAndColumnsOfAStoredRun) {
  const std::set<std::string> of_algorithm{"a_by_rows", "algorithm", "candidate", "tile"};  // are not simulated
  const Fleet fleet(order(1));
  for (const Results& stored : read_results(std::vector{source / "tests/data/h200-sxm-4ranks-quick"})) {
    const auto made = rows_of({fleet.results(stored.rows.front().key.family())});
    int compared = 0;
    for (const Row& row : stored.rows) {
      if (!made.contains({row.key, 0}) || row.waived || row.error) continue;
      const Row& own = made.at({row.key, 0});
      for (const auto& [name, values] : row.by_rank) {
        if (of_algorithm.contains(name)) continue;
        EXPECT_TRUE(own.by_rank.contains(name)) << row.key << " " << name;
      }
      for (const auto& [name, value] : row.metrics) EXPECT_TRUE(own.metrics.contains(name)) << row.key << " " << name;
      ++compared;
    }
    EXPECT_GT(compared, 0) << stored.file;
  }
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
  Order weak = order(1, {parse_at("gemm/dtype:f64:0.05", 0, 1)});
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
  EXPECT_NE(refused("kinds: {gemm: {chips: 0.1}}").find("gemm: chips"), std::string::npos);
  EXPECT_NE(refused("falling: much").find("falling "), std::string::npos);
  EXPECT_NE(refused("falling: 3").find("0 to 0.5"), std::string::npos);
  EXPECT_NE(refused("stall: {odds: 1}").find("stall "), std::string::npos);
}

TEST(Rehearsal, RefusesAFaultThatItDoesNotKnow) {
  EXPECT_EQ(parse_faults("hbm:0.04+link:0.2").size(), 2U);
  EXPECT_THROW(parse_faults("gemn:0.1"), InputError);
  EXPECT_THROW(parse_faults("gemm"), InputError);
  EXPECT_THROW(parse_faults("gemm:1.5"), InputError);
  EXPECT_THROW(parse_faults("hbm/op:read"), InputError);
  EXPECT_EQ(parse_faults("hbm/op:read/engine:sm:0.05").front().rows, "hbm/op:read/engine:sm");
  EXPECT_EQ(parse_faults("dead_pair").size(), 1U);
}

TEST(Rehearsal, BoundsARateByClopperAndPearson) {
  EXPECT_NEAR(binomial_upper_bound(0, 100), 0.0295, 0.0001) << "1 - 0.05^(1/100)";
  EXPECT_NEAR(binomial_upper_bound(1, 10), 0.3942, 0.0001);
  EXPECT_EQ(binomial_upper_bound(5, 5), 1);
}

}  // namespace
}  // namespace shakedown::rehearsal
