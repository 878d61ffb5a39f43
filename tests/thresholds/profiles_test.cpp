// Tests the shipped profiles: they load, and they judge every family of the benchmarks on every usual machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown::profiles_test {
namespace {

using testing_support::ResultsBuilder;
using testing_support::Values;

/// Parsed once; excused() has a copy.
const std::vector<Profile>& shipped() {
  static const auto profiles = load_profiles(SHAKEDOWN_SOURCE_DIR "/thresholds");
  return profiles;
}

std::string gemm_key(const std::string& dtype, int n) {
  const std::string size = std::to_string(n);
  return "gemm/dtype:" + dtype + "/m:" + size + "/n:" + size + "/k:" + size;
}

int largest_host(const ResultsBuilder& builder) {
  std::map<std::string, int> ranks_of_host;
  for (const RankFacts& rank : builder.context.ranks) ++ranks_of_host[rank.host];
  int largest = 0;
  for (const auto& [host, count] : ranks_of_host) largest = std::max(largest, count);
  return largest;
}

/// Sets a value at the rank with this local index of each host.
Values of_local(const ResultsBuilder& builder, int local, double value) {
  Values values(builder.context.ranks.size());
  for (const RankFacts& rank : builder.context.ranks) {
    if (rank.local_rank == local) values[static_cast<std::size_t>(rank.rank)] = value;
  }
  return values;
}

/// Adds facts of pre-flight that meet the rules of a profile on this machine, without a shared folder.
void add_preflight(ResultsBuilder& builder, const std::string& profile_name) {
  std::map<std::string, ByRank> numbers;
  std::map<std::string, TextByRank> texts;
  const auto ranks = builder.context.ranks.size();
  for (const Profile& profile : shipped()) {
    if (profile.name != profile_name) continue;
    for (const Rule& rule : profile.rules) {
      const auto& [benchmark, metric, limits] = std::tie(rule.benchmark, rule.metric, rule.limits);
      if (family_of(benchmark) != "preflight") continue;
      if (!limits.equals_text.empty() || limits.at_least) {
        texts[benchmark][metric].assign(ranks, limits.at_least ? *limits.at_least : limits.equals_text.front());
      } else if (limits.same) {
        texts[benchmark].emplace(metric, TextByRank::mapped_type(ranks, "same"));
      } else {
        numbers[benchmark][metric].assign(ranks, limits.equals ? *limits.equals
                                                 : limits.min  ? *limits.min
                                                               : *limits.max);
      }
    }
  }
  for (const char* unasked : {"preflight/of:folder", "preflight/of:dcgm", "preflight/of:dcgm_gpu"})
    numbers.erase(unasked);
  for (const auto& [key, facts] : numbers) builder.add_facts(key, facts, texts[key]);
  for (const auto& [key, facts] : texts) {
    if (!numbers.contains(key)) builder.add_facts(key, {}, facts);
  }
  builder.add_waiver("preflight/of:folder", "no folder was named (--shared-folder=DIR)");
}

/// Adds a value for each pair at its destination; `front` is the key up to the pair. Both directions: each pair once,
/// at both ends.
void add_pairs(ResultsBuilder& builder, const std::string& front, const std::string& bytes, const std::string& metric,
               double value) {
  const int largest = largest_host(builder);
  const auto key = [&](int src, int dst) {
    return front + "/src:" + std::to_string(src) + "/dst:" + std::to_string(dst) + "/bytes:" + bytes;
  };
  if (largest < 2) builder.add_waiver(key(0, 1), "one rank on this host");
  const bool both = front.find("dir:both") != std::string::npos;
  for (int src = 0; src < largest; ++src) {
    for (int dst = both ? src + 1 : 0; dst < largest; ++dst) {
      if (src == dst) continue;
      Values values = of_local(builder, dst, value);
      const Values at_source = both ? of_local(builder, src, value) : Values{};
      for (std::size_t rank = 0; rank < at_source.size(); ++rank) {
        if (at_source[rank]) values[rank] = value;
      }
      builder.add(key(src, dst), metric, value, values);
    }
  }
}

/// Adds two rounds of pairs: each host with the next one, and with the previous one.
void add_rounds(ResultsBuilder& builder, double rate) {
  std::map<std::string, int> hosts;
  std::map<std::pair<int, int>, int> at;  // host, rail
  for (const RankFacts& rank : builder.context.ranks) {
    const auto host = hosts.emplace(rank.host, static_cast<int>(hosts.size())).first->second;
    at[{host, rank.local_rank}] = rank.rank;
  }
  const int count = builder.context.hosts;
  for (int round = 0; round < 2 && count > 1; ++round) {
    Values partners(at.size()), rates(at.size());
    for (const auto& [place, rank] : at) {
      const auto& [host, rail] = place;
      const auto other = at.find({(host + ((host + round) % 2 == 0 ? 1 : count - 1)) % count, rail});
      if (other == at.end()) continue;
      partners[static_cast<std::size_t>(rank)] = other->second;
      rates[static_cast<std::size_t>(rank)] = rate;
    }
    const auto key = "pairs/op:sendrecv/scope:any/round:" + std::to_string(round) + "/bytes:8388608";
    builder.add(key, "busbw_gb_per_s", rate, rates).by_rank("partner", partners);
  }
}

void add_shifts(ResultsBuilder& builder, const std::string& front, const std::string& bytes, double value,
                const std::string& metric = "copy_gb_per_s") {
  const int last = builder.context.backend == Backend::host ? 1 : largest_host(builder) - 1;
  if (largest_host(builder) < 2) builder.add_waiver(front + "/shift:1/bytes:" + bytes, "one rank on this host");
  for (int shift = 1; shift <= last && largest_host(builder) > 1; ++shift) {
    builder.add(front + "/shift:" + std::to_string(shift) + "/bytes:" + bytes, metric, value);
  }
}

void add_peer_copies(ResultsBuilder& builder, const std::string& engine, const std::string& bytes, double gb_per_s) {
  const auto front = [&](const char* op) { return "p2p/op:" + std::string(op) + "/engine:" + engine; };
  for (const char* op : {"read", "write"}) add_pairs(builder, front(op), bytes, "copy_gb_per_s", gb_per_s);
  add_pairs(builder, front("write") + "/dir:both", bytes, "copy_gb_per_s", 1.98 * gb_per_s);
  add_shifts(builder, front("write"), bytes, gb_per_s);
}

void add_allreduce(ResultsBuilder& builder, const std::string& dtype, const std::set<std::uint64_t>& sizes,
                   double gb_per_s) {
  for (const auto bytes : sizes) {
    const std::string key = "allreduce/dtype:" + dtype + "/bytes:" + std::to_string(bytes);
    if (builder.context.world_size == 1) {
      builder.add(key, "latency_us", 5);
    } else {
      builder.add(key, "latency_us", 8, {}, {{"busbw_gb_per_s", gb_per_s}});
    }
  }
}

std::set<std::uint64_t> sweep(std::uint64_t largest, std::set<std::uint64_t> sizes) {
  for (std::uint64_t bytes = 8; bytes <= largest; bytes *= 4) sizes.insert(bytes);
  return sizes;
}

/// `variant` is the end of the key: "/place:in".
void add_variant(ResultsBuilder& builder, const std::string& bytes, const std::string& variant, double gb_per_s) {
  const std::map<std::string, double> busbw{{"busbw_gb_per_s", gb_per_s}};
  builder.add("allreduce/dtype:f32/bytes:" + bytes + variant, "latency_us", 5.5, {},
              builder.context.world_size > 1 ? busbw : std::map<std::string, double>{});
}

void add_collectives(ResultsBuilder& builder, const std::set<std::uint64_t>& sizes, double gb_per_s) {
  for (const char* op : {"all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "sendrecv"}) {
    for (const auto bytes : sizes) {
      const std::string key = "collectives/op:" + std::string(op) + "/dtype:f32/bytes:" + std::to_string(bytes);
      const std::map<std::string, double> busbw{{"busbw_gb_per_s", gb_per_s}};
      builder.add(key, "latency_us", 6, {}, builder.context.world_size > 1 ? busbw : std::map<std::string, double>{});
    }
  }
}

// Adds the rows of bench_gemm in the full tier that have a rule.
void add_full_gemm(ResultsBuilder& builder) {
  for (const int n : {4096, 16384}) {
    builder.add(gemm_key("f16", n), "tflops", 690);
    builder.add(gemm_key("tf32", n), "tflops", 390);
    builder.add(gemm_key("f32", n), "tflops", 51);
    builder.add(gemm_key("fp8_e4m3", n), "tflops", 1300);
  }
  const std::string common = gemm_key("bf16", 8192);
  builder.add(common + "/load:sustained", "tflops", 660);
  builder.by_rank("tflops_per_ghz", Values(builder.context.ranks.size(), 480));
  for (int local = 0; largest_host(builder) > 1 && local < largest_host(builder); ++local) {
    builder.add(common + "/active:one/rank:" + std::to_string(local), "tflops", 665, of_local(builder, local, 665));
  }
}

// Adds the rows of bench_hbm, bench_memtest and bench_p2p in the full tier that have a rule.
void add_full_memory(ResultsBuilder& builder, double hbm, double capacity_gb) {
  const std::string large = "17179869184", gib = "1073741824";
  builder.add("hbm/op:scale/engine:sm/bytes:4294967296", "hbm_gb_per_s", hbm);
  for (const char* engine : {"sm", "ce"}) {
    builder.add("hbm/op:copy/engine:" + std::string(engine) + "/bytes:" + large, "hbm_gb_per_s", hbm);
  }
  for (const char* op : {"read", "write"}) {
    builder.add("hbm/op:" + std::string(op) + "/engine:sm/bytes:" + large, "hbm_gb_per_s", 1.08 * hbm);
    add_pairs(builder, "p2p/op:" + std::string(op) + "/engine:sm", gib, "copy_gb_per_s", 372);
  }
  for (const char* pattern : {"address", "complement", "alternating"}) {
    builder.add("memtest/pattern:" + std::string(pattern) + "/bytes:free", "hbm_gb_per_s", 0.8 * hbm)
        .by_rank("capacity_gb", Values(builder.context.ranks.size(), capacity_gb));
  }
  builder.add("memtest/pattern:moving/load:products/bytes:free", "loaded_gb_per_s", 0.5 * hbm)
      .by_rank("capacity_gb", Values(builder.context.ranks.size(), capacity_gb));
  add_pairs(builder, "p2p/op:read/engine:ce/dir:both", gib, "copy_gb_per_s", 780);
  add_shifts(builder, "p2p/op:read/engine:ce", gib, 394);
}

struct Step {
  const char* key;
  double tokens_per_s, compute_ms;
};

// Adds the rows of bench_train_step on H200 in the full tier.
std::vector<Step> steps_of_h200(int ranks) {
  std::vector<Step> steps{{"gpt2_124m/batch:32/seq:1024", 540900, 60.6},
                          {"gpt2_124m/batch:64/seq:1024", 567900, 115.4},
                          {"encoder_163m/batch:8/seq:512", 416100, 9.84}};
  if (ranks < 2) return steps;
  steps.push_back({"gpt2_124m/batch:32/seq:1024/data:rank", 533200, 61.1});
  steps.push_back({"gpt2_124m/batch:32/seq:1024/shard:optimizer", 528100, 59.9});
  steps.push_back({"gpt2_124m/batch:32/seq:1024/shard:weights", 529700, 62.9});
  steps.push_back({"qwen2_7b/batch:1/seq:4096/shard:weights", 10290, 355.9});
  return steps;
}

// Adds the rows of a GPU machine, good on H200 and H100, depending on `hbm`.
ResultsBuilder gpu_machine(const std::string& device, int ranks, bool nvls, double hbm, Tier tier = Tier::quick,
                           int hosts = 1) {
  ResultsBuilder builder(ranks, hosts, device);
  builder.context.tier = tier;
  builder.context.nccl.nvls = nvls ? "on" : "off";
  add_preflight(builder, device == "NVIDIA H200" ? "h200-sxm" : "h100-sxm");
  for (const int n : {4096, 8192, 16384}) builder.add(gemm_key("bf16", n), "tflops", 800);
  builder.add(gemm_key("f32", 8192), "tflops", 51);
  builder.add(gemm_key("f64", 8192), "tflops", 60);
  builder.add(gemm_key("f16", 8192), "tflops", 700);
  builder.add(gemm_key("tf32", 8192), "tflops", 400);
  builder.add(gemm_key("fp8_e4m3", 8192), "tflops", 1400);
  builder.add(gemm_key("int8", 8192), "tflops", 1400);
  for (const char* dtype : {"nvfp4", "mxfp8"})
    builder.add_waiver(gemm_key(dtype, 8192), "needs compute capability 10.0");
  for (const char* shape : {"n:4608/k:3584", "n:3584/k:3584", "n:37888/k:3584", "n:3584/k:18944"}) {
    builder.add("gemm/dtype:bf16/m:8192/" + std::string(shape), "tflops", 800);
  }
  if (tier == Tier::full) add_full_gemm(builder);
  for (const char* engine : {"sm", "ce"}) {
    for (const char* bytes : {"268435456", "1073741824", "4294967296"}) {
      builder.add("hbm/op:copy/engine:" + std::string(engine) + "/bytes:" + bytes, "hbm_gb_per_s", hbm);
    }
  }
  for (const char* op : {"read", "write", "triad"}) {
    builder.add("hbm/op:" + std::string(op) + "/engine:sm/bytes:4294967296", "hbm_gb_per_s", 1.08 * hbm);
  }
  builder.add("lora_step/model:qwen2_7b/batch:2/seq:4096", "tokens_per_s", 18000)
      .by_rank("tokens_per_s", Values(builder.context.ranks.size(), 18000))
      .by_rank("compute_ms", Values(builder.context.ranks.size(), 450));
  if (tier == Tier::full && device == "NVIDIA H200") {
    for (const auto& [key, tokens_per_s, compute_ms] : steps_of_h200(ranks)) {
      builder.add(std::string("train_step/model:") + key, "tokens_per_s", tokens_per_s)
          .by_rank("tokens_per_s", Values(builder.context.ranks.size(), tokens_per_s))
          .by_rank("compute_ms", Values(builder.context.ranks.size(), compute_ms));
    }
  }
  const double capacity_gb = device == "NVIDIA H200" ? 148 : 83;
  builder.add("memtest/pattern:random/bytes:free", "hbm_gb_per_s", 0.8 * hbm)
      .by_rank("capacity_gb", Values(builder.context.ranks.size(), capacity_gb));
  if (tier == Tier::full) add_full_memory(builder, hbm, capacity_gb);
  add_peer_copies(builder, "ce", "1073741824", 394);
  add_shifts(builder, "p2p/op:read/engine:sm", "1073741824", 337);
  add_shifts(builder, "p2p/op:write/engine:sm", "1073741824", 369);
  add_pairs(builder, "p2p/op:latency/engine:sm", "2097152", "latency_us", 0.83);
  for (int local = 0; local < largest_host(builder); ++local) {
    for (const char* op : {"h2d", "d2h"}) {
      const auto key = "pcie/op:" + std::string(op) + "/active:one/rank:" + std::to_string(local) + "/bytes:268435456";
      builder.add(key, "copy_gb_per_s", 55, of_local(builder, local, 55));
    }
  }
  constexpr std::uint64_t gib = 1u << 30;
  const double busbw = nvls && ranks > 2 ? 445 : 350;
  add_allreduce(builder, "f32", sweep(8 * gib, {1u << 20, 10u << 20, 1u << 24, 100u << 20, 1000u << 20, gib, 4 * gib}),
                busbw);
  for (const char* dtype : {"f16", "bf16"}) add_allreduce(builder, dtype, {8, 1u << 20, 1u << 27, gib}, busbw);
  for (const char* bytes : {"8", "1024", "65536"}) add_variant(builder, bytes, "/launch:graph", 0.001);
  add_variant(builder, "8", "/timing:single", 0.001);
  for (const char* bytes : {"8", "1048576", "134217728", "1073741824"}) add_variant(builder, bytes, "/place:in", busbw);
  std::set<std::uint64_t> sizes{8, 1u << 20, 1u << 27, gib};
  if (tier == Tier::full) sizes = sweep(8 * gib, {1u << 20, 1u << 24, 1u << 27, gib, 4 * gib});
  add_collectives(builder, sizes, 350);
  return builder;
}

ResultsBuilder host_machine(int ranks, int hosts) {
  auto builder = ResultsBuilder::host(ranks, hosts);
  builder.context.plan = current_plan;
  add_preflight(builder, "host");
  for (const char* dtype : {"f32", "f64"}) {
    builder.add(gemm_key(dtype, 1024), "tflops", 0.005);
  }
  builder.add("hbm/op:copy/engine:cpu/bytes:268435456", "hbm_gb_per_s", 2);
  for (const char* op : {"read", "write", "triad"}) {
    builder.add("hbm/op:" + std::string(op) + "/engine:cpu/bytes:67108864", "hbm_gb_per_s", 2);
  }
  for (const char* bytes : {"262144", "8388608", "268435456"}) {
    builder.add("hbm/op:latency/engine:cpu/bytes:" + std::string(bytes), "latency_ns", 100);
  }
  builder.add("jitter/op:fwq/quanta:100", "quantum_us", 130);
  builder.add_waiver("launch/op:kernel", "there is no GPU");
  builder.add("memtest/pattern:random/bytes:67108864", "hbm_gb_per_s", 2)
      .by_rank("capacity_gb", Values(builder.context.ranks.size(), 0.067));
  builder.add_waiver("pcie/op:h2d/bytes:268435456", "there is no GPU");
  builder.add("lora_step/model:tiny/dtype:f32/batch:2/seq:16", "tokens_per_s", 3000);
  builder.add("lora_step/model:tiny/dtype:f64/batch:1/seq:16/accumulation:2", "tokens_per_s", 3000);
  builder.add("train_step/model:gpt2_tiny/dtype:f32/batch:2/seq:16", "tokens_per_s", 3000);
  builder.add("train_step/model:gpt2_tiny/dtype:f64/batch:1/seq:16/accumulation:2", "tokens_per_s", 3000);
  builder.add("train_step/model:encoder_tiny/dtype:f32/batch:2/seq:16", "tokens_per_s", 3000);
  if (ranks > 1) builder.add("train_step/model:gpt2_tiny/dtype:f32/batch:2/seq:16/data:rank", "tokens_per_s", 3000);
  for (const char* shard : {"optimizer", "weights"}) {
    if (ranks < 2) continue;
    builder.add(std::string("train_step/model:gpt2_tiny/dtype:f32/batch:2/seq:16/shard:") + shard, "tokens_per_s",
                3000);
    builder.add(std::string("train_step/model:tiny/dtype:f64/batch:1/seq:16/shard:") + shard, "tokens_per_s", 3000);
  }
  for (const char* shard : {"", "/shard:weights"}) {
    if (*shard != 0 && ranks < 2) continue;
    for (const char* op : {"write", "read"}) {
      builder.add("checkpoint/op:" + std::string(op) + "/model:gpt2_tiny/dtype:f32" + shard, "checkpoint_gb_per_s",
                  0.01);
    }
  }
  add_peer_copies(builder, "cpu", "67108864", 0.5);
  add_shifts(builder, "p2p/op:read/engine:cpu", "67108864", 0.5);
  add_pairs(builder, "p2p/op:latency/engine:cpu", "2097152", "latency_us", 0.2);
  add_shifts(builder, "p2p/op:latency/engine:cpu", "2097152", 0.2, "latency_us");
  add_rounds(builder, 0.1);
  add_allreduce(builder, "f32", sweep(268435456, {268435456}), 0.1);
  add_allreduce(builder, "f64", {8, 1048576, 67108864}, 0.1);
  if (ranks > 1) add_variant(builder, "1048576", "/place:in", 0.1);
  add_variant(builder, "8", "/timing:single", 0.001);
  add_collectives(builder, {8, 65536, 4194304}, 0.1);
  return builder;
}

TEST(Profiles, RowsOfSeveralStandInAPartOnce) {
  std::map<std::string, std::string> file_of_row;
  for (const auto& entry : std::filesystem::directory_iterator(SHAKEDOWN_SOURCE_DIR "/thresholds")) {
    if (entry.path().extension() != ".yaml" || entry.path().stem() == "host") continue;
    std::ifstream lines(entry.path());
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("  - {")) continue;
      const auto [at, is_new] = file_of_row.emplace(line, entry.path().filename());
      EXPECT_TRUE(is_new) << entry.path() << " repeats a row of " << at->second << ": " << line;
    }
  }
  EXPECT_GT(file_of_row.size(), 300u);
}

TEST(ShippedProfiles, Load) {
  std::set<std::string> names;
  for (const Profile& profile : shipped()) names.insert(profile.name);
  for (const char* name : {"host", "h200-sxm", "h200-nvl", "h100-sxm", "h100-nvl", "h100-pcie", "h20", "gh200-96gb",
                           "gh200-144gb", "a100-sxm", "a100-sxm-40gb", "a100-pcie-40gb", "a100-pcie-80gb", "l40s",
                           "rtx-pro-6000-server", "b200", "b300", "gb200", "gb300"}) {
    EXPECT_EQ(names.count(name), 1u) << name;
  }
}

/// Published figures of a GPU on which this suite has not run; 0 = not published.
struct Published {
  std::string device, profile;
  double bf16, fp8, copy_hbm, capacity_gb;
  double f16, tf32, f32, f64, triad_hbm, peer, pcie;
  std::map<std::uint64_t, double> allreduce;  // busbw by size
  int gpus = 8;                               // of a host
  /// If the profile derives limits of what is not published, the rate of a step on a GPU that meets them.
  double derived_step = 0;
};

constexpr std::uint64_t mib = 1u << 20, gib = 1u << 30;

std::vector<Published> published() {
  return {{"NVIDIA A100-SXM4-80GB",
           "a100-sxm",
           261.2,
           0,
           1610,
           84,
           256.5,
           128.2,
           18.35,
           18.95,
           1700,
           276,
           25.9,
           {{16 * mib, 109.2}, {128 * mib, 174.2}, {gib, 228.1}, {4 * gib, 234.2}, {8 * gib, 235.0}}},
          {"NVIDIA B200",
           "b200",
           1550,
           3000,
           5430,
           178,
           0,
           0,
           0,
           0,
           0,
           690,
           50,
           {{16 * mib, 255}, {128 * mib, 568.4}, {512 * mib, 689}, {gib, 723.3}, {4 * gib, 740.6}, {8 * gib, 838}},
           8,
           30000},
          {"NVIDIA B300 SXM6 AC",
           "b300",
           1550,
           3000,
           6460,
           285,
           0,
           0,
           0,
           0,
           0,
           690,
           50,
           {{gib, 600}, {8 * gib, 600}},
           8,
           30000},
          {"NVIDIA GB200",
           "gb200",
           1550,
           2876.6,
           5430,
           184,
           0,
           0,
           0,
           0,
           0,
           0,
           193,
           {{16 * mib, 331.1}, {128 * mib, 574.2}, {512 * mib, 618.7}, {gib, 646.9}, {4 * gib, 673}, {8 * gib, 679.6}},
           4},
          {"NVIDIA GB300", "gb300", 1550, 3000, 6030, 285, 0, 0, 0, 0, 0, 0, 0, {}},
          {"NVIDIA H100 NVL", "h100-nvl", 454, 900, 2725, 93, 0, 0, 34.1, 0, 0, 200, 50, {}},
          {"NVIDIA H20", "h20", 129.1, 258, 2010, 95, 0, 0, 0, 0, 0, 350, 50, {}},
          {"NVIDIA A100-SXM4-40GB",
           "a100-sxm-40gb",
           265.9,
           0,
           1384,
           41,
           280.4,
           128.2,
           18.35,
           18.95,
           1398,
           276,
           25.9,
           {{16 * mib, 111.8}, {128 * mib, 202}, {gib, 229.9}, {4 * gib, 234.2}, {8 * gib, 235.0}}},
          {"NVIDIA A100-PCIE-40GB", "a100-pcie-40gb", 234.1, 0, 1293, 41, 241.5, 108.3, 17.56, 0, 0, 200, 25, {}},
          {"NVIDIA A100 80GB PCIe", "a100-pcie-80gb", 252.9, 0, 1495, 84, 0, 0, 17.95, 0, 0, 200, 25, {}},
          {"NVIDIA H100 PCIe", "h100-pcie", 495.9, 900, 1639, 84, 458, 240.4, 36.95, 0, 0, 200, 50, {}},
          {"NVIDIA H200 NVL", "h200-nvl", 811.6, 1200, 3991, 148, 0, 0, 42.96, 0, 0, 200, 50, {}},
          {"NVIDIA GH200 480GB", "gh200-96gb", 828.6, 1535, 2840, 100, 0, 0, 50, 0, 0, 200, 295.5, {}},
          {"NVIDIA GH200 120GB", "gh200-96gb", 828.6, 1535, 2840, 100, 0, 0, 50, 0, 0, 200, 295.5, {}},
          {"NVIDIA GH200 144G HBM3e", "gh200-144gb", 828.6, 1535, 3120, 148, 0, 0, 50.1, 0, 0, 200, 295.5, {}},
          {"NVIDIA L40S", "l40s", 252, 500, 700, 46, 264, 0, 46.88, 0, 0, 25, 25, {}},
          {"NVIDIA RTX PRO 6000 Blackwell Server Edition",
           "rtx-pro-6000-server",
           417.3,
           800,
           1480,
           100,
           312.8,
           205.2,
           79,
           0,
           0,
           50,
           50,
           {}}};
}

/// Adds the rows that profiles with derived limits judge in addition.
void add_derived(ResultsBuilder& builder, const Published& p) {
  add_shifts(builder, "p2p/op:read/engine:ce", "1073741824", p.peer);
  add_shifts(builder, "p2p/op:read/engine:sm", "1073741824", 0.85 * p.peer);
  add_shifts(builder, "p2p/op:write/engine:sm", "1073741824", 0.95 * p.peer);
  add_allreduce(builder, "f32", {8, 32768}, 1);
  if (builder.context.world_size == 1) add_collectives(builder, {128 * mib}, 0);
  builder.add("lora_step/model:qwen2_7b/batch:2/seq:4096", "tokens_per_s", p.derived_step)
      .by_rank("tokens_per_s", Values(builder.context.ranks.size(), p.derived_step))
      .by_rank("compute_ms", Values(builder.context.ranks.size(), 8192e3 / p.derived_step));
}

/// A machine with these figures. Rows without a published figure have some value.
ResultsBuilder machine_of(const Published& p, int ranks) {
  ResultsBuilder builder(ranks, 1, p.device);
  builder.context.nccl.nvls = p.profile.starts_with("a100") ? "off" : "on";
  add_preflight(builder, p.profile);
  const auto or_some = [](double value, double some) { return value > 0 ? value : some; };
  for (const int n : {8192, 16384}) builder.add(gemm_key("bf16", n), "tflops", p.bf16);
  builder.add(gemm_key("f16", 8192), "tflops", or_some(p.f16, p.bf16));
  builder.add(gemm_key("tf32", 8192), "tflops", or_some(p.tf32, p.bf16 / 2));
  builder.add(gemm_key("f32", 8192), "tflops", or_some(p.f32, 1));
  builder.add(gemm_key("f64", 8192), "tflops", or_some(p.f64, 1));
  if (p.profile == "gb200") builder.add(gemm_key("nvfp4", 8192), "tflops", 7535.6);
  if (p.fp8 > 0) {
    builder.add(gemm_key("fp8_e4m3", 8192), "tflops", p.fp8);
  } else {
    builder.add_waiver(gemm_key("fp8_e4m3", 8192), "needs compute capability 8.9");
  }
  for (const char* engine : {"sm", "ce"}) {
    for (const char* bytes : {"268435456", "1073741824", "4294967296"}) {
      builder.add("hbm/op:copy/engine:" + std::string(engine) + "/bytes:" + bytes, "hbm_gb_per_s", p.copy_hbm);
    }
  }
  builder.add("hbm/op:triad/engine:sm/bytes:4294967296", "hbm_gb_per_s", or_some(p.triad_hbm, p.copy_hbm));
  builder.add("memtest/pattern:random/bytes:free", "hbm_gb_per_s", p.copy_hbm)
      .by_rank("capacity_gb", Values(static_cast<std::size_t>(ranks), p.capacity_gb));
  add_peer_copies(builder, "ce", "1073741824", or_some(p.peer, 400));
  for (int rank = 0; rank < ranks; ++rank) {
    Values values(static_cast<std::size_t>(ranks));
    values[static_cast<std::size_t>(rank)] = or_some(p.pcie, 20);
    for (const char* op : {"h2d", "d2h"}) {
      builder.add("pcie/op:" + std::string(op) + "/active:one/rank:" + std::to_string(rank) + "/bytes:268435456",
                  "copy_gb_per_s", or_some(p.pcie, 20), values);
    }
  }
  auto sizes = p.allreduce;
  sizes[8 * gib] = or_some(sizes[8 * gib], 0.9 * or_some(p.peer, 400));
  for (const auto& [bytes, busbw] : sizes) add_allreduce(builder, "f32", {bytes}, busbw);
  add_collectives(builder, {8, gib}, p.derived_step > 0 ? 500 : 1);
  if (p.derived_step > 0) add_derived(builder, p);
  return builder;
}

/// As at a site that needs no judgement of rows without published figures.
std::vector<Profile> excused() {
  auto profiles = shipped();
  for (Profile& profile : profiles) profile.excused = profile.unjudged;
  return profiles;
}

TEST(ShippedProfiles, AcceptWhatIsPublishedOfOtherGpus) {
  for (const auto& gpu : published()) {
    const Measured measured{machine_of(gpu, gpu.gpus).results()};
    const Verdict verdict = judge(measured, excused(), {});
    EXPECT_EQ(verdict.profile, gpu.profile);
    EXPECT_EQ(verdict.exit_code, 0) << verdict_line(verdict);
    for (const Finding& finding : verdict.findings) {
      EXPECT_TRUE(finding.good()) << finding.key << " " << finding.metric << ": " << finding.detail;
    }
    // Copies are compared among ranks; joint operations of all ranks then have no reference.
    std::set<std::string> without;
    for (const Finding& finding : judge(measured, shipped(), {}).findings) {
      if (finding.status == Status::no_reference) without.insert(finding.key);
    }
    std::set<std::string> expected;
    if (gpu.derived_step == 0) expected.insert("collectives");
    if (gpu.allreduce.empty()) expected.insert("allreduce");
    EXPECT_EQ(without, expected) << gpu.profile;
  }
}

// No family of B200 and B300 is without a limit, and each limit that is not published says so.
TEST(ShippedProfiles, PassBlackwellBoardsByDerivedLimits) {
  for (const auto& gpu : published()) {
    if (gpu.derived_step == 0) continue;
    for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8}) {
      const Verdict verdict = judge({machine_of(gpu, ranks).results()}, shipped(), {});
      EXPECT_EQ(verdict.state, State::pass) << gpu.profile << ", " << ranks << ": " << verdict_line(verdict);
    }
    const std::set<std::string> derived{"p2p", "pcie", "collectives", "lora_step", "train_step"};
    for (const Profile& profile : shipped()) {
      if (profile.name != gpu.profile) continue;
      std::set<std::string> judged;
      for (const Rule& rule : profile.rules) {
        const std::string family(family_of(rule.benchmark));
        if (!derived.contains(family) && !(family == "allreduce" && gpu.profile == "b300")) continue;
        judged.insert(family);
        EXPECT_TRUE(rule.source.starts_with("derived, not measured: ")) << rule.benchmark.text() << ": " << rule.source;
      }
      EXPECT_EQ(judged.size(), derived.size() + (gpu.profile == "b300" ? 1 : 0)) << gpu.profile;
    }
  }
}

TEST(ShippedProfiles, FailBlackwellBoardsAtHalfOfTheDerivedLimits) {
  for (auto gpu : published()) {
    if (gpu.derived_step == 0) continue;
    gpu.peer /= 2;
    gpu.pcie /= 2;
    gpu.derived_step /= 2;
    std::set<std::string> families;
    for (const Finding& finding : judge({machine_of(gpu, gpu.gpus).results()}, shipped(), {}).findings) {
      if (finding.status == Status::fail) families.insert(family_of(finding.key));
    }
    EXPECT_EQ(families, (std::set<std::string>{"p2p", "pcie", "lora_step"})) << gpu.profile;
  }
}

TEST(ShippedProfiles, FailOtherGpusAtHalfOfWhatIsPublished) {
  for (auto gpu : published()) {
    gpu.bf16 /= 2;
    gpu.copy_hbm /= 2;
    gpu.capacity_gb /= 2;
    const Verdict verdict = judge({machine_of(gpu, gpu.gpus).results()}, shipped(), {});
    EXPECT_EQ(verdict.exit_code, 1) << gpu.device;
    std::set<std::string> families;
    for (const Finding& finding : verdict.findings) {
      if (finding.status == Status::fail) families.insert(family_of(finding.key));
    }
    EXPECT_EQ(families, (std::set<std::string>{"gemm", "hbm", "memtest"})) << gpu.device;
  }
}

TEST(ShippedProfiles, CallMoreThanTheDataSheetOfOtherGpusInvalid) {
  for (auto gpu : published()) {
    gpu.bf16 = 2700;
    EXPECT_EQ(judge({machine_of(gpu, gpu.gpus).results()}, shipped(), {}).exit_code, 1) << gpu.device;
  }
}

// Four A100: their AllReduce rate is not published.
TEST(ShippedProfiles, HaveNoReferenceForAnAllReduceThatNobodyPublished) {
  const Verdict verdict = judge({machine_of(published().front(), 4).results()}, shipped(), {});
  EXPECT_EQ(verdict.exit_code, 3) << verdict_line(verdict);
  EXPECT_EQ(verdict.state, State::no_reference);
}

TEST(ShippedProfiles, NeedNoReferenceForAnAllReduceOfOneRank) {
  const Verdict verdict = judge({machine_of(published().front(), 1).results()}, shipped(), {});
  for (const Finding& finding : verdict.findings) {
    EXPECT_FALSE(finding.status == Status::no_reference && family_of(finding.key) == "allreduce") << finding.detail;
  }
}

TEST(ShippedProfiles, JudgeEveryFamilyOfAGpuMachine) {
  for (const auto& [device, name, hbm] :
       {std::tuple{"NVIDIA H200", "h200-sxm", 4100.0}, std::tuple{"NVIDIA H100 80GB HBM3", "h100-sxm", 3100.0}}) {
    for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8}) {
      for (const auto& [nvls, tier] : {std::pair{false, Tier::quick}, {true, Tier::quick}, {false, Tier::full}}) {
        const Verdict verdict = judge({gpu_machine(device, ranks, nvls, hbm, tier).results()}, excused(), {});
        EXPECT_EQ(verdict.profile, name);
        EXPECT_EQ(verdict.exit_code, 0) << verdict_line(verdict) << (nvls ? ", NVLS on" : ", NVLS off");
        for (const Finding& finding : verdict.findings) {
          EXPECT_TRUE(finding.good()) << finding.key << " " << finding.metric << ": " << finding.detail;
        }
        const bool large_size_judged =
            std::any_of(verdict.findings.begin(), verdict.findings.end(), [](const Finding& finding) {
              return finding.key == "allreduce/dtype:f32/bytes:8589934592" && finding.metric == "busbw_gb_per_s";
            });
        EXPECT_EQ(large_size_judged, ranks > 1) << ranks << " ranks: bandwidth must be judged, not only latency";
      }
    }
  }
}

TEST(ShippedProfiles, FailAGpuThatIsSlowAlone) {
  auto builder = gpu_machine("NVIDIA H200", 4, false, 4100, Tier::full);
  const std::string key = gemm_key("bf16", 8192) + "/active:one/rank:2";
  builder.add(key, "tflops", 500, {std::nullopt, std::nullopt, 500, std::nullopt});
  Results results = builder.results();
  Row slow = results.rows.back();
  std::erase_if(results.rows, [&](const Row& row) { return row.key == key; });
  for (slow.repetition = 0; slow.repetition < 3; ++slow.repetition) results.rows.push_back(slow);
  const Verdict verdict = judge({results}, shipped(), {});
  EXPECT_EQ(verdict.exit_code, 1);
  const auto failed =
      std::find_if(verdict.findings.begin(), verdict.findings.end(), [](const Finding& f) { return !f.good(); });
  ASSERT_NE(failed, verdict.findings.end());
  EXPECT_EQ(failed->key, key);
  EXPECT_EQ(failed->worst->rank, 2);
}

TEST(ShippedProfiles, FailAGpuThatDoesLessWithTheSameClock) {
  const std::string key = gemm_key("bf16", 8192) + "/load:sustained";
  auto builder = gpu_machine("NVIDIA H200", 4, false, 4100, Tier::full);
  for (int i = 0; i < 2; ++i) builder.add(key, "tflops", 660).by_rank("tflops_per_ghz", {482, 480, 460, 481});
  const Verdict verdict = judge({builder.results()}, shipped(), {});
  const auto failed =
      std::find_if(verdict.findings.begin(), verdict.findings.end(), [](const Finding& f) { return !f.good(); });
  ASSERT_NE(failed, verdict.findings.end());
  EXPECT_EQ(failed->metric, "tflops_per_ghz");
  EXPECT_EQ(failed->worst->rank, 2);
}

TEST(ShippedProfiles, AskForTheSustainedLoadInQuickSinceItIsMeasuredThere) {
  const std::string key = gemm_key("bf16", 8192) + "/load:sustained";
  auto builder = gpu_machine("NVIDIA H200", 4, false, 4100, Tier::quick);
  EXPECT_EQ(judge({builder.results()}, shipped(), {}).exit_code, 0) << "a run of before is not asked for it";
  builder.context.plan = 2;
  const auto of_sustained = [&] {
    const Verdict verdict = judge({builder.results()}, shipped(), {});
    const auto found =
        std::find_if(verdict.findings.begin(), verdict.findings.end(), [&](const Finding& f) { return f.key == key; });
    return found == verdict.findings.end() ? Status::pass : found->status;
  };
  EXPECT_EQ(of_sustained(), Status::missing);
  builder.add(key, "tflops", 580, {660, 655, 580, 662}).by_rank("tflops_per_ghz", {482, 480, 481, 481});
  EXPECT_EQ(of_sustained(), Status::fail) << "13 % below the others, which bursts do not show";
}

TEST(ShippedProfiles, MissRoundsOfPairsThatSeveralHostsLeftOut) {
  const auto of_pairs = [](int hosts, int plan, bool preflight_fails = false) {
    Results results = host_machine(2 * hosts, hosts).results();
    results.context.plan = plan;
    std::erase_if(results.rows, [](const Row& row) { return family_of(row.key) == "pairs"; });
    if (preflight_fails) {
      std::erase_if(results.rows, [](const Row& row) { return family_of(row.key) != "preflight"; });
      results.rows.front().error = "broken";
    }
    const Verdict verdict = judge({std::move(results)}, shipped(), {});
    std::string said;
    for (const Finding& finding : verdict.findings) {
      if (finding.status == Status::missing) said += finding.key.text() + " " + finding.detail + "; ";
    }
    return said;
  };
  for (const int hosts : {2, 3, 8}) EXPECT_EQ(of_pairs(hosts, current_plan), "pairs was not measured; ") << hosts;
  EXPECT_EQ(of_pairs(1, current_plan), "") << "there is no partner";
  EXPECT_EQ(of_pairs(8, 2).find("pairs"), std::string::npos) << "older runs had none";
  const auto stopped = of_pairs(8, current_plan, true);
  EXPECT_NE(stopped.find("no other"), std::string::npos) << stopped;
  EXPECT_NE(stopped.find(", pairs,"), std::string::npos) << stopped;
  EXPECT_EQ(stopped.find("pairs was"), std::string::npos) << stopped;
}

TEST(ShippedProfiles, JudgeEveryFamilyOfAHost) {
  for (const auto& [ranks, hosts] : {std::pair{1, 1}, {2, 1}, {2, 2}, {3, 2}, {4, 1}, {4, 2}, {64, 8}}) {
    auto profiles = shipped();
    for (Profile& profile : profiles) {
      if (hosts == 2) profile.excused.push_back("pairs");  // the two ends cannot be distinguished
    }
    const Verdict verdict = judge({host_machine(ranks, hosts).results()}, profiles, {});
    EXPECT_EQ(verdict.exit_code, 0) << verdict_line(verdict);
    EXPECT_EQ(name(verdict.state), "HOST-ONLY");
    for (const Finding& finding : verdict.findings) {
      EXPECT_TRUE(finding.good()) << finding.key << " " << finding.metric << ": " << finding.detail;
    }
    for (const auto& value : verdict.unjudged) EXPECT_EQ(family_of(value.key), "pairs") << "of hosts among each other";
  }
  EXPECT_EQ(verdict_line(judge({host_machine(2, 1).results()}, shipped(), {})),
            "VERDICT: HOST-ONLY 87/87 (profile host, 2 ranks)");
}

TEST(ShippedProfiles, HaveNoReferenceOfSeveralHostsOnlyForWhatGoesBetweenThem) {
  for (const auto& [device, name, hbm] :
       {std::tuple{"NVIDIA H200", "h200-sxm", 4100.0}, std::tuple{"NVIDIA H100 80GB HBM3", "h100-sxm", 3100.0}}) {
    for (const Tier tier : {Tier::quick, Tier::full}) {
      const Verdict verdict = judge({gpu_machine(device, 16, true, hbm, tier, 2).results()}, shipped(), {});
      EXPECT_EQ(verdict.exit_code, 3) << verdict_line(verdict);
      std::set<std::string> judged, without;
      for (const Finding& finding : verdict.findings) {
        EXPECT_TRUE(finding.good() || finding.status == Status::no_reference) << finding.key << " " << finding.detail;
        (finding.good() ? judged : without).insert(family_of(finding.key));
      }
      const bool h200 = verdict.profile == "h200-sxm";
      EXPECT_EQ(without, (std::set<std::string>{"allreduce", "collectives"}));
      for (const char* family : {"gemm", "hbm", "memtest", "p2p", "pcie"})
        EXPECT_TRUE(judged.contains(family)) << family;
      EXPECT_TRUE(judged.contains("lora_step"));
      const std::string all = h200 && tier == Tier::full ? "10" : "9";
      const std::string end = ", 16 ranks, 2 hosts, 7 of " + all + " families judged)";
      EXPECT_NE(verdict_line(verdict).find(name + end), std::string::npos) << verdict_line(verdict);
    }
  }
}

TEST(ShippedProfiles, JudgeTheStepOfGpt2OnH200) {
  const std::string front = "train_step/model:";
  const auto state_at = [&](double part) {
    ResultsBuilder builder(2, 1, "NVIDIA H200");
    builder.context.tier = Tier::full;
    builder.context.plan = current_plan;
    for (const auto& [key, tokens_per_s, ms] : steps_of_h200(2)) {
      builder.add(front + key, "tokens_per_s", part * tokens_per_s, {tokens_per_s, part * tokens_per_s})
          .by_rank("compute_ms", {ms, ms / part});
    }
    JudgeOptions options;
    options.families = {{"train_step"}};
    return judge({builder.results()}, shipped(), options);
  };
  const Verdict healthy = state_at(0.99), slow = state_at(0.80);
  EXPECT_EQ(healthy.state, State::partial) << verdict_line(healthy);
  EXPECT_EQ(slow.state, State::fail);
  const auto fails = [&](const std::string& key, const char* metric) {
    return std::any_of(slow.findings.begin(), slow.findings.end(), [&](const Finding& f) {
      return f.key == front + key && f.metric == metric && f.status == Status::fail;
    });
  };
  for (const auto& [key, tokens_per_s, ms] : steps_of_h200(2)) {
    const std::string_view step = key;
    if (step.starts_with("encoder")) continue;  // its host is too large a part of it
    EXPECT_TRUE(fails(key, "tokens_per_s")) << key;
    EXPECT_EQ(fails(key, "compute_ms"), step.find("batch:64") == step.npos) << key;
  }
}

TEST(ShippedProfiles, JudgeTheLatencyOfAHostByItsSlowestRank) {
  const std::string key = "hbm/op:latency/engine:cpu/bytes:268435456";
  const auto of_latency = [&](const std::optional<double>& second) {
    auto builder = ResultsBuilder::host(2);
    builder.context.plan = current_plan;
    builder.add("hbm/op:copy/engine:cpu/bytes:268435456", "hbm_gb_per_s", 2);
    if (second) builder.add(key, "latency_ns", *second, {100, *second});
    const Verdict verdict = judge({builder.results()}, shipped(), {});
    const auto found =
        std::find_if(verdict.findings.begin(), verdict.findings.end(), [&](const Finding& f) { return f.key == key; });
    return found == verdict.findings.end() ? Status::no_reference : found->status;
  };
  EXPECT_EQ(of_latency(110), Status::pass);
  EXPECT_EQ(of_latency(1e6), Status::fail);
  EXPECT_EQ(of_latency(std::nullopt), Status::missing);
}

TEST(ShippedProfiles, AskForProcessorsOnlyInRunsThatHaveMeasuredThem) {
  const std::set<std::string> asked{"jitter", "launch"};
  const auto missed = [&](int plan) {
    auto builder = gpu_machine("NVIDIA H200", 4, false, 4100, Tier::quick);
    builder.context.plan = plan;
    std::set<std::string> families;
    for (const Finding& f : judge({builder.results()}, shipped(), {}).findings) {
      if (f.status == Status::missing && asked.contains(family_of(f.key))) families.insert(family_of(f.key));
    }
    return families;
  };
  EXPECT_EQ(missed(3), std::set<std::string>{});
  EXPECT_EQ(missed(current_plan), asked);
}

TEST(ShippedProfiles, FailTheRankWhoseProcessorIsBusyAndNobodyWhereAllAreAlike) {
  const auto verdict_of = [](const Values& quanta) {
    auto builder = gpu_machine("NVIDIA H200", 4, false, 4100, Tier::quick);
    builder.context.plan = current_plan;
    const double slowest = (*std::max_element(quanta.begin(), quanta.end())).value();
    for (const char* turn : {"", "/turn:2"}) {
      builder.add("jitter/op:fwq/quanta:100" + std::string(turn), "quantum_us", slowest, quanta)
          .by_rank("stolen", {0.001, 0.5, 0.001, 0.001})
          .by_rank("waited", {0, 0.49, 0, 0});
    }
    builder.add("launch/op:kernel", "launch_us", 3);
    builder.add("launch/op:graph/kernels:20", "launch_us", 6);
    return judge({builder.results()}, shipped(), {});
  };
  const Verdict busy = verdict_of({131, 262, 131.5, 130.5});
  EXPECT_EQ(busy.state, State::fail);
  ASSERT_EQ(busy.culprits.size(), 1u);
  EXPECT_EQ(busy.culprits[0].causes, std::vector{Cause::busy_core});
  EXPECT_EQ(busy.culprits[0].places[0].rank, 1);
  EXPECT_NE(busy.culprits[0].detail.find("50.0 %"), std::string::npos) << busy.culprits[0].detail;
  const Verdict alike = verdict_of({262, 265, 240, 251});  // a hypervisor takes half of all time
  EXPECT_TRUE(alike.culprits.empty());
  for (const Finding& f : alike.findings) EXPECT_TRUE(family_of(f.key) != "jitter" || f.good() || !f.counts()) << f.key;
}

TEST(ShippedProfiles, FailAGpuOfTheSecondHostByItsOwnFigures) {
  const std::map<std::string, std::string> figures{{"pcie/op:h2d/active:one/rank:5/bytes:268435456", "copy_gb_per_s"},
                                                   {"p2p/op:write/engine:ce/shift:3/bytes:1073741824", "copy_gb_per_s"},
                                                   {gemm_key("bf16", 8192) + "/active:one/rank:5", "tflops"},
                                                   {"lora_step/model:qwen2_7b/batch:2/seq:4096", "compute_ms"}};
  constexpr int culprit = 13;  // local rank 5
  for (const bool silent : {false, true}) {
    Results results = gpu_machine("NVIDIA H200", 16, true, 4100, Tier::full, 2).results();
    for (Row& row : results.rows) {
      if (!figures.contains(row.key)) continue;
      auto& own = row.by_rank.at(figures.at(row.key))[culprit];
      ASSERT_TRUE(own) << row.key;
      own = silent ? std::nullopt : std::optional(row.by_rank.contains("compute_ms") ? *own * 1.15 : *own * 0.8);
      if (silent || row.by_rank.contains("compute_ms")) continue;
      row.metrics.at(figures.at(row.key)) = *own;
      row.real_time /= 0.8;
    }
    std::size_t found = 0;
    for (const Finding& f : judge({results}, shipped(), {}).findings) {
      if (f.judgement != Judgement::rule || !figures.contains(f.key) || figures.at(f.key) != f.metric) continue;
      ++found;
      EXPECT_EQ(f.status, silent ? Status::missing : Status::fail) << f.key;
      ASSERT_EQ(f.offenders.size(), 1u) << f.key;
      EXPECT_EQ(f.offenders[0].rank, culprit) << f.key;
    }
    EXPECT_EQ(found, figures.size());
  }
}

TEST(ShippedProfiles, MissAnAllReduceBetweenHostsThatNobodyMeasured) {
  Results results = gpu_machine("NVIDIA H200", 4, false, 4100, Tier::quick, 2).results();
  std::erase_if(results.rows, [](const Row& row) { return family_of(row.key) == "allreduce"; });
  const Verdict verdict = judge({results}, shipped(), {});
  EXPECT_EQ(verdict.exit_code, 1) << verdict_line(verdict);
  EXPECT_TRUE(std::any_of(verdict.findings.begin(), verdict.findings.end(),
                          [](const Finding& f) { return f.key == "allreduce" && f.status == Status::missing; }));
}

TEST(ShippedProfiles, JudgeInQuickACloserLookAtAPairWhereItWasTakenAndInFullEveryPair) {
  const std::string pair = "p2p/op:read/engine:ce/src:1/dst:3/bytes:1073741824";
  for (const Tier tier : {Tier::quick, Tier::full}) {
    Results results = gpu_machine("NVIDIA H200", 4, false, 4100, tier).results();
    std::erase_if(results.rows, [&](const Row& row) { return row.key == pair; });
    EXPECT_EQ(judge({results}, shipped(), {}).exit_code, tier == Tier::quick ? 0 : 1) << name(tier);
  }
  Results results = gpu_machine("NVIDIA H200", 4, false, 4100).results();
  for (Row& row : results.rows) {
    if (row.key == pair) row.metrics["copy_gb_per_s"] = *(row.by_rank["copy_gb_per_s"][3] = 290);
  }
  EXPECT_EQ(judge({results}, shipped(), {}).exit_code, 1);
}

TEST(ShippedProfiles, FailASlowGpuAndNameIt) {
  auto builder = gpu_machine("NVIDIA H200", 4, false, 4100);
  builder.add("hbm/op:copy/engine:sm/bytes:4294967296", "hbm_gb_per_s", 3500, {4100, 4100, 3500, 4100});
  builder.add("hbm/op:copy/engine:sm/bytes:4294967296", "hbm_gb_per_s", 3500, {4100, 4100, 3500, 4100});
  const Verdict verdict = judge({builder.results()}, shipped(), {});
  EXPECT_EQ(verdict.exit_code, 1);
  const auto failed =
      std::find_if(verdict.findings.begin(), verdict.findings.end(), [](const Finding& f) { return !f.good(); });
  ASSERT_NE(failed, verdict.findings.end());
  EXPECT_EQ(failed->worst->rank, 2);
}

}  // namespace
}  // namespace shakedown::profiles_test
