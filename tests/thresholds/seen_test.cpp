// Tests `seen` of the profiles against the stored runs, and readable names of measurements.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/catalogue/key_names.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/rules/applicability.hpp"

namespace shakedown::seen_test {
namespace {

namespace fs = std::filesystem;
const fs::path source = SHAKEDOWN_SOURCE_DIR;

/// The values of a figure in stored runs, and the GPUs in them.
struct Stored {
  std::vector<double> values;
  std::set<std::string> gpus;

  std::string text() const {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return text_of({values.empty() ? 0 : *low, values.empty() ? 0 : *high, static_cast<int>(gpus.size())});
  }
  static std::string text_of(const Seen& seen) {
    return "seen: {low: " + number_text(seen.low) + ", high: " + number_text(seen.high) +
           ", gpus: " + std::to_string(seen.gpus) + "}";
  }
};

void add(Stored& stored, const Rule& rule, const Key& key, const Benchmark& benchmark) {
  const Context& context = *benchmark.context;
  const auto ranks = required_ranks(key, context);
  if (rule.every == Every::run) stored.values.push_back(run_value(benchmark, rule.metric).value());
  for (const int rank : ranks) {
    const auto place = static_cast<std::size_t>(rank);
    stored.gpus.insert(context.ranks[place].uuid.value());
    if (rule.every == Every::rank) stored.values.push_back(rank_values(benchmark, rule.metric).at(place).value());
  }
}

std::vector<fs::path> launches(const std::string& profile) {
  std::vector<fs::path> folders;
  for (const auto& ranks : fs::directory_iterator(source / "ci/baselines" / profile)) {
    for (const auto& launch : fs::directory_iterator(ranks.path())) folders.push_back(launch.path());
  }
  return folders;
}

TEST(Profiles, SayWhatStoredRunsHave) {
  std::size_t figures = 0;
  for (const Profile& profile : load_profiles(source / "thresholds")) {
    std::map<const Rule*, Stored> stored;
    for (const Rule& rule : profile.rules) {
      if (rule.seen) stored[&rule];
    }
    if (stored.empty()) continue;
    for (const fs::path& folder : launches(profile.name)) {
      const Measured measured(read_results(std::vector{folder}));
      const Context& context = measured.files.front().context;
      for (auto& [rule, values] : stored) {
        if (applicability(rule->conditions, context).applies != Applies::yes) continue;
        for (const Key& key : expand(*rule, context).keys) {
          const auto found = measured.benchmarks.find(key);
          if (found != measured.benchmarks.end() && found->second.waiver() == nullptr) {
            add(values, *rule, key, found->second);
          }
        }
      }
    }
    for (const auto& [rule, values] : stored) {
      EXPECT_EQ(Stored::text_of(*rule->seen), values.text()) << rule->at << ": write this";
      ++figures;
    }
  }
  EXPECT_GE(figures, 10u);
}

TEST(Profiles, SayItOfOneRowOfAFamilyInEachRun) {
  const auto profiles = load_profiles(source / "thresholds");
  for (const char* const launch : {"1ranks/1", "1ranks_full/1", "2ranks/1", "4ranks/1"}) {
    const auto verdict = judge(read_results(std::vector{source / "ci/baselines/h200-sxm" / launch}), profiles, {});
    std::map<std::string, std::set<std::string>> rules;
    for (const Finding& finding : verdict.findings) {
      if (finding.seen) rules[finding.key.family()].insert(finding.rule_at);
    }
    EXPECT_GE(rules.size(), 4u) << launch;
    for (const auto& [family, at] : rules) EXPECT_EQ(at.size(), 1u) << launch << " " << family;
  }
}

TEST(Seen, IsRefusedWhereItCannotBe) {
  const auto refusal = [](const std::string& seen) {
    const testing_support::Folder folder;
    const auto file = folder.write(
        "x.yaml",
        "schema: 2\nprofile: x\nmatch: {backend: host}\nrules:\n"
        "  - {benchmark: \"gemm/dtype:f32/m:1/n:1/k:1\", metric: tflops, every: rank, min: 5, source: s, seen: {" +
            seen + "}}\n");
    try {
      load_profiles(file);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal("low: 5, high: 5, gpus: 1"), "");
  EXPECT_NE(refusal("low: 6, high: 5, gpus: 1").find("low <= high"), std::string::npos);
  EXPECT_NE(refusal("low: 6, high: 7, gpus: 0").find("gpus >= 1"), std::string::npos);
  EXPECT_NE(refusal("low: 4.9, high: 7, gpus: 2").find("beyond the limit"), std::string::npos);
  EXPECT_NE(refusal("low: 6, high: 7").find("without \"gpus\""), std::string::npos);
}

TEST(Names, AreForPeople) {
  const std::vector<std::pair<const char*, const char*>> names{
      {"hbm/op:read/engine:sm/bytes:4294967296", "HBM read by kernel, 4 GiB"},
      {"gemm/dtype:bf16/m:8192/n:37888/k:3584/load:sustained", "GEMM bf16, 8192 x 37888 x 3584, sustained"},
      {"allreduce/dtype:f32/bytes:1048576000/place:in", "AllReduce f32, 1000 MiB, in place"},
      {"collectives/op:all_gather/dtype:f32/bytes:8", "collective AllGather f32, 8 B"},
      {"p2p/op:write/engine:ce/dir:both/src:0/dst:3/bytes:1024",
       "GPU to GPU write by copy engine, both ways, from GPU 0, to GPU 3, 1 KiB"},
      {"pcie/op:h2d/active:one/rank:1/bytes:268435456", "PCIe host to GPU, alone, rank 1, 256 MiB"},
      {"memtest/pattern:random/bytes:free", "memory test random, all free memory"},
      {"lora_step/model:qwen2_7b/batch:2/seq:4096/retain:inputs",
       "LoRA step qwen2_7b, batch 2, 4096 tokens, retain inputs"},
      {"preflight/of:gpu", "pre-flight gpu"},
      {"mine/x:1", "mine, x 1"},
      {"machine/ranks", "machine, ranks"},
      {"gemm", "GEMM"},
  };
  for (const auto& [key, name] : names) EXPECT_EQ(readable(Key(key)), name);
}

TEST(Names, TellTheRowsOfAStoredRunApart) {
  for (const char* const launch : {"1ranks_full/1", "4ranks/1"}) {
    std::map<std::string, std::string> keys;
    const Measured measured(read_results(std::vector{source / "ci/baselines/h200-sxm" / launch}));
    for (const auto& [key, benchmark] : measured.benchmarks) {
      const auto [other, is_first] = keys.emplace(readable(key), key.text());
      EXPECT_TRUE(is_first) << key << " and " << other->second << " are both " << other->first;
    }
  }
}

}  // namespace
}  // namespace shakedown::seen_test
