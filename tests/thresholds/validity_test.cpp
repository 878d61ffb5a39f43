// Changes a healthy stored launch of four H200 in one place at a time: none of the runs passes.
#include "thresholds/rules/validity.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/rules/expectation.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"

namespace shakedown::validity_test {
namespace {

using nlohmann::json;
using testing_support::Folder;
using testing_support::ResultsBuilder;

const std::filesystem::path root = SHAKEDOWN_SOURCE_DIR;
const std::string launch = "tests/data/h200-sxm-4ranks-full/1/";

json stored(const std::string& family) { return json::parse(read_file(root / launch / (family + ".json"))); }

std::string outcome_of(const std::vector<Results>& results) {
  static const auto profiles = load_profiles(root / "thresholds/h200-sxm.yaml");
  const Verdict verdict = judge(results, profiles, {});
  std::string text(name(verdict.state));
  for (const Finding& f : verdict.findings) {
    if (f.counts() && (f.status == Status::invalid || f.status == Status::missing))
      text.append("; ").append(name(f.status)).append(" ").append(f.key).append(" ").append(f.metric);
  }
  return text;
}

// Returns the state, and the findings "invalid" and "missing"; or the message of the refusal.
std::string outcome(const std::string& family, const std::string& text) {
  static const auto all = read_results(std::vector{root / launch});
  const Folder folder;
  try {
    std::vector<Results> results{read_results(folder.write(family + ".json", text))};
    for (const Results& file : all) {
      if (file.file.stem() != family) results.push_back(file);
    }
    return outcome_of(results);
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return std::string("refused: ") + error.what();
  }
}

struct Case {
  std::string family, says;
  std::function<void(json& document)> falsify;
};

// All measured rows.
std::function<void(json&)> rows(const std::function<void(json& row)>& change) {
  return [change](json& document) {
    for (json& row : document["benchmarks"]) {
      if (!row.contains("error_occurred")) change(row);
    }
  };
}

std::function<void(json&)> facts(const std::function<void(json& shakedown)>& change) {
  return [change](json& document) { change(document["context"]["shakedown"]); };
}

std::function<void(json&)> set(const char* member, const json& value, const std::string& part = "") {
  return rows([=](json& row) {
    if (row.contains(member) && row["name"].get<std::string>().find(part) != std::string::npos) row[member] = value;
  });
}

std::function<void(json&)> set_everywhere(const char* metric, double value) {
  return rows([=](json& row) {
    if (row.contains(metric)) row[metric] = value;
    if (!row["by_rank"].contains(metric)) return;
    for (json& rank : row["by_rank"][metric]) {
      if (!rank.is_null()) rank = value;
    }
  });
}

std::function<void(json&)> set_rank(const char* metric, double value) {
  return rows([=](json& row) {
    if (row["by_rank"].contains(metric) && !row["by_rank"][metric][2].is_null()) row["by_rank"][metric][2] = value;
  });
}

TEST(Validity, PassesWhatWasMeasured) { EXPECT_EQ(outcome("gemm", stored("gemm").dump()), "PASS"); }

TEST(Validity, LetsNothingPassThatCannotBeTrue) {
  const std::vector<Case> cases{
      // Zero, negative, no number
      {"gemm", "invalid gemm/", set("real_time", 0)},
      {"gemm", "invalid gemm/", set("real_time", -1.5)},
      {"hbm", "invalid hbm/", set("iterations", 0)},
      {"hbm", "invalid hbm/", set("iterations", -10)},
      {"hbm", "invalid hbm/", rows([](json& row) { row.erase("iterations"); })},
      {"p2p", "invalid p2p/", set("samples", 0)},
      {"p2p", "invalid p2p/", set("samples", -3)},
      {"pcie", "invalid pcie/", set_rank("seconds", -1)},
      {"pcie", "invalid pcie/", set_rank("seconds", 0)},
      {"pcie", "invalid pcie/", set("bytes_per_second", -1)},
      {"p2p", "invalid p2p/", set_everywhere("latency_us", -0.8)},
      {"allreduce", "invalid allreduce/", set_everywhere("latency_us", 0)},
      {"allreduce", "invalid allreduce/", set("p99_us", -1)},
      {"gemm", "invalid gemm/", set("cv", -0.1)},
      {"lora_step", "invalid lora_step/", set_rank("compute_ms", -440)},
      {"preflight", "invalid preflight/", set_rank("ranks_per_core", -1)},
      {"gemm", "refused", set("tflops", "NaN")},
      // Above the physical limit
      {"pcie", "invalid pcie/op:h2d", set_everywhere("copy_gb_per_s", 64)},
      {"pcie", "invalid pcie/op:both", set("copy_gb_per_s", 130, "op:both")},
      {"collectives", "invalid collectives/op:all_gather", set_everywhere("busbw_gb_per_s", 1e6)},
      {"collectives", "invalid collectives/op:alltoall", set_everywhere("busbw_gb_per_s", 430)},
      {"collectives", "invalid collectives/", set("algbw_gb_per_s", 1e6)},
      {"allreduce", "invalid allreduce/", set_everywhere("busbw_gb_per_s", 430)},
      {"memtest", "invalid memtest/", set_everywhere("hbm_gb_per_s", 1e6)},
      {"memtest", "invalid memtest/", set_everywhere("capacity_gb", 1e6)},
      {"hbm", "invalid hbm/", set("copy_gb_per_s", 1e6)},
      {"p2p", "invalid p2p/op:latency", set_everywhere("latency_us", 0.001)},
      {"collectives", "invalid collectives/", set_everywhere("latency_us", 0.25)},
      {"lora_step", "invalid lora_step/", rows([](json& row) {
         row["step_ms"] = 8.192;
         row["tokens_per_s"] = 1e6;
         row["tokens_per_s_total"] = 4e6;
         row["by_rank"]["tokens_per_s"] = {1e6, 1e6, 1e6, 1e6};
         row["by_rank"]["seconds"] = {8.192e-3, 8.192e-3, 8.192e-3, 8.192e-3};
       })},
      // Contradictory figures
      {"lora_step", "invalid lora_step/", set_everywhere("tokens_per_s", 30500)},
      {"lora_step", "invalid lora_step/", set("tokens_per_s_total", 90000)},
      {"lora_step", "invalid lora_step/", rows([](json& row) {  // two ranks have these tokens together
         auto name = row["name"].get<std::string>();
         row["name"] = name.insert(name.find("seq:4096") + 8, "/tp:2");
       })},
      {"gemm", "invalid gemm/", set_everywhere("tflops_per_ghz", 700)},
      {"gemm", "invalid gemm/", set("tflops", 1.0)},
      {"gemm", "invalid gemm/", set("tflops", 985, "dtype:bf16")},
      {"gemm", "missing gemm/", rows([](json& row) { row.erase("tflops"); })},
      {"gemm", "missing gemm/", set("tflops", nullptr)},
      {"hbm", "invalid hbm/", set("hbm_gb_per_s", 1.0)},
      {"p2p", "invalid p2p/", set("copy_gb_per_s", 1.0)},
      {"collectives", "invalid collectives/", set("busbw_gb_per_s", 1.0)},
      {"allreduce", "invalid allreduce/", set("latency_us", 1.0, "bytes:8/")},
      {"lora_step", "invalid lora_step/", set("step_ms", 1.0)},
      {"hbm", "missing hbm/", set("repetitions", 3)},
      // The ranks and hosts
      {"gemm", "refused", facts([](json& s) { s["world"]["hosts"] = 2; })},
      {"gemm", "refused", facts([](json& s) { s["ranks"][1]["local_rank"] = 2147483647; })},
      {"gemm", "refused", facts([](json& s) { s["ranks"][1]["local_rank"] = 4; })},
      {"gemm", "invalid machine/run_id", facts([](json& s) { s["ranks"][1]["uuid"] = "GPU-another"; })},
      {"gemm", "invalid machine/run_id", facts([](json& s) { s["ranks"][1]["local_rank"] = 0; })},
      {"gemm", "invalid machine/run_id", facts([](json& s) { s["suite"]["git"] = "another"; })},
      {"gemm", "refused", facts([](json& s) { s["tier"] = "quickest"; })},
      {"gemm", "invalid machine/run_id", [](json& d) { d["benchmarks"].push_back(stored("hbm")["benchmarks"][0]); }},
      // Incomplete errors
      {"gemm", "FAIL", rows([](json& row) { row["error_message"] = "wrong data"; })},
      {"gemm", "FAIL", rows([](json& row) { row["error_message"] = "wrong data", row["error_occurred"] = false; })},
      {"gemm", "refused",
       rows([](json& row) { row["error_message"] = "wrong data", row["error_occurred"] = nullptr; })},
      {"gemm", "refused",
       [](json& d) {
         d["benchmarks"].push_back({{"name", "gemm/x:1_mean"}, {"run_type", "aggregate"}, {"error_occurred", true}});
       }},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    json document = stored(cases[i].family);
    const json before = document;
    cases[i].falsify(document);
    ASSERT_NE(document, before) << "case " << i << " changes nothing";
    const std::string found = outcome(cases[i].family, document.dump());
    EXPECT_NE(found.find(cases[i].says), std::string::npos) << "case " << i << ", " << cases[i].family << ": " << found;
    EXPECT_TRUE(found.rfind("FAIL", 0) == 0 || found.rfind("refused", 0) == 0) << "case " << i << ": " << found;
  }
}

// Each number of a row by itself, in one row of every family.
TEST(Validity, LetsNoFigureBeZeroOrNegative) {
  for (const char* family : {"gemm", "hbm", "p2p", "pcie", "allreduce", "collectives", "lora_step", "memtest"}) {
    const json document = stored(family);
    for (const auto& [member, value] : document["benchmarks"][0].items()) {
      const bool counts = member == "real_time" || member == "iterations" || member == "samples" ||
                          !unit_of(member).empty() || member == "bytes_per_second" || member == "items_per_second";
      if (!value.is_number() || !counts) continue;
      for (const double wrong : {0.0, -1.0}) {
        if (wrong == 0 && is_telemetry(member)) continue;  // a degree, or no watt
        json changed = document;
        changed["benchmarks"] = {document["benchmarks"][0]};
        changed["benchmarks"][0][member] = wrong;
        const Folder folder;
        const std::vector<Results> results{read_results(folder.write("a.json", changed.dump()))};
        const auto findings = judge_validity(benchmarks_of(results), nullptr, {});
        ASSERT_EQ(findings.size(), 1u) << family << " " << member << " " << wrong;
        EXPECT_EQ(findings[0].status, Status::invalid);
      }
    }
  }
}

TEST(Validity, TakesAWidePcieForGraceAndWithoutPreflight) {
  const auto status = [](const char* device, double rate, bool preflight) {
    ResultsBuilder builder(2, 1, device);
    builder.add("pcie/op:h2d/bytes:268435456", "copy_gb_per_s", rate);
    if (preflight) builder.add_facts("preflight/of:gpu", {{"pcie_gen_max", {5, 5}}, {"pcie_width_max", {16, 16}}}, {});
    const std::vector<Results> results{builder.results()};
    const Profile profile;
    return !judge_validity(benchmarks_of(results), &profile, {}).empty();
  };
  EXPECT_FALSE(status("NVIDIA H200", 62, true));
  EXPECT_TRUE(status("NVIDIA H200", 70, true));
  EXPECT_FALSE(status("NVIDIA H200", 70, false)) << "the link may be a newer one";
  EXPECT_FALSE(status("NVIDIA GH200 480GB", 400, true)) << "NVLink-C2C";
  EXPECT_TRUE(status("NVIDIA GH200 480GB", 460, true));
}

/// On GH200 the GPU's own HBM is a NUMA node: a copy "to the host" that ended there is faster than NVLink-C2C.
TEST(Validity, RefusesCopiesToTheHostThatAreFasterThanItsC2c) {
  const auto invalid = [](const char* key, double rate, double c2c) {
    ResultsBuilder builder(1, 1, "NVIDIA GH200 480GB");
    builder.add(key, "copy_gb_per_s", rate);
    const std::vector<Results> results{builder.results()};
    Profile profile;
    profile.peak["c2c_gb_per_s"] = c2c;
    return !judge_validity(benchmarks_of(results), &profile, {}).empty();
  };
  for (const char* key : {"pcie/op:h2d/bytes:268435456", "pcie/op:d2h/numa:far/bytes:268435456"}) {
    EXPECT_FALSE(invalid(key, 380, 450)) << key;
    EXPECT_TRUE(invalid(key, 1200, 450)) << key;
    EXPECT_TRUE(invalid(key, 380, 225)) << key << ": the profile's ceiling";
  }
  EXPECT_FALSE(invalid("pcie/op:both/bytes:268435456", 700, 450)) << "both ways";
}

TEST(Validity, AllowsARunOfManyRanksToBeSlowerThanEachOfThem) {
  const auto invalid = [](ResultsBuilder builder, double run) {
    builder.add("allreduce/dtype:f32/bytes:8", "busbw_gb_per_s", run, {2.0, 2.5});
    const std::vector<Results> results{builder.results()};
    return !judge_validity(benchmarks_of(results), nullptr, {}).empty();
  };
  EXPECT_FALSE(invalid(ResultsBuilder(2), 2.0));
  EXPECT_FALSE(invalid(ResultsBuilder(2), 0.5));
  EXPECT_TRUE(invalid(ResultsBuilder(2), 0.3));
  EXPECT_TRUE(invalid(ResultsBuilder(2), 2.1));
  EXPECT_FALSE(invalid(ResultsBuilder::host(), 0.01)) << "a scheduler's time slices";
  EXPECT_TRUE(invalid(ResultsBuilder::host(), 2.1));
}

TEST(Input, WithAKeyTwiceIsRefused) {
  for (const auto& [once, twice] :
       {std::pair<std::string, std::string>{R"("complete":true)", R"("complete":false,"complete":true)"},
        {R"("run_type":"iteration")", R"("run_type":"iteration","run_typ\u0065":"iteration")"}}) {
    std::string text = stored("gemm").dump();
    const auto at = text.find(once);
    ASSERT_NE(at, std::string::npos);
    const std::string found = outcome("gemm", text.replace(at, once.size(), twice));
    EXPECT_NE(found.find("gemm.json: the key \"" + once.substr(1, once.find(':') - 2) + "\" occurs twice"),
              std::string::npos)
        << found;
  }
}

TEST(Repeatability, IsThatOfTheMiddleRepetition) {
  const std::string key = "pcie/op:h2d/bytes:268435456";
  const auto rules = testing_support::profile(
      "  - {benchmark: \"" + key + "\", metric: copy_gb_per_s, every: run, min: 40, source: s}\n",
      "repeatability: {samples_min: 1, cv_max: {pcie: 0.2}, source: s}\n");
  const auto state_of = [&](std::initializer_list<double> cvs) {
    ResultsBuilder builder(1);
    for (const double cv : cvs) builder.add(key, "copy_gb_per_s", 55, {}, {{"cv", cv}});
    return judge({builder.results()}, rules, {}).state;
  };
  EXPECT_EQ(state_of({0.1}), State::pass);
  EXPECT_EQ(state_of({0.3}), State::inconclusive);
  EXPECT_EQ(state_of({0.3, 0.01, 0.01}), State::pass) << "unsteady once";
  EXPECT_EQ(state_of({0.3, 0.01, 0.25}), State::inconclusive);
}

TEST(Repeatability, IsThatOfTheTimesOfEnoughRepetitions) {
  const std::string key = "pcie/op:h2d/bytes:268435456";
  const auto rules = testing_support::profile(
      "  - {benchmark: \"" + key + "\", metric: copy_gb_per_s, every: run, min: 40, source: s}\n",
      "repeatability: {samples_min: 1, cv_max: {pcie: 0.22}, source: s}\n");
  const auto state_of = [&](std::initializer_list<double> rates) {
    ResultsBuilder builder(1);
    for (const double rate : rates) builder.add(key, "copy_gb_per_s", rate, {}, {{"cv", 0.27}});
    auto results = builder.results();
    for (Row& row : results.rows) row.by_rank["seconds"] = {0.268435456 / row.metrics.at("copy_gb_per_s")};
    return judge({results}, rules, {}).state;
  };
  // Three repetitions on one H100 of a virtual machine, 2026-11: 2 to 3 of 20 samples took twice as long.
  EXPECT_EQ(state_of({54.94, 46.43, 55.09}), State::pass);
  EXPECT_EQ(state_of({54.94, 55.09}), State::inconclusive) << "two are too few";
  EXPECT_EQ(state_of({54.94, 81, 41}), State::inconclusive) << "these do not repeat";
}

TEST(Validity, LetsAClockStandTwoStepsAboveWhatTheDriverCallsTheHighest) {
  const std::string key = "hbm/op:copy/engine:sm/bytes:4294967296";
  const auto rules = testing_support::profile("  - {benchmark: \"" + key +
                                              "\", metric: hbm_gb_per_s, every: run, min: 40, source: s}\n");
  const auto state_of = [&](double mhz) {
    ResultsBuilder builder(1);
    builder.context.ranks.front().sm_mhz_max = 1980;
    builder.add(key, "hbm_gb_per_s", 4000, {}, {{"sm_mhz", mhz}});
    return judge({builder.results()}, rules, {}).state;
  };
  EXPECT_EQ(state_of(2010), State::pass);
  EXPECT_EQ(state_of(2050), State::fail);
}

TEST(Input, OfAPipeOrADeviceIsRefusedAtOnce) {
  const Folder folder;
  const auto refused = [](const std::function<void()>& read, const std::filesystem::path& file) {
    try {
      read();
    } catch (const InputError& error) {
      return std::string(error.what()).rfind(file.string() + ": is ", 0) == 0;
    }
    return false;
  };
  for (const char* name : {"pipe.json", "pipe.yaml"}) ASSERT_EQ(mkfifo((folder.path() / name).c_str(), 0600), 0);
  const auto json_pipe = folder.path() / "pipe.json", yaml_pipe = folder.path() / "pipe.yaml";
  EXPECT_TRUE(refused([&] { read_results(std::vector{folder.path()}); }, json_pipe));
  EXPECT_TRUE(refused([&] { load_profiles(folder.path()); }, yaml_pipe));
  EXPECT_TRUE(refused([&] { read_roster(json_pipe); }, json_pipe));
  for (const std::filesystem::path path : {"/dev/zero", "/"}) {
    EXPECT_TRUE(refused([&] { read_file(path); }, path)) << path;
    EXPECT_TRUE(refused([&] { read_roster(path); }, path)) << path;
  }
}

// Eight hosts with one rank each: stored.
std::string outcome_of_pairs(const std::function<void(RankValues& partners)>& falsify) {
  Results results = read_results(root / "tests/data/host-8hosts/pairs.json");
  for (Row& row : results.rows) falsify(row.by_rank.at("partner"));
  const Measured measured{std::move(results)};
  std::string said;
  for (const Finding& finding : judge_validity(measured.benchmarks, nullptr, {})) {
    EXPECT_EQ(finding.status, Status::invalid);
    EXPECT_EQ(finding.metric, "partner");
    said = finding.detail;
  }
  return said;
}

TEST(Validity, WantsPartnersThatAreRanksOfOtherHostsThatSayTheSame) {
  const auto of_each = [](const std::function<double(std::size_t rank, double partner)>& change) {
    return outcome_of_pairs([&](auto& partners) {
      for (std::size_t rank = 0; rank < partners.size(); ++rank) {
        if (partners[rank]) partners[rank] = change(rank, *partners[rank]);
      }
    });
  };
  const std::string none = "no rank of this run", alone = "a rate without a partner";
  EXPECT_EQ(of_each([](std::size_t, double partner) { return partner; }), "");
  EXPECT_EQ(of_each([](std::size_t, double) { return 99; }), none);
  EXPECT_EQ(of_each([](std::size_t, double) { return -1; }), none);
  EXPECT_EQ(of_each([](std::size_t, double partner) { return partner + 0.5; }), none);
  EXPECT_EQ(of_each([](std::size_t rank, double) { return static_cast<double>(rank); }), "a partner on the same host");
  EXPECT_EQ(of_each([](std::size_t rank, double) { return rank == 0 ? 1. : 0.; }),
            "a partner with another partner, or none");
  EXPECT_EQ(outcome_of_pairs([](auto& partners) { partners[4] = std::nullopt; }), alone);
  EXPECT_EQ(outcome_of_pairs([](auto& partners) { partners.assign(partners.size(), std::nullopt); }), alone);
}

}  // namespace
}  // namespace shakedown::validity_test
