// The made-up fleets themselves: shaped like the stored run, consistent, never faster than can be, and each fault where
// it belongs and nowhere else.
#include "tests/fleet/fleet.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/thresholds/results_builder.hpp"

namespace shakedown::fleet {
namespace {

using Json = nlohmann::json;

const std::filesystem::path root = SHAKEDOWN_SOURCE_DIR;
const std::string bf16 = "gemm/dtype:bf16/m:8192/n:8192/k:8192";

Plan plan_of(int gpus = 8, const std::vector<std::string>& faults = {}, const std::string& noise = "calm") {
  Plan plan;
  plan.source = root / "ci/baselines/h200-sxm/4ranks/1";
  plan.noise = read_noise(root / "tests/fleet/noise" / (noise + ".yaml"));
  plan.gpus = gpus;
  for (const auto& fault : faults) plan.faults.push_back(parse_fault(fault));
  return plan;
}

std::string text(const Plan& plan, const std::string& family) {
  std::ostringstream out;
  Fleet(plan).write(family, out);
  return out.str();
}

/// The rows of a family by key.
/// The first repetition of each.
std::map<std::string, Json> rows(const std::string& document) {
  std::map<std::string, Json> result;
  const auto parsed = Json::parse(document);
  for (const auto& row : parsed["benchmarks"]) {
    const std::string name = row["name"];
    result.emplace(name.substr(0, std::min(name.find("/iterations:"), name.find("/manual_time"))), row);
  }
  return result;
}
std::map<std::string, Json> rows(const Plan& plan, const std::string& family) { return rows(text(plan, family)); }

std::set<std::string> members(const Json& object) {
  std::set<std::string> names;
  for (const auto& [name, value] : object.items()) names.insert(name);
  return names;
}

double smallest(const Json& values) {
  double least = HUGE_VAL;
  for (const auto& value : values) {
    if (value.is_number()) least = std::min(least, value.get<double>());
  }
  return least;
}
double greatest(const Json& values) {
  double most = -HUGE_VAL;
  for (const auto& value : values) {
    if (value.is_number()) most = std::max(most, value.get<double>());
  }
  return most;
}

TEST(Fleet, IsTheSameForOneSeedAndAnotherForAnother) {
  auto plan = plan_of();
  const auto first = text(plan, "gemm");
  EXPECT_EQ(first, text(plan, "gemm"));
  plan.launch = 2;
  const auto again = text(plan, "gemm");
  EXPECT_NE(first, again);
  plan.seed = 2;
  EXPECT_NE(again, text(plan, "gemm"));
}

TEST(Fleet, HasTheRowsAndMembersOfTheStoredRun) {
  const auto plan = plan_of(4);
  for (const auto& family : Fleet(plan).families()) {
    std::ifstream file(plan.source / (family + ".json"));
    const auto stored = rows(std::string(std::istreambuf_iterator<char>(file), {})), made = rows(plan, family);
    ASSERT_GE(stored.size(), 1u) << family;
    ASSERT_EQ(stored.size(), made.size()) << family;
    for (const auto& [key, row] : stored) {
      ASSERT_TRUE(made.contains(key)) << key;
      auto expected = members(row), has = members(made.at(key));
      expected.erase("label");  // stands or does not by who was late
      has.erase("label");
      EXPECT_EQ(expected, has) << key;
      if (!row.contains("by_rank")) continue;
      EXPECT_EQ(members(row["by_rank"]), members(made.at(key)["by_rank"])) << key;
      for (const auto& [metric, values] : made.at(key)["by_rank"].items()) {
        ASSERT_EQ(values.size(), 4u) << key << metric;
        for (std::size_t r = 0; r < 4; ++r) {
          EXPECT_EQ(values[r].is_null(), row["by_rank"][metric][r].is_null()) << key << metric << r;
        }
      }
    }
  }
}

TEST(Fleet, IsReadByTheReaderOnAnyNumberOfHosts) {
  const testing_support::Folder folder;
  for (const int hosts : {1, 3}) {
    auto plan = plan_of(8);
    plan.hosts = hosts;
    Fleet(plan).write(folder.path());
    const auto files = read_results(std::vector<std::filesystem::path>{folder.path()});
    ASSERT_EQ(files.size(), 9u);
    for (const auto& file : files) {
      EXPECT_EQ(file.context.world_size, 8 * hosts);
      EXPECT_EQ(file.context.inventory.size(), static_cast<std::size_t>(hosts));
      for (const auto& row : file.rows) {
        for (const auto& [name, values] : row.by_rank) EXPECT_EQ(values.size(), 8u * static_cast<std::size_t>(hosts));
      }
    }
  }
}

TEST(Fleet, HasAllPairsAndShiftsOfEightGpusOnEveryHost) {
  auto plan = plan_of(8);
  plan.hosts = 2;
  const auto p2p = rows(plan, "p2p");
  EXPECT_EQ(p2p.size(), 3 * 56 + 3 * 7 + 28u);
  const auto& pair = p2p.at("p2p/op:read/engine:ce/src:7/dst:2/bytes:1073741824")["by_rank"]["copy_gb_per_s"];
  for (std::size_t r = 0; r < 16; ++r) EXPECT_EQ(pair[r].is_number(), r % 8 == 2) << r;
  EXPECT_EQ(rows(plan, "pcie").size(), 3 + 2 * 8u);
}

TEST(Fleet, AgreesWithItself) {
  for (const auto* noise : {"calm", "hiccups", "real", "stored"}) {
    auto plan = plan_of(8, {}, noise);
    plan.hosts = 2;
    for (const auto& [key, row] : rows(plan, "gemm")) {
      if (!row.contains("by_rank")) continue;
      const auto& by_rank = row["by_rank"];
      for (std::size_t r = 0; r < 16; ++r) {
        const double tflops = by_rank["tflops"][r], per_ghz = by_rank["tflops_per_ghz"][r], mhz = by_rank["sm_mhz"][r];
        EXPECT_NEAR(tflops / (per_ghz * mhz / 1000), 1, 0.02) << key;  // stored: 0.5 to 1.7 %
        EXPECT_NEAR(tflops * by_rank["seconds"][r].get<double>() /
                        (by_rank["tflops"][0].get<double>() * by_rank["seconds"][0].get<double>()),
                    1, 1e-6);
      }
      EXPECT_NEAR(row["tflops"].get<double>() / smallest(by_rank["tflops"]), 1, 0.003) << key;
    }
    for (const auto* family : {"allreduce", "collectives"}) {
      for (const auto& [key, row] : rows(plan, family)) {
        const double seconds = row["latency_us"].get<double>() * 1e-6;
        EXPECT_NEAR(seconds / greatest(row["by_rank"]["seconds"]), 1, 0.02) << key;
        EXPECT_LE(row["busbw_gb_per_s"].get<double>(), smallest(row["by_rank"]["busbw_gb_per_s"]) * 1.000001) << key;
        EXPECT_NEAR(row["bytes_per_second"].get<double>() * row["real_time"].get<double>() * 1e-6 /
                        (row["algbw_gb_per_s"].get<double>() * 1e9 * seconds),
                    1, 1e-6)
            << key;
      }
    }
    const auto step = rows(plan, "lora_step").begin()->second;
    EXPECT_NEAR(step["tokens_per_s"].get<double>() * step["step_ms"].get<double>() / 1000, 2 * 4096, 0.01);
    EXPECT_NEAR(step["tokens_per_s_total"].get<double>(), 16 * step["tokens_per_s"].get<double>(), 0.1);
    EXPECT_GT(step["step_ms"].get<double>(), greatest(step["by_rank"]["compute_ms"]));
  }
}

TEST(Fleet, IsNeverFasterThanCanBe) {
  for (const auto* noise : {"hiccups", "stored"}) {
    auto plan = plan_of(8, {}, noise);
    plan.hosts = 4;
    for (plan.seed = 1; plan.seed <= 2; ++plan.seed) {
      for (const auto& [key, row] : rows(plan, "p2p")) {
        if (!row["by_rank"].contains("copy_gb_per_s")) continue;
        const double ways = key.find("dir:both") == std::string::npos ? 1 : 2;
        EXPECT_LE(greatest(row["by_rank"]["copy_gb_per_s"]), 396.9 * ways) << key;
        EXPECT_LE(row["copy_gb_per_s"].get<double>(), 396.9 * ways) << key;
      }
      for (const auto& [key, row] : rows(plan, "gemm")) {
        if (!row.contains("by_rank")) continue;
        EXPECT_LE(greatest(row["by_rank"]["sm_mhz"]), 1980) << key;
        if (key.find("bf16") == std::string::npos) continue;
        EXPECT_LE(greatest(row["by_rank"]["tflops_per_ghz"]), 540.7) << key;
      }
      for (const auto& [key, row] : rows(plan, "hbm")) EXPECT_LE(greatest(row["by_rank"]["hbm_gb_per_s"]), 4800) << key;
      for (const auto& [key, row] : rows(plan, "pcie")) {
        const double ways = key.find("op:both") == std::string::npos ? 1 : 2;
        EXPECT_LE(greatest(row["by_rank"]["copy_gb_per_s"]), 55.6 * ways) << key;
      }
    }
  }
}

TEST(Fleet, SpreadsAsItsDescriptionSays) {
  const auto spread = [](const std::string& noise) {
    auto plan = plan_of(8, {}, noise);
    plan.hosts = 128;
    double sum = 0, squares = 0;
    const auto row = rows(plan, "gemm").at(bf16);
    for (const double tflops : row["by_rank"]["tflops"]) {
      sum += std::log(tflops);
      squares += std::log(tflops) * std::log(tflops);
    }
    return std::sqrt(squares / 1024 - sum * sum / 1024 / 1024);
  };
  EXPECT_NEAR(spread("calm"), 0.022, 0.002);
  EXPECT_NEAR(spread("chips-3"), 0.030, 0.003);
  EXPECT_GT(spread("heavy-tails"), 0.023);
}

/// By how much each rank's figure of a row changed by a fault.
std::vector<double> changes(const std::string& family, const std::string& key, const std::string& metric,
                            const std::vector<std::string>& faults) {
  const auto before = rows(plan_of(), family).at(key)["by_rank"][metric];
  const auto after = rows(plan_of(8, faults), family).at(key)["by_rank"][metric];
  std::vector<double> result;
  for (std::size_t r = 0; r < before.size(); ++r) {
    result.push_back(before[r].is_number() ? after[r].get<double>() / before[r].get<double>() : 1);
  }
  return result;
}

void expect_only(std::size_t rank, double factor, const std::vector<double>& changed) {
  for (std::size_t r = 0; r < changed.size(); ++r) EXPECT_NEAR(changed[r], r == rank ? factor : 1, 1e-6) << r;
}

TEST(Fault, InGemmSlowsThatGpuThereAndTheStepOfAll) {
  const std::vector<std::string> fault{"gpu:rank=3,percent=20,in=gemm"};
  expect_only(3, 0.80, changes("gemm", bf16, "tflops", fault));
  expect_only(3, 1, changes("gemm", bf16, "sm_mhz", fault));
  EXPECT_EQ(text(plan_of(8, fault), "hbm"), text(plan_of(), "hbm"));
  EXPECT_EQ(text(plan_of(8, fault), "p2p"), text(plan_of(), "p2p"));
  EXPECT_EQ(text(plan_of(8, fault), "allreduce"), text(plan_of(), "allreduce"));
  for (const double change : changes("lora_step", "lora_step/model:qwen2_7b/batch:2/seq:4096", "tokens_per_s", fault)) {
    EXPECT_LT(change, 0.95);
  }
}

TEST(Fault, OfOneTypeOrOneDirectionLeavesTheOthersAlone) {
  const std::string fp8 = "gemm/dtype:fp8_e4m3/m:8192/n:8192/k:8192";
  expect_only(2, 0.9, changes("gemm", fp8, "tflops", {"gpu:rank=2,percent=10,in=gemm/dtype:fp8"}));
  expect_only(2, 1, changes("gemm", bf16, "tflops", {"gpu:rank=2,percent=10,in=gemm/dtype:fp8"}));
  const std::string of = "/engine:sm/bytes:4294967296";
  expect_only(2, 0.9, changes("hbm", "hbm/op:read" + of, "hbm_gb_per_s", {"gpu:rank=2,percent=10,in=hbm/op:read"}));
  expect_only(2, 1, changes("hbm", "hbm/op:copy" + of, "hbm_gb_per_s", {"gpu:rank=2,percent=10,in=hbm/op:read"}));
}

TEST(Fault, OfAGpuInEverythingSlowsTheCollectivesOfAll) {
  for (const double change :
       changes("allreduce", "allreduce/dtype:f32/bytes:1073741824", "busbw_gb_per_s", {"gpu:rank=3,percent=5"})) {
    EXPECT_NEAR(change, 0.95, 1e-6);
  }
}

TEST(Fault, OfALinkIsInOneWayOfOnePairAndItsShift) {
  const std::vector<std::string> fault{"link:src=2,dst=5,fraction=0.5"};
  const std::string of = "p2p/op:read/engine:ce/", by = "/bytes:1073741824";
  expect_only(5, 0.5, changes("p2p", of + "src:2/dst:5" + by, "copy_gb_per_s", fault));
  expect_only(2, 1, changes("p2p", of + "src:5/dst:2" + by, "copy_gb_per_s", fault));
  expect_only(5, 0.5, changes("p2p", "p2p/op:write/engine:ce/dir:both/src:2/dst:5" + by, "copy_gb_per_s", fault));
  expect_only(5, 0.5, changes("p2p", "p2p/op:write/engine:ce/shift:3" + by, "copy_gb_per_s", fault));
  expect_only(5, 1, changes("p2p", "p2p/op:write/engine:ce/shift:2" + by, "copy_gb_per_s", fault));
}

TEST(Fault, OfAllPortsIsInEveryPairOfTheGpuAndInCollectives) {
  const std::vector<std::string> fault{"ports:rank=1,fraction=0.5,seen=1"};
  const std::string of = "p2p/op:write/engine:ce/", by = "/bytes:1073741824";
  expect_only(1, 0.5, changes("p2p", of + "src:4/dst:1" + by, "copy_gb_per_s", fault));
  expect_only(4, 0.5, changes("p2p", of + "src:1/dst:4" + by, "copy_gb_per_s", fault));
  expect_only(4, 1, changes("p2p", of + "src:3/dst:4" + by, "copy_gb_per_s", fault));
  const auto shift = changes("p2p", of + "shift:1" + by, "copy_gb_per_s", fault);
  for (std::size_t r = 0; r < 8; ++r) EXPECT_NEAR(shift[r], r == 1 || r == 2 ? 0.5 : 1, 1e-6) << r;
  const auto reduced = changes("allreduce", "allreduce/dtype:f32/bytes:8589934592", "busbw_gb_per_s", fault);
  for (const double change : reduced) EXPECT_NEAR(change, 0.5, 0.01);
  expect_only(1, 0.5, changes("preflight", "preflight/of:nvlink", "nvlinks_up", fault));
}

TEST(Fault, OfPcieHalvesOneDirection) {
  const std::string by = "/bytes:268435456";
  const auto one = changes("pcie", "pcie/op:h2d/active:one/rank:6" + by, "copy_gb_per_s", {"pcie:rank=6,seen=1"});
  EXPECT_NEAR(one[6], 0.5, 0.001);
  expect_only(6, 1, changes("pcie", "pcie/op:h2d/active:one/rank:5" + by, "copy_gb_per_s", {"pcie:rank=6"}));
  expect_only(6, 0.5, changes("preflight", "preflight/of:gpu", "pcie_width", {"pcie:rank=6,seen=1"}));
}

TEST(Fault, HeatLowersTheClockAndTheDriverSaysWhyAndAnotherFaultDoesNot) {
  const auto hot = rows(plan_of(8, {"heat:rank=4,percent=12"}), "gemm").at(bf16);
  for (const auto& [reason, parts] : hot["throttle"].items()) {
    EXPECT_EQ(parts[4], reason == "sw_power_cap" ? 0 : 1) << reason;
    EXPECT_EQ(parts[3], reason == "sw_power_cap" ? 1 : 0) << reason;
  }
  EXPECT_EQ(hot["throttle"].size(), 3u);
  EXPECT_GE(hot["by_rank"]["temperature_c"][4].get<double>(), 86);
  EXPECT_NEAR(hot["by_rank"]["sm_mhz"][4].get<double>(), 1609 * 0.88, 10);
  const auto slow = rows(plan_of(8, {"clock:rank=4,percent=12"}), "gemm").at(bf16);
  EXPECT_EQ(slow["throttle"]["sw_power_cap"][4], 0);
  EXPECT_EQ(slow["by_rank"]["throttled"][4], 0);
  EXPECT_EQ(slow["by_rank"]["tflops"][4], hot["by_rank"]["tflops"][4]);
}

TEST(Fault, OfALateRankIsInItsArrivalAndInTheTimesOfTheOthers) {
  const std::string key = "allreduce/dtype:f32/bytes:8/timing:single";
  const auto before = rows(plan_of(), "allreduce").at(key),
             after = rows(plan_of(8, {"late:rank=5,us=100"}), "allreduce").at(key);
  for (std::size_t r = 0; r < 8; ++r) {
    const auto grown = [&](const char* metric) {
      return after["by_rank"][metric][r].get<double>() - before["by_rank"][metric][r].get<double>();
    };
    EXPECT_NEAR(grown("arrival_us"), r == 5 ? 100 : 0, 1e-4) << r;
    EXPECT_NEAR(grown("seconds") * 1e6, r == 5 ? 0 : 100, 1e-3) << r;
  }
  EXPECT_NE(after["label"].get<std::string>().find("last to arrive: rank 5 "), std::string::npos);
}

TEST(Fault, OfDataIsAnErrorRowThatNamesTheRank) {
  const auto made = rows(plan_of(8, {"data:rank=3", "data:rank=6", "errors:rank=2,what=xid_79"}), "gemm");
  const auto message = made.at(bf16)["error_message"].get<std::string>();
  EXPECT_EQ(message.find("wrong data: rank 3 ("), 0u);
  EXPECT_NE(message.find("; also wrong: rank 6 ("), std::string::npos);
  EXPECT_EQ(made.at(bf16)["wrong_ranks"], Json({3, 6}));
  EXPECT_FALSE(made.at("gemm/dtype:f16/m:8192/n:8192/k:8192").contains("error_occurred"));
  EXPECT_EQ(rows(plan_of(8, {"errors:rank=2,what=xid_79"}), "gemm").at(bf16)["errors"]["xid_79"][2], 1);
}

TEST(Fault, OfAMissingGpuLeavesSevenAndTheOthersAsTheyWere) {
  const auto facts = [](const std::string& fault) {
    return Json::parse(text(plan_of(8, {fault}), "hbm"))["context"]["shakedown"];
  };
  EXPECT_EQ(facts("missing:host=0")["world"]["size"], 7);
  EXPECT_EQ(facts("missing:host=0")["inventory"][0]["pci_gpus"], 7);
  EXPECT_EQ(facts("absent:host=0")["inventory"][0]["pci_gpus"], 8);
  const auto all = Json::parse(text(plan_of(), "hbm"))["context"]["shakedown"]["ranks"];
  EXPECT_EQ(facts("missing:host=0")["ranks"][6]["uuid"], all[7]["uuid"]);
}

TEST(Fault, IsRefusedWhereItSaysTooLittleTooMuchOrNowhere) {
  for (const auto* bad : {"gpu:rank=3", "gpu:rank=3,percent=5,colour=red", "gpu:rank=x,percent=5", "gnu:rank=3",
                          "ports:rank=1,fraction=2", "gpu:rank=3,percent=99"}) {
    EXPECT_THROW(parse_fault(bad), std::runtime_error) << bad;
  }
  EXPECT_THROW(Fleet(plan_of(8, {"gpu:rank=8,percent=5"})), std::runtime_error);
  EXPECT_THROW(Fleet(plan_of(8, {"host:host=1,percent=5"})), std::runtime_error);
}

TEST(NoiseFile, IsRefusedWithItsLineWhereAKeyIsUnknownOrAValueCannotBe) {
  const testing_support::Folder folder;
  for (const auto* bad :
       {"tails: {row: 3}\nkind: {clock: {chip: 0.1}}\n", "kinds: {\n  klock: {chip: 0.1}}\n",
        "kinds:\n  clock: {chips: 0.1}\n", "resample: 1\nhiccups: {odds: 2, slower: 0.1}\n",
        "resample: 1\ngroups: [{of: planet, part: 1, kind: clock, factor: 1}]\n", "resample: 1\nresample: 1\n"}) {
    try {
      read_noise(folder.write("bad.yaml", bad));
      FAIL() << bad;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find("bad.yaml:2: "), std::string::npos) << error.what();
    }
  }
}

TEST(NoiseFile, OfEveryShippedNameIsRead) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root / "tests/fleet/noise")) {
    EXPECT_NO_THROW(read_noise(entry.path())) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 8);
}

}  // namespace
}  // namespace shakedown::fleet
