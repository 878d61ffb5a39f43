// Tests whether the whole machine was measured: missing, additional or mixed ranks, hosts, GPUs and runs.
#include "thresholds/rules/machine.hpp"
#include "thresholds/rules/expectation.hpp"
#include "thresholds/rules/transport.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/rules/crashed.hpp"
#include "thresholds/rules/leaked_memory.hpp"
#include "thresholds/rules/start.hpp"

namespace shakedown::machine_test {
namespace {

using testing_support::Folder;
using testing_support::ResultsBuilder;

const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
const std::string hbm = "hbm/op:copy/engine:sm/bytes:4294967296";

ResultsBuilder healthy(int ranks = 4, int hosts = 1) {
  ResultsBuilder builder(ranks, hosts);
  builder.add(gemm, "tflops", 700);
  return builder;
}

const Finding* find(const std::vector<Finding>& findings, const std::string& key) {
  const auto found = std::find_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.key == key; });
  return found == findings.end() ? nullptr : &*found;
}

// Returns the finding of that key; without one, a finding that no test accepts.
Finding judged(const std::vector<Results>& results, const std::string& key, const JudgeOptions& options = {}) {
  const auto findings = judge_machine(results, options);
  const Finding* finding = find(findings, key);
  EXPECT_NE(finding, nullptr) << key;
  return finding == nullptr ? Finding{} : *finding;
}

JudgeOptions expecting(std::optional<int> ranks, std::optional<int> hosts = {}) {
  JudgeOptions options;
  options.expected = {ranks, hosts, {}};
  return options;
}

TEST(Machine, PassesWhenEverythingReportedOnce) {
  const auto findings = judge_machine({healthy().results()}, {});
  EXPECT_EQ(findings.size(), 7u);
  for (const Finding& finding : findings) EXPECT_EQ(finding.status, Status::pass) << finding.key << finding.detail;
}

TEST(Machine, RefusesFilesOfOneRunThatContradictEachOther) {
  const auto with = [](const auto& change) {
    ResultsBuilder other(4);
    other.add(hbm, "hbm_gb_per_s", 4000);
    change(other.context);
    return judged({healthy().results(), other.results("hbm.json")}, "machine/run_id");
  };
  EXPECT_EQ(with([](Context&) {}).status, Status::pass);
  EXPECT_EQ(with([](Context& c) { c.versions["nccl"] = std::nullopt; }).status, Status::pass) << "it was not asked";
  const Finding plan = with([](Context& c) { c.plan = 6; });
  EXPECT_EQ(plan.status, Status::invalid);
  EXPECT_NE(plan.detail.find("plans"), std::string::npos) << plan.detail;
  EXPECT_EQ(with([](Context& c) { c.suite.build_type = "Debug"; }).status, Status::invalid);
  EXPECT_EQ(with([](Context& c) { c.suite.dirty = !c.suite.dirty; }).status, Status::invalid);
  EXPECT_EQ(with([](Context& c) { c.backend = Backend::host; }).status, Status::invalid);
  EXPECT_EQ(with([](Context& c) { c.environment["NCCL_DEBUG"] = "INFO"; }).status, Status::pass) << "a log";
  const Finding setting = with([](Context& c) { c.environment["NCCL_MAX_NCHANNELS"] = "2"; });
  EXPECT_EQ(setting.status, Status::invalid);
  EXPECT_NE(setting.detail.find("settings of NCCL"), std::string::npos) << setting.detail;
  EXPECT_EQ(with([](Context& c) { c.tier = Tier::full; }).status, Status::invalid);
  EXPECT_EQ(with([](Context& c) { c.versions["driver"] = "570.1"; }).status, Status::invalid);
  EXPECT_EQ(with([](Context& c) { c.nccl.nvls = "on"; }).status, Status::invalid);
  EXPECT_EQ(with([](Context& c) { c.ranks[1].device = "NVIDIA H100"; }).status, Status::invalid);
  EXPECT_EQ(with([](Context& c) { c.ranks[1].memory_bytes = 1; }).status, Status::invalid);
  EXPECT_EQ(with([](Context& c) { c.ranks[1].power_limit_w = 500; }).status, Status::pass) << "the other has none";
  const Finding pci = with([](Context& c) { c.ranks[2].pci = "0000:ff:00.0", c.ranks[2].uuid.reset(); });
  EXPECT_NE(pci.detail.find("for rank 2"), std::string::npos) << pci.detail;
}

TEST(Machine, TakesFilesThatBeganWithinADayForOneRun) {
  const auto began = [](const std::string& other) {
    ResultsBuilder late(4);
    late.add(hbm, "hbm_gb_per_s", 4000).context.started = other;
    return judged({healthy().results(), late.results("hbm.json")}, "machine/run_id").status;
  };
  EXPECT_EQ(began("2026-11-22T05:00:00Z"), Status::pass);
  EXPECT_EQ(began("2026-11-22T05:00:01Z"), Status::invalid);
  EXPECT_EQ(began("2026-11-20T05:00:00Z"), Status::pass);
  EXPECT_EQ(began("2026-11-20T04:59:59Z"), Status::invalid);
}

TEST(Machine, RefusesFilesOfOneRunThatNameDifferentLimitsOfPower) {
  const auto with = [](double watts) {
    ResultsBuilder first(4), other(4);
    first.add(gemm, "tflops", 700).context.ranks[2].power_limit_w = 700;
    other.add(hbm, "hbm_gb_per_s", 4000).context.ranks[2].power_limit_w = watts;
    return judged({first.results("gemm.json"), other.results("hbm.json")}, "machine/run_id");
  };
  EXPECT_EQ(with(700).status, Status::pass);
  const Finding limits = with(500);
  EXPECT_EQ(limits.status, Status::invalid);
  EXPECT_NE(limits.detail.find("power"), std::string::npos) << limits.detail;
  EXPECT_NE(limits.detail.find("for rank 2"), std::string::npos) << limits.detail;
}

TEST(Machine, RefusesFilesOfOneRunWhoseBuildOrRowsCannotBe) {
  const auto with = [](const auto& change) {
    ResultsBuilder other(4);
    other.add(hbm, "hbm_gb_per_s", 4000);
    change(other);
    return judged({healthy().results(), other.results("hbm.json")}, "machine/run_id").status;
  };
  EXPECT_EQ(with([](ResultsBuilder& b) { b.context.suite.version = "0.2.0"; }), Status::invalid);
  EXPECT_EQ(with([](ResultsBuilder& b) { b.context.suite.git = "def5678"; }), Status::invalid);
  EXPECT_EQ(with([](ResultsBuilder& b) { b.context.ranks[3].uuid = "GPU-7"; }), Status::invalid);
  EXPECT_EQ(with([](ResultsBuilder& b) { b.context.ranks[3].uuid.reset(); }), Status::pass) << "it is not known";
  EXPECT_EQ(with([](ResultsBuilder& b) { b.add(gemm, "tflops", 700); }), Status::invalid) << "both have it";
  EXPECT_EQ(with([](ResultsBuilder& b) { b.add(hbm, "hbm_gb_per_s", 4000); }), Status::pass) << "a repetition";
}

TEST(Machine, RefusesAPreFlightOfOtherGpus) {
  for (const bool other : {false, true}) {
    ResultsBuilder builder(2);
    builder.add_facts("preflight/of:gpu", {}, {{"uuid", {"GPU-1000", other ? "GPU-7" : "GPU-1001"}}});
    const Finding finding = judged({builder.results()}, "machine/run_id");
    EXPECT_EQ(finding.status, other ? Status::invalid : Status::pass);
    EXPECT_EQ(finding.detail.find("for rank 1") != std::string::npos, other) << finding.detail;
  }
}

TEST(Machine, MissesAGpuThatMachinesOfThisKindHave) {
  const auto gpus = [](const ResultsBuilder& builder) {
    return *find(judge_machine({builder.results()}, {}, 8), "machine/gpus");
  };
  EXPECT_EQ(gpus(healthy(16, 2)).status, Status::pass);
  const Finding fell_off = gpus(healthy(7));
  EXPECT_EQ(fell_off.status, Status::missing);
  EXPECT_EQ(fell_off.worst->host, "node0");
  EXPECT_EQ(fell_off.value, 7);
  EXPECT_EQ(fell_off.limit->value, 8);
  EXPECT_NE(fell_off.detail.find("node0 shows 7 GPUs"), std::string::npos) << fell_off.detail;
  ResultsBuilder rented = healthy(4);
  rented.context.inventory[0].masked_gpus = 4;
  rented.context.inventory[0].mask = "CUDA_VISIBLE_DEVICES=0,1,2,3";
  EXPECT_EQ(gpus(rented).status, Status::pass) << "a part of a node";
}

TEST(Machine, HasNoGpuFindingsOnTheHostBackend) {
  const auto findings = judge_machine({ResultsBuilder::host().add("gemm/x:1", "tflops", 1).results()}, {});
  EXPECT_EQ(findings.size(), 5u);
  EXPECT_EQ(find(findings, "machine/gpus"), nullptr);
  EXPECT_EQ(find(findings, "machine/fault"), nullptr);
}

TEST(Machine, MissesTheEndOfARunThatBrokeOff) {
  auto builder = healthy();
  builder.context.complete = false;
  const Finding finding = judged({builder.results("gemm.json")}, "machine/complete");
  EXPECT_EQ(finding.status, Status::missing);
  EXPECT_NE(finding.detail.find("gemm.json"), std::string::npos);
  EXPECT_EQ(finding.next, "mpirun -np 4 build/bench/bench_gemm");
}

TEST(Machine, FailsWhereAProgramDiedAlsoIfItsFamilyWasMeasuredAfterwards) {
  auto after = healthy();
  EXPECT_FALSE(judge_crashed({after.results("gemm.json")}));
  after.context.crashed = {"p2p"};
  const auto finding = judge_crashed({healthy().results("gemm.json"), after.results("p2p.json")});
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->key, "machine/crashed");
  EXPECT_EQ(finding->status, Status::fail);
  EXPECT_TRUE(finding->counts());
  EXPECT_NE(finding->detail.find("crashed in p2p"), std::string::npos) << finding->detail;
}

TEST(Machine, NamesTheRankThatDiedIfTheLauncherOrTheOtherRanksNamedIt) {
  auto after = healthy();
  after.context.crashed = {"p2p"};
  after.context.dead_ranks = {{"p2p", 3}};
  const auto finding = judge_crashed({healthy().results("gemm.json"), after.results("p2p.json")});
  ASSERT_TRUE(finding);
  ASSERT_EQ(finding->offenders.size(), 1u);
  EXPECT_EQ(finding->offenders[0].rank, 3);
  EXPECT_EQ(finding->offenders[0].uuid, after.context.ranks[3].uuid);
  EXPECT_EQ(finding->detail.find("hung"), std::string::npos) << finding->detail;
  after.context.dead_ranks[0].hung = true;
  EXPECT_NE(judge_crashed({after.results("p2p.json")})->detail.find("hung"), std::string::npos);
  after.context.crashed = {"hbm", "p2p"};
  EXPECT_TRUE(judge_crashed({after.results("p2p.json")})->offenders.empty()) << "the death in hbm has no known rank";
  after.context.dead_ranks = {{"hbm", 99}, {"p2p", 99}};
  EXPECT_TRUE(judge_crashed({after.results("p2p.json")})->offenders.empty()) << "there is no such rank";
}

TEST(Machine, TellsOfTheMostMemoryThatAnyFamilyKept) {
  const auto with = [](const std::string& family, double mib) {
    auto kept = healthy();
    kept.context.ranks[1].memory_kept_mib = mib;
    auto results = kept.results(family + ".json");
    results.rows.resize(1);
    results.rows.front().key = Key(family + "/op:copy");
    return results;
  };
  for (const auto& files : {std::vector{with("hbm", 512), with("p2p", 128)}, {with("hbm", 128), with("p2p", 512)}}) {
    const auto findings = judge_leaked_memory(files, {});
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].value, 512);
  }
}

TEST(Machine, WarnsOfMemoryThatAFamilyOfCopiesDidNotGiveBack) {
  auto kept = healthy();
  const auto judged_in = [&kept](const std::string& family) {
    auto results = kept.results(family + ".json");
    results.rows.resize(1);
    results.rows.front().key = Key(family + "/op:copy");
    return judge_leaked_memory({results}, {});
  };
  for (auto& rank : kept.context.ranks) rank.memory_kept_mib = 64;
  EXPECT_TRUE(judged_in("hbm").empty());
  kept.context.ranks[2].memory_kept_mib = 512;
  const auto findings = judged_in("hbm");
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].key, "machine/memory/rank:2");
  EXPECT_EQ(findings[0].severity, Severity::warn);
  EXPECT_EQ(findings[0].worst->rank, 2);
  EXPECT_NE(findings[0].detail.find("512 MiB"), std::string::npos);
  EXPECT_NE(findings[0].detail.find("after hbm"), std::string::npos);
  EXPECT_TRUE(judged_in("allreduce").empty()) << "communicators stay";
  EXPECT_TRUE(judge_leaked_memory({kept.results()}, {}).empty()) << "nor does GEMM give all back";
  auto hbm_results = kept.results();
  hbm_results.rows.resize(1);
  hbm_results.rows.front().key = Key(hbm);
  EXPECT_EQ(judge_leaked_memory({hbm_results}, {{"hbm"}}).size(), 1u);
  EXPECT_TRUE(judge_leaked_memory({hbm_results}, {{"gemm"}}).empty()) << "another family is judged";
}

TEST(Machine, BlamesAProgramsDeathOnTheHostsThatWereLostWithIt) {
  auto left = healthy();
  left.context.crashed = {"p2p"};
  left.context.lost_hosts = {"node-b"};
  const std::vector<Results> files{healthy(8, 2).results("gemm.json"), left.results("p2p.json")};
  const auto finding = judge_crashed(files);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->status, Status::fail);
  ASSERT_EQ(finding->offenders.size(), 1u);
  EXPECT_EQ(finding->offenders[0].host, "node-b");
  left.context.crashed = {"p2p", "gemm"};
  EXPECT_TRUE(judge_crashed({left.results("p2p.json")})->offenders.empty()) << "one death has no host to its name";
}

TEST(Machine, AnAbsentHostIsAFindingOfItsOwnAndNoFaultOfTheOthers) {
  auto two = healthy(8, 2);
  two.context.absent = {{"node2", "ssh: connect to host node2 port 22: Connection refused"}};
  two.context.expected.hosts = 3;
  JudgeOptions options;
  for (const char* host : {"node0", "node1", "node2.local"}) options.roster.push_back({host, {}});
  for (const auto& judge : {JudgeOptions(), options}) {
    EXPECT_EQ(judged({two.results()}, "machine/hosts", judge).status, Status::pass);
  }
  const auto start = judge_start({two.results("a.json"), two.results("b.json")});
  ASSERT_EQ(start.size(), 1u);
  EXPECT_EQ(start[0].key, "machine/absent/host:node2");
  EXPECT_EQ(start[0].status, Status::missing);
  EXPECT_TRUE(start[0].counts());
  EXPECT_EQ(start[0].detail, "ssh: connect to host node2 port 22: Connection refused");
  EXPECT_EQ(start[0].worst->host, "node2");

  two.context.expected.hosts = 4;
  const Finding more = judged({two.results()}, "machine/hosts");
  EXPECT_EQ(more.status, Status::missing) << "a host that no launcher speaks of";
  const Finding ranks = judged({two.results()}, "machine/ranks", expecting(12));
  EXPECT_EQ(ranks.status, Status::missing);
  ASSERT_EQ(ranks.offenders.size(), 1u);
  EXPECT_EQ(ranks.offenders[0].host, "node2");
  EXPECT_EQ(judged({two.results()}, "machine/ranks", expecting(12, 3)).status, Status::pass) << "four of each host";
  EXPECT_EQ(judged({two.results()}, "machine/ranks", expecting(15, 3)).status, Status::missing);
  EXPECT_EQ(judged({two.results()}, "machine/ranks", expecting(8, 3)).status, Status::pass);
  two.context.absent = {{"node1", "it did not answer"}};
  EXPECT_EQ(judged({two.results()}, "machine/hosts", expecting({}, 3)).status, Status::missing) << "it did report";
}

TEST(Machine, KnowsFindingsThatAreAboutAbsentHostsAlone) {
  const std::vector<AbsentHost> absent{{"a.local", ""}, {"b", ""}};
  Finding finding;
  EXPECT_FALSE(is_of_absent(finding, absent)) << "it names no host";
  name_offenders(finding, {host_culprit("a"), host_culprit("b")});
  EXPECT_TRUE(is_of_absent(finding, absent));
  name_offenders(finding, {host_culprit("a"), host_culprit("c")});
  EXPECT_FALSE(is_of_absent(finding, absent));
  name_offenders(finding, std::vector<Culprit>(20, host_culprit("a")));
  EXPECT_FALSE(is_of_absent(finding, absent)) << "others are not named";
}

TEST(Machine, WarnsOfRanksThatDiedInTheirStart) {
  auto second = healthy();
  EXPECT_TRUE(judge_start({second.results()}).empty());
  second.context.start_attempts = 2;
  const auto findings = judge_start({healthy().results("a.json"), second.results("b.json")});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].key, "machine/start_attempts");
  EXPECT_EQ(findings[0].severity, Severity::warn);
  EXPECT_EQ(findings[0].value, 2);
}

TEST(Machine, FailsForFilesOfDifferentRuns) {
  auto other = healthy();
  other.context.run_id = "run-2";
  const std::vector<Results> mixed{healthy().results("a.json"), other.results("b.json")};
  const Finding finding = judged(mixed, "machine/run_id");
  EXPECT_EQ(finding.status, Status::fail);
  EXPECT_NE(finding.detail.find("b.json of run run-2"), std::string::npos) << finding.detail;
  JudgeOptions permitted;
  permitted.mixed_runs = true;
  EXPECT_EQ(judged(mixed, "machine/run_id", permitted).status, Status::pass);
  EXPECT_NE(judged(mixed, "machine/run_id", permitted).detail.find("--mixed-runs"), std::string::npos);
}

TEST(Machine, FailsForFilesOfBothBackends) {
  const std::vector<Results> mixed{healthy().results(), ResultsBuilder::host(4).add(hbm, "hbm_gb_per_s", 1).results()};
  EXPECT_EQ(judged(mixed, "machine/backend").status, Status::fail);
}

TEST(Machine, FailsForABackendOtherThanExpected) {
  JudgeOptions options;
  options.expected.backend = Backend::cuda;
  const auto host = ResultsBuilder::host().add(gemm, "tflops", 1).results();
  EXPECT_EQ(judged({host}, "machine/backend", options).status, Status::fail);
  EXPECT_EQ(judged({healthy().results()}, "machine/backend", options).status, Status::pass);
}

TEST(Machine, FailsWhenGpusAreOnTheBusButTheCpuWasMeasured) {
  auto builder = ResultsBuilder::host();
  builder.add(gemm, "tflops", 1).context.inventory[0].pci_gpus = 8;
  const Finding finding = judged({builder.results()}, "machine/backend");
  EXPECT_EQ(finding.status, Status::fail);
  EXPECT_EQ(finding.detail.rfind("node0 has 8 ", 0), 0U);
}

TEST(Machine, FailsForTheBackendThatTheRunItselfExpected) {
  auto builder = ResultsBuilder::host();
  builder.add(gemm, "tflops", 1).context.expected.backend = Backend::cuda;
  const Finding finding = judged({builder.results()}, "machine/backend");
  EXPECT_EQ(finding.status, Status::fail);
  EXPECT_NE(finding.detail.find("host, cuda "), std::string::npos);
  EXPECT_NE(finding.detail.find("--expect"), std::string::npos);
}

TEST(Machine, FailsWhenAMaskOrASchedulerPromisedGpusAndNoneIsThere) {
  auto builder = ResultsBuilder::host(2, 2);
  builder.add(gemm, "tflops", 1);
  HostFacts& host = builder.context.inventory[1];
  host.masked_gpus = 2;
  host.mask = "SLURM_JOB_GPUS=0,1";
  const Finding finding = judged({builder.results()}, "machine/backend");
  EXPECT_EQ(finding.status, Status::fail);
  EXPECT_EQ(finding.detail.rfind("node1 has 2 GPUs by SLURM_JOB_GPUS=0,1 ", 0), 0U);
  ASSERT_EQ(finding.offenders.size(), 1u);
  EXPECT_EQ(text(finding.offenders[0]), "node1");
  host.masked_gpus = 0;
  host.mask = "CUDA_VISIBLE_DEVICES=";
  EXPECT_EQ(judged({builder.results()}, "machine/backend").status, Status::pass)
      << "a mask of nothing promises nothing";
}

TEST(Machine, FailsWhenNvidiasDriverIsThereWithoutGpus) {
  auto builder = ResultsBuilder::host();
  builder.add(gemm, "tflops", 1).context.inventory[0].nvidia_driver = "/sys/module/nvidia";
  const Finding finding = judged({builder.results()}, "machine/backend");
  EXPECT_EQ(finding.status, Status::fail);
  EXPECT_EQ(finding.detail.rfind("node0 ", 0), 0U);
  EXPECT_NE(finding.detail.find("(/sys/module/nvidia)"), std::string::npos);
}

TEST(Machine, MissesTheNumberOfGpusOnABusThatNobodyRead) {
  auto builder = ResultsBuilder::host(2, 2);
  builder.add(gemm, "tflops", 1).context.inventory[1].pci_gpus = std::nullopt;
  const Finding unknown = judged({builder.results("gemm.json")}, "machine/backend");
  EXPECT_EQ(unknown.status, Status::missing);
  EXPECT_EQ(unknown.detail.rfind("gemm.json: ", 0), 0U);
  EXPECT_FALSE(unknown.next.empty());
  ASSERT_EQ(unknown.offenders.size(), 1u);
  EXPECT_EQ(text(unknown.offenders[0]), "node1");
  builder.context.inventory.pop_back();
  EXPECT_EQ(judged({builder.results()}, "machine/backend").status, Status::missing) << "not in the inventory at all";
  builder.context.inventory[0].pci_gpus = 8;
  EXPECT_EQ(judged({builder.results()}, "machine/backend").status, Status::fail) << "a GPU that is there comes first";
}

TEST(Machine, MissesRanksThatSomebodyExpected) {
  const Finding finding = judged({healthy(3).results()}, "machine/ranks", expecting(4));
  EXPECT_EQ(finding.status, Status::missing);
  EXPECT_EQ(finding.value, 3);
  EXPECT_EQ(finding.limit->value, 4);
  EXPECT_EQ(judged({healthy(4).results()}, "machine/ranks", expecting(4)).status, Status::pass);
  EXPECT_EQ(judged({healthy(5).results()}, "machine/ranks", expecting(4)).status, Status::fail) << "too many";
}

TEST(Machine, RemembersWhatTheRunExpected) {
  auto builder = healthy(3);
  builder.context.expected.ranks = 4;
  EXPECT_EQ(judged({builder.results()}, "machine/ranks").status, Status::missing);
}

TEST(Machine, FailsForFilesOfDifferentNumbersOfRanks) {
  const Finding finding = judged({healthy(4).results(), healthy(2).results()}, "machine/ranks");
  EXPECT_EQ(finding.status, Status::fail);
  EXPECT_EQ(finding.value, 2);
  EXPECT_EQ(finding.limit->value, 4);
}

TEST(Machine, FailsForAFileOfAnotherRunThanIsAskedFor) {
  JudgeOptions options;
  options.run_id = "run-1";
  EXPECT_EQ(judged({healthy().results()}, "machine/run_id", options).status, Status::pass);
  options.run_id = "run-2";
  EXPECT_EQ(judged({healthy().results()}, "machine/run_id", options).status, Status::fail);
}

TEST(Machine, NamesTheHostsThatHaveOtherRanksThanTheRosterSaysThoughAllAreThere) {
  JudgeOptions options;
  options.roster = {{"node0", 1}, {"node1", 3}};
  const Finding finding = judged({healthy(4, 2).results()}, "machine/ranks", options);
  EXPECT_EQ(finding.status, Status::missing);
  ASSERT_EQ(finding.offenders.size(), 2u);
  EXPECT_EQ(finding.offenders[0].host, "node0");
  EXPECT_EQ(finding.offenders[1].host, "node1");
}

TEST(Machine, MissesHostsThatSomebodyExpected) {
  const auto results = healthy(4, 2).results();
  EXPECT_EQ(judged({results}, "machine/hosts", expecting({}, 3)).status, Status::missing);
  EXPECT_EQ(judged({results}, "machine/hosts", expecting({}, 2)).status, Status::pass);
  EXPECT_EQ(judged({results}, "machine/hosts", expecting({}, 1)).status, Status::fail);
}

TEST(Machine, NamesTheHostsOfTheRosterThatDidNotReport) {
  JudgeOptions options;
  options.roster = {{"node0", {}}, {"node1", {}}, {"node7", {}}};
  const Finding finding = judged({healthy(4, 2).results()}, "machine/hosts", options);
  EXPECT_EQ(finding.status, Status::missing);
  ASSERT_EQ(finding.offenders.size(), 1u);
  EXPECT_EQ(text(finding.offenders[0]), "node7");
}

TEST(Machine, NamesTheHostsThatOneFileLacksAndAnotherKnows) {
  auto lost = healthy(4, 1);
  lost.context.lost_hosts = {"node1"};
  const std::vector<Results> files{healthy(8, 2).results("a.json"), lost.results("b.json")};
  const auto named = [&](const std::string& key, const JudgeOptions& options) {
    const Finding finding = judged(files, key, options);
    EXPECT_FALSE(finding.good()) << key;
    return finding.offenders.size() == 1 && finding.offenders[0].host == "node1";
  };
  EXPECT_TRUE(named("machine/ranks", {}));
  EXPECT_TRUE(named("machine/ranks", expecting(8)));
  EXPECT_TRUE(named("machine/hosts", {}));
  EXPECT_TRUE(named("machine/hosts", expecting({}, 2)));
}

TEST(Machine, NamesNoLostHostThatThisFileHas) {
  auto lost = healthy(4, 2);
  lost.context.lost_hosts = {"node1"};
  for (const char* key : {"machine/ranks", "machine/hosts"}) {
    const Finding finding = judged({lost.results()}, key, expecting(8, 4));
    EXPECT_EQ(finding.status, Status::missing) << key;
    EXPECT_TRUE(finding.offenders.empty()) << key << ": node1 was lost after this file";
  }
}

TEST(Machine, SaysHowManyHostsAndRanksWereExpectedOfAFileThatHasTooManyOrTooFew) {
  for (const int expected : {1, 3}) {
    const Finding hosts = judged({healthy(4, 2).results()}, "machine/hosts", expecting({}, expected));
    EXPECT_EQ(hosts.status, expected == 3 ? Status::missing : Status::fail);
    EXPECT_EQ(hosts.value, 2);
    EXPECT_EQ(hosts.limit->value, expected);
    EXPECT_NE(hosts.next, "");
  }
  const Finding right = judged({healthy(4, 2).results()}, "machine/hosts", expecting(4, 2));
  EXPECT_EQ(right.value, 2);
  EXPECT_EQ(right.limit->value, 2);
  const Finding ranks = judged({healthy(4, 2).results()}, "machine/ranks", expecting(4, 2));
  EXPECT_EQ(ranks.value, 4);
  EXPECT_EQ(ranks.limit->value, 4);
  EXPECT_FALSE(judged({healthy(4, 2).results()}, "machine/ranks").limit) << "with nothing to compare";
  EXPECT_FALSE(judged({healthy(4, 2).results()}, "machine/hosts").limit);
}

TEST(Machine, TellsTwoRanksOfOnePciAddressFromTwoHostsWithTheSameAddresses) {
  auto builder = healthy(4, 2);
  for (auto& rank : builder.context.ranks) rank.uuid.reset();
  EXPECT_EQ(judged({builder.results()}, "machine/unique_devices").status, Status::pass) << "each host has its own bus";
  builder.context.ranks[1].pci = builder.context.ranks[0].pci;
  const Finding shared = judged({builder.results()}, "machine/unique_devices");
  EXPECT_EQ(shared.status, Status::fail);
  ASSERT_EQ(shared.offenders.size(), 2u);
  EXPECT_EQ(shared.offenders[1].rank, 1);
  builder.context.ranks[2].pci.reset();
  builder.context.ranks[1].pci = "0000:ff:00.0";
  const Finding unknown = judged({builder.results()}, "machine/unique_devices");
  EXPECT_EQ(unknown.status, Status::missing);
  ASSERT_EQ(unknown.offenders.size(), 1u);
  EXPECT_EQ(unknown.offenders[0].rank, 2);
}

TEST(Machine, FailsForMoreGpusThanTheBusHas) {
  auto builder = healthy(4);
  builder.context.inventory[0].pci_gpus = 3;
  const Finding finding = judged({builder.results()}, "machine/gpus");
  EXPECT_EQ(finding.status, Status::fail);
  EXPECT_EQ(finding.value, 4);
  EXPECT_EQ(finding.limit->value, 3);
  EXPECT_EQ(finding.worst->host, "node0");
}

TEST(Machine, NamesHostsThatAreNotInTheRoster) {
  JudgeOptions options;
  options.roster = {{"node0", {}}};
  const Finding finding = judged({healthy(4, 2).results()}, "machine/hosts", options);
  EXPECT_EQ(finding.status, Status::fail);
  ASSERT_EQ(finding.offenders.size(), 1u);
  EXPECT_EQ(finding.offenders[0].host, "node1");
}

TEST(Machine, TakesAShortNameForTheLongOne) {
  JudgeOptions options;
  options.roster = {{"node0.cluster.local", 2}, {"node1.cluster.local", 2}};
  const auto results = healthy(4, 2).results();
  EXPECT_EQ(judged({results}, "machine/hosts", options).status, Status::pass);
  EXPECT_EQ(judged({results}, "machine/ranks", options).status, Status::pass);
}

TEST(Machine, NamesTheHostThatHasFewerRanksThanTheRosterSays) {
  JudgeOptions options;
  options.roster = {{"node0", 2}, {"node1", 3}};
  const Finding finding = judged({healthy(4, 2).results()}, "machine/ranks", options);
  EXPECT_EQ(finding.status, Status::missing);
  ASSERT_EQ(finding.offenders.size(), 1u);
  EXPECT_EQ(finding.offenders[0].host, "node1");
  EXPECT_EQ(finding.offenders[0].value, 2);
}

TEST(Machine, MissesGpusOfTheBusThatNobodyMeasured) {
  auto builder = healthy(7);
  builder.context.inventory[0].pci_gpus = 8;
  const Finding finding = judged({builder.results("gemm.json")}, "machine/gpus");
  EXPECT_EQ(finding.status, Status::missing);
  EXPECT_EQ(finding.detail.rfind("7 GPUs of node0 ", 0), 0U);
  EXPECT_NE(finding.detail.find(" 8 (gemm.json)"), std::string::npos);
}

TEST(Machine, CountsOnlyTheGpusThatAMaskAllowsAndSaysSo) {
  auto builder = healthy(2);
  builder.context.inventory[0] = {"node0", 8, 2, 2, "CUDA_VISIBLE_DEVICES=0,1"};
  const Finding finding = judged({builder.results()}, "machine/gpus");
  EXPECT_EQ(finding.status, Status::pass);
  EXPECT_NE(finding.detail.find("CUDA_VISIBLE_DEVICES=0,1"), std::string::npos);
  auto whole = builder;
  whole.context.inventory[0].pci_gpus = 2;
  EXPECT_EQ(judged({whole.results()}, "machine/gpus").detail, judged({healthy(2).results()}, "machine/gpus").detail)
      << "a mask that hides none is no news";
  builder.context.inventory[0].masked_gpus = 3;
  EXPECT_EQ(judged({builder.results()}, "machine/gpus").status, Status::missing);
}

TEST(Machine, DoesNotPassWhenTheNumberOfGpusIsUnknown) {
  auto builder = healthy();
  builder.context.inventory.clear();
  EXPECT_EQ(judged({builder.results()}, "machine/gpus").status, Status::missing);
  EXPECT_EQ(find(judge_machine({builder.results()}, expecting(4)), "machine/gpus"), nullptr)
      << "an expected number of ranks overrules the bus";
}

TEST(Machine, FailsWhenTwoRanksShareAGpu) {
  auto builder = healthy();
  builder.context.ranks[3].uuid = builder.context.ranks[1].uuid;
  const Finding finding = judged({builder.results()}, "machine/unique_devices");
  EXPECT_EQ(finding.status, Status::fail);
  ASSERT_EQ(finding.offenders.size(), 2u);
  EXPECT_EQ(finding.offenders[0].rank, 1);
  EXPECT_EQ(finding.offenders[1].rank, 3);
}

TEST(Machine, WarnsOfAnInjectedFault) {
  auto builder = healthy();
  builder.context.fault = "slow:10@1";
  const Finding finding = judged({builder.results()}, "machine/fault");
  EXPECT_EQ(finding.status, Status::fail);
  EXPECT_FALSE(finding.counts());
}

std::optional<Finding> transport_finding(const ResultsBuilder& builder, bool nvlink = true) {
  Profile profile;
  if (nvlink) profile.peak["nvlink_gb_per_s"] = 450;
  return judge_transport({builder.results()}, profile);
}

TEST(Transport, ByPeerCopiesIsGood) {
  auto builder = healthy(2);
  builder.context.nccl.transport = "P2P";
  const auto finding = transport_finding(builder);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->status, Status::pass);
}

TEST(Transport, ThatFellBackFailsAndNamesTheSetting) {
  for (const char* setting : {"NCCL_P2P_DISABLE", "/etc/nccl.conf: NCCL_P2P_DISABLE"}) {
    auto builder = healthy(2);
    builder.context.nccl.transport = "SHM";
    builder.context.nccl.links = {{0, 1, "SHM/direct/direct"}, {1, 0, "SHM/direct/direct"}};
    builder.context.environment[setting] = "1";
    builder.context.environment["NCCL_NVLS_ENABLE"] = "0";
    const auto finding = transport_finding(builder);
    ASSERT_TRUE(finding);
    EXPECT_EQ(finding->status, Status::fail);
    EXPECT_TRUE(finding->counts());
    EXPECT_NE(finding->detail.find("configuration"), std::string::npos);
    EXPECT_NE(finding->detail.find("(rank 0 to 1 by SHM/direct/direct,1 to 0 by SHM/direct/direct)"),
              std::string::npos);
    EXPECT_NE(finding->detail.find(std::string(setting) + "=1"), std::string::npos);
    EXPECT_EQ(finding->detail.find("NVLS"), std::string::npos);
    builder.context.nccl.links_left_out = 7;
    EXPECT_NE(transport_finding(builder)->detail.find("1 to 0 by SHM/direct/direct and 7 more)"), std::string::npos);
    EXPECT_NE(finding->next.find(setting), std::string::npos);
    EXPECT_EQ(finding->offender_count, 2u);
    EXPECT_EQ(finding->worst->rank, 0);
  }
}

TEST(Transport, NamesTenLinksAndHowManyMoreThereAre) {
  const auto said = [](int links) {
    auto builder = healthy(12);
    builder.context.nccl.transport = "SHM";
    for (int src = 0; src < links; ++src) builder.context.nccl.links.push_back({src, 11, "SHM/direct"});
    return transport_finding(builder)->detail;
  };
  EXPECT_NE(said(10).find("9 to 11 by SHM/direct)"), std::string::npos) << said(10);
  EXPECT_NE(said(11).find("9 to 11 by SHM/direct and 1 more)"), std::string::npos) << said(11);
}

TEST(Transport, OfSomeLinksOnlyFailsWithoutASettingToBlame) {
  auto builder = healthy(4);
  builder.context.nccl.transport = "NET,P2P";
  builder.context.nccl.links = {{2, 3, "NET/Socket/0"}, {0, 1, "P2P/CUMEM"}};
  builder.context.environment["NCCL_P2P_DISABLE"] = "0";
  const auto finding = transport_finding(builder);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->status, Status::fail);
  EXPECT_EQ(finding->worst->rank, 2);
  EXPECT_EQ(finding->offender_count, 1u);
  EXPECT_NE(finding->detail.find("(rank 2 to 3 by NET/Socket/0)"), std::string::npos);
  EXPECT_EQ(finding->detail.find("NCCL_P2P_DISABLE"), std::string::npos);
}

TEST(Transport, IsNotJudgedWhereItIsUnknownOrWithoutNvlink) {
  auto builder = healthy(2);
  EXPECT_FALSE(transport_finding(builder));
  builder.context.nccl.transport = std::nullopt;
  EXPECT_FALSE(transport_finding(builder));
  builder.context.nccl.transport = "SHM";
  EXPECT_FALSE(transport_finding(builder, false));
}

TEST(Transport, ThatSomebodysDebugLevelHidesIsNoted) {
  auto builder = healthy(2);
  builder.context.environment["NCCL_DEBUG"] = "WARN";
  EXPECT_TRUE(judge({builder.results()}, {}, {}).notes.empty()) << "a product uses no NCCL";
  builder.add("allreduce/dtype:f32/bytes:8", "latency_us", 8);
  const auto notes = judge({builder.results()}, {}, {}).notes;
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("NCCL_DEBUG=WARN"), std::string::npos);
  builder.context.nccl.transport = "P2P";
  EXPECT_TRUE(judge({builder.results()}, {}, {}).notes.empty());
}

TEST(Transport, ThatNobodyRecordedIsNoted) {
  auto builder = healthy(2);
  builder.add("allreduce/dtype:f32/bytes:8", "latency_us", 8);
  builder.context.nccl.transport = std::nullopt;
  const auto notes = judge({builder.results("allreduce.json")}, {}, {}).notes;
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].rfind("allreduce.json", 0), 0U);
}

TEST(Roster, IsReadLineByLine) {
  const Folder folder;
  const auto roster = read_roster(folder.write("hosts", "# all\nnode0\nnode1 8\n\n  node2 slots=4  # new\n"));
  ASSERT_EQ(roster.size(), 3u);
  EXPECT_EQ(roster[0].ranks, std::nullopt);
  EXPECT_EQ(roster[1].ranks, 8);
  EXPECT_EQ(roster[2].host, "node2");
  EXPECT_EQ(roster[2].ranks, 4);
}

TEST(Roster, OfFortyThousandHostsIsReadAtOnce) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += "node" + std::to_string(i) + (i % 2 == 0 ? ".cluster.local\n" : " 8\n");
  const auto file = folder.write("hosts", text);
  const auto began = std::chrono::steady_clock::now();
  const auto roster = read_roster(file);
  EXPECT_EQ(roster.size(), 40'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(2))
      << "15 s where each was compared with all";
  for (const std::string twice : {"node0", "NODE1", "node1.cluster.local", "node2.Cluster.local"}) {
    EXPECT_THROW(read_roster(folder.write("hosts", text + twice + "\n")), InputError) << twice;
  }
  EXPECT_EQ(read_roster(folder.write("hosts", text + "node0.other.local\n")).size(), 40'001u);
}

TEST(Roster, UnderstandsTheRangesOfSchedulers) {
  const Folder folder;
  const auto roster = read_roster(folder.write("hosts", "node[1-3,07] slots=8\nlogin\n"));
  ASSERT_EQ(roster.size(), 5u);
  EXPECT_EQ(roster[3].host, "node07");
  EXPECT_EQ(roster[3].ranks, 8);
  EXPECT_EQ(roster[4].host, "login");
}

TEST(Roster, IsRefusedWithFileAndLine) {
  const Folder folder;
  const auto refusal = [&](const std::string& roster) -> std::string {
    const auto file = folder.write("hosts", roster);
    try {
      read_roster(file);
    } catch (const InputError& error) {
      return std::string(error.what()).substr(file.string().size());
    }
    return "accepted";
  };
  EXPECT_EQ(refusal("node0\nnode1 many\n").rfind(":2:1: \"many\" ", 0), 0u);
  EXPECT_EQ(refusal("node0 0\n").rfind(":1:1: ", 0), 0u);
  EXPECT_EQ(refusal("node0 8 x\n").rfind(":1:1: \"x\" ", 0), 0u);
  EXPECT_EQ(refusal("node0\nnode0\n").rfind(":2:1: host node0 is listed twice", 0), 0u);
  EXPECT_EQ(refusal("node[1-3]\nnode2\n").rfind(":2:1: host node2 ", 0), 0u);
  EXPECT_EQ(refusal("a\nnode[1-\n").rfind(":2:1: host list \"node[1-\": ", 0), 0u);
  EXPECT_EQ(refusal("# nobody\n").rfind(":1:1: no hosts", 0), 0u);
  EXPECT_THROW(read_roster(folder.path() / "none"), InputError);
}

TEST(Network, OfSocketsBesideUpInfiniBandPortsFailsAndNamesTheSetting) {
  const auto finding = [](const char* via, double ports, double down, bool set) {
    ResultsBuilder builder(4, 2);
    builder.context.nccl.links = {{0, 1, "P2P/CUMEM"}, {1, 2, via}};
    if (set) builder.context.environment["NCCL_IB_DISABLE"] = "1";
    const std::optional<double> none;
    builder.add_facts("preflight/of:host",
                      {{"ib_ports", {ports, none, ports, none}}, {"ib_ports_down", {down, none, down, none}}}, {});
    return judge_network({builder.results()});
  };
  const auto sockets = finding("NET/Socket/0", 8, 0, true);
  ASSERT_TRUE(sockets);
  EXPECT_EQ(sockets->status, Status::fail);
  EXPECT_TRUE(sockets->counts());
  EXPECT_NE(sockets->detail.find("2 hosts, node0 (8); set is NCCL_IB_DISABLE=1"), std::string::npos) << sockets->detail;
  EXPECT_EQ(sockets->worst->rank, 1);
  EXPECT_EQ(finding("NET/Socket/0", 8, 0, false)->detail.find("NCCL_IB_DISABLE"), std::string::npos);
  EXPECT_FALSE(finding("NET/IB/0", 8, 0, true));
  EXPECT_FALSE(finding("NET/Socket/0", 8, 8, true)) << "all are down";
  EXPECT_FALSE(finding("NET/Socket/0", 0, 0, true));
}

}  // namespace
}  // namespace shakedown::machine_test
