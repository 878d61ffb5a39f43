// Tests stored baselines: contents, omissions, refusals and proposed floors.
#include "thresholds/history/baseline.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/statistics.hpp"
#include "tests/thresholds/results_builder.hpp"
#include "thresholds/history/regression.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/judge/verdict.hpp"

namespace shakedown::baseline_test {
namespace {

using testing_support::Folder;
using testing_support::ResultsBuilder;
using testing_support::Values;

const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
const std::string reduce = "allreduce/dtype:f32/bytes:1073741824";
const std::string small = "allreduce/dtype:f32/bytes:8";
const std::filesystem::path source = SHAKEDOWN_SOURCE_DIR;

// One launch on one node.
ResultsBuilder node(const std::string& run, double tflops, const std::string& host = "node0") {
  ResultsBuilder builder;
  builder.context.run_id = run;
  builder.context.started = "2026-11-21T05:00:0" + std::to_string(run.size() % 10) + "Z";
  for (auto& rank : builder.context.ranks) rank.host = host;
  for (auto& facts : builder.context.inventory) facts.host = host;
  builder.add(gemm, "tflops", tflops, {tflops + 10, tflops, tflops + 20, tflops + 5});
  builder.add(reduce, "busbw_gb_per_s", 350, {}, {{"latency_us", 4500}});
  builder.add(small, "latency_us", 20, {}, {{"busbw_gb_per_s", 0.001}});
  return builder;
}

std::vector<Results> nodes(const std::vector<double>& tflops) {
  std::vector<Results> files;
  for (std::size_t i = 0; i < tflops.size(); ++i) {
    const std::string n = std::to_string(i);
    files.push_back(node("run" + n, tflops[i], "node" + n + ".rack.example").results());
  }
  return files;
}

template <class Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Baseline, KeepsEveryLaunchOfEveryNode) {
  const auto baselines = baselines_of(nodes({700, 705, 710}));
  ASSERT_EQ(baselines.size(), 1u);
  const Baseline& baseline = baselines.front();
  EXPECT_EQ(baseline.launches.size(), 3u);
  EXPECT_EQ(baseline.benchmarks.at(gemm).headline, "tflops");
  EXPECT_EQ(baseline.benchmarks.at(small).headline, "latency_us");
  const Series& series = baseline.benchmarks.at(gemm).series.at("tflops");
  EXPECT_EQ(series.units(true), (std::vector<double>{700, 705, 710}));
  EXPECT_EQ(series.ranks.size(), 3u);
  EXPECT_EQ(series.ranks.begin()->second.size(), 4u) << "each rank's own value too";
  EXPECT_TRUE(baseline.benchmarks.at(reduce).series.contains("latency_us"));
  EXPECT_EQ(launch_text(baseline, series.launches.begin()->first), "node0.rack.example (run run0)");
}

TEST(Baseline, LeavesOutAnOutlierAndNamesIt) {
  auto files = nodes({700, 705, 703, 698, 640, 702, 701});
  Baseline baseline = baselines_of(files).front();
  leave_out_outliers(baseline);
  ASSERT_EQ(baseline.left_out.size(), 1u);
  EXPECT_EQ(baseline.left_out[0].key, gemm);
  EXPECT_EQ(baseline.left_out[0].value, 640);
  EXPECT_EQ(launch_text(baseline, baseline.left_out[0].launch), "node4.rack.example (run run4)");
  EXPECT_EQ(baseline.benchmarks.at(gemm).series.at("tflops").launches.size(), 6u);
  EXPECT_EQ(baseline.benchmarks.at(reduce).series.at("busbw_gb_per_s").launches.size(), 7u)
      << "only where it stood out";
  Baseline few = baselines_of(nodes({700, 705, 640})).front();
  leave_out_outliers(few);
  EXPECT_TRUE(few.left_out.empty()) << "three launches do not know which is the odd one";
}

TEST(Baseline, LeavesNoLaunchOutOfWhichTheSameMachineHasGoodOnes) {
  auto files = nodes({700, 705, 703, 698, 640, 702, 701});
  files[4].context.ranks = files[5].context.ranks;
  Baseline baseline = baselines_of(files).front();
  leave_out_outliers(baseline);
  EXPECT_TRUE(baseline.left_out.empty()) << "launches differ";
  auto disturbed = nodes({700, 705, 703, 698, 420, 702, 701});
  disturbed[4].context.ranks = disturbed[5].context.ranks;
  Baseline other = baselines_of(disturbed).front();
  leave_out_outliers(other);
  EXPECT_EQ(other.left_out.size(), 1u) << "but not by 40 %";
}

TEST(Floors, AreNotProposedForWhatSomeLaunchesAlonePutBesideTheRest) {
  auto files = nodes({700, 705, 703});
  auto looked_closer = node("node3", 702);
  looked_closer.add(gemm + "/turn:2", "tflops", 702);
  files.push_back(looked_closer.results());
  const std::string text = floors_yaml(baselines_of(files).front(), "test", nullptr, {});
  EXPECT_NE(text.find("# no limit for " + gemm + "/turn:2: in 1 of 4 launches only"), std::string::npos) << text;
  EXPECT_NE(text.find("benchmark: \"" + gemm + "\""), std::string::npos);
}

TEST(Baseline, MakesOneForEachNumberOfRanks) {
  auto files = nodes({700, 705});
  files.push_back(ResultsBuilder(8).add(gemm, "tflops", 690).results());
  const auto baselines = baselines_of(files);
  ASSERT_EQ(baselines.size(), 2u);
  const auto profiles = load_profiles(source / "thresholds");
  EXPECT_EQ(baseline_folder(baselines[0], profiles), "h200-sxm/4ranks");
  EXPECT_EQ(baseline_folder(baselines[1], profiles), "h200-sxm/8ranks");
  const auto unknown = baselines_of({ResultsBuilder(16, 2, "NVIDIA B200 (x)").add(gemm, "tflops", 1).results()});
  EXPECT_EQ(baseline_folder(unknown[0], profiles), "nvidia-b200-x-/16ranks-2hosts");
}

TEST(Baseline, IsNotMadeOfDifferentConfigurations) {
  auto files = nodes({700});
  auto other = node("other", 700);
  other.context.versions["driver"] = "570.1";
  files.push_back(other.results());
  EXPECT_NE(refusal([&] { baselines_of(files); }).find("driver is 570.1, 580.159 among them"), std::string::npos);
}

TEST(Baseline, IsNotMadeOfBrokenRuns) {
  auto unfinished = node("a", 700);
  unfinished.context.complete = false;
  EXPECT_NE(refusal([&] { baselines_of({unfinished.results()}); }).find("stopped early"), std::string::npos);
  auto faulty = node("a", 700);
  faulty.context.fault = "slow:10@1";
  EXPECT_NE(refusal([&] { baselines_of({faulty.results()}); }).find("injected fault"), std::string::npos);
  const auto failed = ResultsBuilder().add_error(gemm, "wrong data").results();
  EXPECT_NE(refusal([&] { baselines_of({failed}); }).find("no benchmark of these files has a value"),
            std::string::npos);
  EXPECT_NE(refusal([] { baselines_of({}); }).find("result files"), std::string::npos);
}

TEST(Baseline, RefusesOneLaunchUnderTwoNames) {
  const auto file = node("a", 700).results("a.json"), copy = node("a", 700).results("copy.json");
  EXPECT_NE(refusal([&] { baseline_of({file, copy}); }).find("copy.json: " + reduce), std::string::npos);
  auto later = node("a", 701);
  later.context.started = "2026-11-21T06:00:00Z";
  EXPECT_EQ(baseline_of({file, later.results()}).launches.size(), 2u) << "a run id of the user's, started twice";
}

TEST(Baseline, ReadsBackWhatItWrote) {
  const Folder folder;
  Baseline baseline = baselines_of(nodes({700, 705, 703, 698, 640, 702, 701})).front();
  leave_out_outliers(baseline);
  const auto file = folder.path() / "h200-sxm" / "4ranks" / "baseline.json";
  store_baseline(file, baseline);
  const Baseline read = read_baseline({file});
  EXPECT_EQ(baseline_json(read), baseline_json(baseline));
  EXPECT_EQ(baseline_json(read_baseline({file.parent_path()})), baseline_json(baseline)) << "by its folder";
  const auto json = nlohmann::json::parse(text_of(file));
  EXPECT_EQ(json["baseline"]["schema"], 2);
  EXPECT_EQ(json["benchmarks"][4]["key"], gemm);
  EXPECT_EQ(json["benchmarks"][4]["median"], 701.5);
  EXPECT_GT(json["benchmarks"][4]["robust_sigma"], 0);
  store_baseline(file, baseline);  // replaces its own kind
}

TEST(Baseline, OfAFolderOfResultsIsThatOfItsFiles) {
  const Baseline four = read_baseline({source / "ci/baselines/h200-sxm/4ranks"});
  EXPECT_EQ(four.launches.size(), 8u);
  EXPECT_EQ(four.ranks, 4);
  EXPECT_GT(four.benchmarks.size(), 80u);
  EXPECT_EQ(read_baseline({source / "ci/baselines/h200-sxm/2ranks"}).launches.size(), 6u);
}

TEST(Baseline, BesideResultFilesIsNotAResult) {
  const Folder folder;
  folder.write("gemm.json", node("a", 700).text());
  store_baseline(folder.path() / "baseline.json", baseline_of({node("a", 700).results()}));
  EXPECT_EQ(read_results(std::vector{folder.path()}).size(), 1u);
}

TEST(Baseline, OfAFolderOfLaunchesHasThemAll) {
  const Folder folder;
  for (const char* launch : {"1", "2", "3"}) {
    std::filesystem::create_directory(folder.path() / launch);
    folder.write(std::string(launch) + "/gemm.json", node(std::string("run") + launch, 700).text());
    folder.write(std::string(launch) + "/run_id", "run");
  }
  EXPECT_EQ(baselines_of(read_results(std::vector{folder.path()})).front().launches.size(), 3u);
}

TEST(Baseline, MergesLaunchesOnce) {
  const Baseline one = baselines_of(nodes({700, 705})).front(), all = baselines_of(nodes({700, 705, 710})).front();
  const Baseline merged = merge({one, all});
  EXPECT_EQ(merged.benchmarks.at(gemm).series.at("tflops").launches.size(), 3u) << "two are in both";
  EXPECT_EQ(baseline_json(merged), baseline_json(all));
  const Baseline other = baselines_of(nodes({700, 999})).front();
  EXPECT_NE(refusal([&] { merge({one, other}); }).find("has other figures in another baseline"), std::string::npos);
  auto driver = node("d", 700);
  driver.context.versions["driver"] = "570.1";
  EXPECT_NE(refusal([&] { merge({one, baseline_of({driver.results()})}); }).find("driver is 570.1"), std::string::npos);
  auto tuned = node("t", 700);
  tuned.context.environment["NCCL_ALGO"] = "Tree";
  EXPECT_NE(refusal([&] {
              merge({one, baseline_of({tuned.results()})});
            }).find("NCCL_ALGO is Tree"),
            std::string::npos);
  EXPECT_THROW(merge({}), InputError);
}

// ---------------------------------------------------------------------------------------------------------------------
// Bad input

TEST(Baseline, OfANewerSchemaIsNotTouchedAndThatIsSaid) {
  const Folder folder;
  const std::string newer = "{\"baseline\": {\"schema\": 3, \"centre\": {}}, \"benchmarks\": {}}";
  const auto file = folder.write("baseline.json", newer);
  const std::string reading = refusal([&] { read_baseline({file}); });
  EXPECT_NE(reading.find("baseline.json: baseline.schema: is 3, "), std::string::npos) << reading;
  EXPECT_EQ(refusal([&] { store_baseline(file, baseline_of({node("a", 700).results()})); }), reading);
  EXPECT_EQ(text_of(file), newer);
}

TEST(Baseline, ThatIsEmptyIsRefused) {
  const Folder folder;
  EXPECT_NE(refusal([&] { read_baseline({folder.write("a.json", "")}); }).find("a.json: is empty"), std::string::npos);
  EXPECT_NE(refusal([&] { read_baseline({folder.path() / "none.json"}); }).find("none.json: "), std::string::npos);
  auto document = nlohmann::json::parse(baseline_json(baseline_of({node("a", 700).results()})));
  document["benchmarks"] = nlohmann::json::array();
  EXPECT_NE(refusal([&] { read_baseline({folder.write("b.json", document.dump())}); }).find("no benchmarks"),
            std::string::npos);
  const Folder empty;
  EXPECT_NE(refusal([&] { read_baseline({empty.path()}); }).find("result files"), std::string::npos);
}

TEST(Baseline, ThatIsBrokenIsRefusedWithItsPlace) {
  const Folder folder;
  const std::string whole = baseline_json(baseline_of({node("a", 700).results()}));
  const auto broken = [&](auto change) {
    auto document = nlohmann::json::parse(whole);
    change(document);
    return refusal([&] { read_baseline({folder.write("b.json", document.dump())}); });
  };
  using Json = nlohmann::json;
  EXPECT_NE(broken([](Json& j) { j["benchmarks"][0].erase("metric"); }).find("benchmarks[0].metric: is missing"),
            std::string::npos);
  EXPECT_NE(broken([](Json& j) { j["baseline"]["facts"].erase("nccl"); }).find("baseline.facts.nccl: is missing"),
            std::string::npos);
  EXPECT_NE(broken([](Json& j) { j["benchmarks"].push_back(j["benchmarks"][0]); }).find("twice"), std::string::npos);
  EXPECT_NE(broken([](Json& j) { j["benchmarks"][0]["launches"]["x@y"] = {1.0}; }).find("not listed"),
            std::string::npos);
  EXPECT_NE(broken([](Json& j) { j["benchmarks"][0]["launches"].begin().value() = {"fast"}; }).find("a number"),
            std::string::npos);
  for (auto& row : {0, 1, 2, 3, 4}) {
    EXPECT_NE(broken([&](Json& j) { j["benchmarks"][row]["launches"] = Json::object(); }).find("no launches"),
              std::string::npos);
  }
  EXPECT_NE(
      refusal([&] { read_baseline({folder.write("c.json", whole.substr(0, whole.size() / 2))}); }).find("cut off"),
      std::string::npos);
}

TEST(Baseline, OfAnotherMachineIsNotCompared) {
  const auto now = node("now", 700).results();
  auto other = node("a", 700);
  for (auto& rank : other.context.ranks) rank.device = "NVIDIA H100 80GB HBM3";
  const Baseline baseline = baseline_of({other.results()});
  EXPECT_NE(refusal([&] { judge_regression({now}, baseline); }).find("device is NVIDIA H200"), std::string::npos);
}

TEST(Baseline, DoesNotReplaceAFileThatIsNone) {
  const Folder folder;
  const auto file = folder.write("baseline.json", "{\"notes\": \"mine\"}");
  EXPECT_NE(refusal([&] { store_baseline(file, baseline_of({node("a", 700).results()})); }).find("was not touched"),
            std::string::npos);
  EXPECT_EQ(text_of(file), "{\"notes\": \"mine\"}");
  EXPECT_THROW(read_baseline({folder.path()}), InputError);
  EXPECT_THROW(read_baseline({file, source / "ci/baselines/h200-sxm/4ranks"}), InputError);
}

// ---------------------------------------------------------------------------------------------------------------------
// Floors

std::vector<Profile> proposed(const Baseline& baseline, const Profile* reference, const FloorOptions& options = {}) {
  const Folder folder;
  return load_profiles(folder.write("proposal.yaml", floors_yaml(baseline, "proposal", reference, options)));
}

TEST(Floors, PassTheStrictLoaderAndSayWhereTheyComeFrom) {
  const Baseline baseline = baselines_of(nodes({700, 705, 710})).front();
  const Profile profile = proposed(baseline, nullptr).front();
  ASSERT_EQ(profile.rules.size(), 3u);
  const Rule& floor = profile.rules[2];
  EXPECT_EQ(floor.benchmark, gemm);
  EXPECT_EQ(floor.every, Every::rank);
  EXPECT_EQ(*floor.limits.min, 679) << "0.97 of the 1 % quantile of 12 ranks, 700.55, rounded down";
  EXPECT_NE(floor.source.find("1 % quantile of 12 values of ranks in 3 launches less 3 %, measured 2026-11-21 on 4 x "
                              "NVIDIA H200, driver 580.159, NCCL 2.28.3, NVLS off"),
            std::string::npos)
      << floor.source;
  EXPECT_EQ(floor.conditions.ranks.low, 4);
  EXPECT_EQ(floor.conditions.ranks.high, 4);
  EXPECT_EQ(profile.rules[0].benchmark, reduce);
  EXPECT_EQ(profile.rules[0].every, Every::run) << "ranks of a collective have no value of their own";
  EXPECT_EQ(profile.rules[0].conditions.nvls, false);
  EXPECT_EQ(profile.rules[1].metric, "latency_us");
  EXPECT_DOUBLE_EQ(*profile.rules[1].limits.max, 20.6) << "a time is limited from above";
}

TEST(Floors, AcceptTheMachineThatTheyCameFromAndNotASlowerOne) {
  const Baseline baseline = baselines_of(nodes({700, 705, 710})).front();
  const auto profiles = proposed(baseline, nullptr);
  EXPECT_EQ(judge(nodes({702}), profiles, {}).state, State::pass);
  EXPECT_EQ(judge(nodes({660}), profiles, {}).state, State::fail);
}

TEST(Floors, OfRealMachinesAcceptThem) {
  const auto profiles = load_profiles(source / "thresholds");
  const Profile& h200 =
      *std::find_if(profiles.begin(), profiles.end(), [](const auto& p) { return p.name == "h200-sxm"; });
  const auto stored = source / "ci/baselines/h200-sxm";
  const std::map<std::string, std::vector<std::string>> launches{{"4ranks", {"1", "2", "3", "4", "5", "6", "7", "8"}},
                                                                 {"2ranks", {"1", "2", "3", "4", "5", "6"}}};
  for (const auto& [ranks, folders] : launches) {
    auto floors = proposed(read_baseline({stored / ranks}), &h200);
    EXPECT_GT(floors.front().rules.size(), 30u);
    EXPECT_EQ(floors.front().peak, h200.peak);
    const Measured first(read_results(std::vector{stored / ranks / folders.front()}));
    const Verdict alone = judge(first, floors, {});
    EXPECT_EQ(alone.state, State::no_reference) << "floors say nothing of what pre-flight read, and what was waived";
    floors.front().excused = {"preflight", "train_step", "checkpoint", "pairs"};
    for (const auto& launch : folders) {
      EXPECT_EQ(judge(read_results(std::vector{stored / ranks / launch}), floors, {}).state, State::pass)
          << ranks << "/" << launch;
    }
  }
}

TEST(Floors, AboveWhatPhysicsAllowsAreNotProposed) {
  auto profiles =
      testing_support::profile("  - {benchmark: \"" + gemm + "\", metric: tflops, every: run, min: 1, source: s}\n");
  const Baseline baseline = baselines_of(nodes({1400, 1401})).front();
  const std::string text = floors_yaml(baseline, "test", &profiles.front(), {});
  EXPECT_NE(text.find("limit for " + gemm), std::string::npos);
  EXPECT_EQ(text.find("benchmark: \"" + gemm), std::string::npos);
}

TEST(Floors, RefuseSillyOptions) {
  const Baseline baseline = baselines_of(nodes({700})).front();
  for (const FloorOptions& options : {FloorOptions{0.5, 0.03}, {-0.1, 0.03}, {0.01, 1}, {0.01, -0.1}}) {
    EXPECT_THROW(floors_yaml(baseline, "x", nullptr, options), InputError);
  }
}

}  // namespace
}  // namespace shakedown::baseline_test
