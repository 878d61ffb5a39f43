// Tests the decision about each node after a verdict.
#include "thresholds/judge/nodes.hpp"

#include <gtest/gtest.h>

#include <map>

#include "base/text.hpp"
#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"

namespace shakedown::nodes_test {
namespace {

using testing_support::profile;
using testing_support::ResultsBuilder;
using testing_support::Values;

const std::string hbm = "hbm/op:copy/engine:sm/bytes:4294967296";
const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
const std::string sum = "allreduce/dtype:f32/bytes:1073741824";
const std::string rules =
    "  - {benchmark: \"" + hbm + "\", metric: hbm_gb_per_s, every: rank, min: 3900, hosts: [1, 100], source: s}\n";
const std::string sum_rule =
    "  - {benchmark: \"" + sum + "\", metric: busbw_gb_per_s, every: run, min: 300, hosts: [1, 100], source: s}\n";

ResultsBuilder run(const std::vector<std::size_t>& slow = {}) {
  ResultsBuilder builder(16, 4);
  Values values(16, 4200.0);
  for (const std::size_t rank : slow) values[rank] = 3000;
  builder.add(hbm, "hbm_gb_per_s", slow.empty() ? 4200 : 3000, values);
  return slow.empty() ? builder : builder.repeated();
}

NodeList decided(const ResultsBuilder& builder, const std::string& with = rules, const JudgeOptions& options = {}) {
  return decide_nodes(judge({builder.results()}, profile(with), options));
}

TEST(Nodes, AreAllGoodAfterAPass) {
  const NodeList list = decided(run());
  ASSERT_EQ(list.nodes.size(), 4u);
  for (const auto& node : list.nodes) EXPECT_EQ(name(node.state), "good") << node.host;
  EXPECT_TRUE(list.undecided_because.empty());
  EXPECT_EQ(host_file(list, NodeState::good), "node0 slots=4\nnode1 slots=4\nnode2 slots=4\nnode3 slots=4\n");
  EXPECT_EQ(host_file(list, NodeState::bad), "# no bad nodes\n");
}

TEST(Nodes, HaveOneLineEachWhateverTheirHostIsCalled) {
  auto builder = run();
  for (auto& rank : builder.context.ranks) {
    if (rank.host == "node1") rank.host = "node1\nnode9 slots=8\033[2J";
  }
  builder.context.inventory[1].host = builder.context.ranks[4].host;
  const NodeList list = decided(builder);
  EXPECT_EQ(list.nodes.size(), 4u);
  EXPECT_EQ(host_file(list, NodeState::good),
            "node0 slots=4\nnode1?node9?slots=8?[2J slots=4\nnode2 slots=4\nnode3 slots=4\n");
  NodeList by_hand = list;
  by_hand.nodes[1].host = "a\nb";
  by_hand.undecided_because = {"c\nd"};
  EXPECT_EQ(host_file(by_hand, NodeState::good), "node0 slots=4\na?b slots=4\nnode2 slots=4\nnode3 slots=4\n");
  by_hand.nodes.clear();
  EXPECT_TRUE(host_file(by_hand, NodeState::good).ends_with(": c d\n"));
}

TEST(Nodes, LeaveWithASlowGpu) {
  const NodeList list = decided(run({6}));
  EXPECT_EQ(host_file(list, NodeState::bad), "node1 slots=4\n");
  EXPECT_EQ(host_file(list, NodeState::good), "node0 slots=4\nnode2 slots=4\nnode3 slots=4\n");
  EXPECT_EQ(name(list.nodes[1].action), "ISOLATE");
  ASSERT_FALSE(list.nodes[1].reasons.empty());
  EXPECT_EQ(list.nodes[1].reasons[0].rfind("node1 GPU 2 (rank 6, GPU-1006, 0000:12:00.0): slow GPU", 0), 0u)
      << list.nodes[1].reasons[0];
  EXPECT_FALSE(list.nodes[1].next.empty());
}

TEST(Nodes, AreNotProvenGoodByAMachineWithoutReference) {
  const NodeList list = decide_nodes(judge({run().results()}, {}, {}));
  for (const auto& node : list.nodes) EXPECT_EQ(name(node.state), "undecided");
  ASSERT_EQ(list.undecided_because.size(), 1u);
  EXPECT_EQ(host_file(list, NodeState::good).rfind("# no good nodes: no profile ", 0), 0u);
}

TEST(Nodes, AreNotProvenGoodWhereACollectiveIsSlowAndNobodyIsToBlame) {
  auto builder = run();
  builder.add(sum, "busbw_gb_per_s", 100);
  const NodeList list = decided(builder, rules + sum_rule);
  for (const auto& node : list.nodes) EXPECT_EQ(name(node.state), "undecided");
}

TEST(Nodes, StayWhereASlowCollectiveHasItsCulprit) {
  auto builder = run({6});
  builder.add(sum, "busbw_gb_per_s", 290);
  const NodeList list = decided(builder, rules + sum_rule);
  EXPECT_EQ(host_file(list, NodeState::bad), "node1 slots=4\n");
  EXPECT_EQ(name(list.nodes[0].state), "good");
}

TEST(Nodes, WithWrongDataAllLeave) {
  const std::string key = "gemm/dtype:f32/m:8/n:8/k:8", one = "wrong data: rank 1 (node0 GPU-1001): 3 of 64 failed";
  auto both = run(), older = run({6});
  both.add_error(key, one + "; also wrong: rank 13 (node3 GPU-1013)", {1, 13});
  older.add_error(key, one);
  const auto with =
      rules + "  - {benchmark: \"" + key + "\", metric: tflops, every: rank, min: 1, hosts: 4, source: s}\n";
  const NodeList list = decided(both, with);
  EXPECT_EQ(host_file(list, NodeState::bad), "node0 slots=4\nnode3 slots=4\n");
  EXPECT_EQ(host_file(list, NodeState::good), "node1 slots=4\nnode2 slots=4\n");
  const NodeList unknown = decided(older, with);
  EXPECT_EQ(host_file(unknown, NodeState::bad), "node1 slots=4\n");
  EXPECT_EQ(name(unknown.nodes[0].state), "undecided") << "the row names no rank";
}

TEST(Nodes, AreNotBlamedForTheRateOfAStepThatAllRanksShare) {
  const std::string step = "lora_step/model:qwen2_7b/batch:2/seq:4096";
  ResultsBuilder builder(8, 2);
  builder.add(step, "tokens_per_s", 14700);
  const NodeList list =
      decided(builder, "  - {benchmark: \"" + step +
                           "\", metric: tokens_per_s, every: rank, min: 15900, hosts: 2, source: s}\n");
  for (const auto& node : list.nodes) EXPECT_EQ(name(node.state), "undecided") << node.host;
}

TEST(Nodes, ThatDidNotReportAreBad) {
  JudgeOptions options;
  for (const char* host : {"node0", "node1", "node2", "node3", "node9"}) options.roster.push_back({host, {}});
  const NodeList list = decided(run(), rules, options);
  ASSERT_EQ(list.nodes.size(), 5u);
  EXPECT_EQ(list.nodes[4].host, "node9");
  EXPECT_EQ(name(list.nodes[4].action), "ISOLATE");
  EXPECT_EQ(host_file(list, NodeState::bad), "node9\n");
}

std::map<std::string, int> nodes_with_lost_memory(int hosts, std::size_t bad_hosts) {
  ResultsBuilder fleet(hosts, hosts);
  Values lost(static_cast<std::size_t>(hosts), 0.0);
  for (std::size_t host = 0; host < bad_hosts; ++host) lost[host] = 1;
  fleet.add(hbm, "hbm_gb_per_s", 4200);
  fleet.add_facts("preflight/of:gpu", {{"ecc_uncorrected", lost}}, {});
  const auto with =
      rules + "  - {benchmark: \"preflight/of:gpu\", metric: ecc_uncorrected, every: rank, equals: 0, source: s}\n";
  std::map<std::string, int> nodes_in;
  for (const NodeDecision& node : decided(fleet, with).nodes) ++nodes_in[std::string(name(node.state))];
  return nodes_in;
}

TEST(Nodes, AreAllNamedHoweverManyHaveTheSameFault) {
  EXPECT_EQ(nodes_with_lost_memory(64, 13), (std::map<std::string, int>{{"bad", 13}, {"good", 51}}));
  EXPECT_EQ(nodes_with_lost_memory(1200, 1001), (std::map<std::string, int>{{"bad", 1000}, {"undecided", 200}}))
      << "a finding names a thousand; what is not named is not good";
}

TEST(Nodes, ThatDidNotStartAreBadForTheLaunchersReasonAndTheOthersGood) {
  auto three = run();
  three.context.absent = {{"node9", "Host key verification failed."}};
  JudgeOptions options;
  options.expected.hosts = three.context.hosts + 1;
  const Verdict verdict = judge(Measured({three.results()}), profile(rules), options);
  EXPECT_EQ(verdict.state, State::fail);
  const NodeList list = decide_nodes(verdict);
  EXPECT_EQ(host_file(list, NodeState::bad), "node9\n");
  EXPECT_TRUE(list.undecided_because.empty()) << joined(list.undecided_because, "\n");
  ASSERT_EQ(list.nodes.back().reasons.size(), 1u);
  EXPECT_NE(list.nodes.back().reasons[0].find("Host key verification failed."), std::string::npos);
}

TEST(Nodes, ThatWereLostWhileMeasuringAreBadAndTheOthersGood) {
  ResultsBuilder left(12, 3);
  left.context.crashed = {"gemm"};
  left.context.lost_hosts = {"node3"};
  left.add(gemm, "tflops", 700);
  const auto both =
      rules + "  - {benchmark: \"" + gemm + "\", metric: tflops, every: rank, min: 600, hosts: [1, 100], source: s}\n";
  const auto files = [&] { return std::vector{run().results("hbm.json"), left.results("gemm.json")}; };
  for (const auto expected : {std::optional<int>(), std::optional(4)}) {
    JudgeOptions options;
    options.expected.hosts = expected;
    const Verdict verdict = judge(files(), profile(both), options);
    EXPECT_EQ(verdict.exit_code, 1);
    const NodeList list = decide_nodes(verdict);
    EXPECT_EQ(host_file(list, NodeState::bad), "node3 slots=4\n") << joined(list.undecided_because, "\n");
    EXPECT_EQ(host_file(list, NodeState::good), "node0 slots=4\nnode1 slots=4\nnode2 slots=4\n");
  }
  left.context.lost_hosts = {};
  for (const auto& node : decide_nodes(judge(files(), profile(both), {})).nodes) EXPECT_NE(name(node.state), "good");
}

TEST(Nodes, AreNotProvenGoodByARunThatBrokeOffOrByOneFamilyOrByTheProcessors) {
  auto broken = run();
  broken.context.complete = false;
  JudgeOptions unfinished, one;
  unfinished.unfinished = "it lives";
  one.families = {{"hbm"}};
  for (const NodeList& list :
       {decided(broken), decided(run(), rules, unfinished), decided(run(), rules + sum_rule, one)}) {
    for (const auto& node : list.nodes) EXPECT_EQ(name(node.state), "undecided");
    EXPECT_EQ(list.undecided_because.size(), 1u);
  }
  Verdict host;
  host.state = State::host_only;
  host.nodes = {{"node0", 2}};
  EXPECT_EQ(name(decide_nodes(host).nodes[0].state), "undecided");
}

TEST(Nodes, AreMonitoredForWhatFailsNothing) {
  Verdict verdict;
  verdict.state = State::pass;
  verdict.nodes = {{"node0", 8}, {"node1", 8}};
  Diagnosis d;
  d.causes = {Cause::slow_silicon};
  d.fails = false;
  d.places = {Culprit{3, "node1", {}, {}, {}}};
  verdict.culprits = {d};
  const NodeList list = decide_nodes(verdict);
  EXPECT_EQ(name(list.nodes[1].state), "good");
  EXPECT_EQ(name(list.nodes[1].action), "MONITOR");
}

TEST(Nodes, AreGoodWhereTheNetworkBetweenThemIsAtFault) {
  Verdict verdict;
  verdict.state = State::fail;
  verdict.nodes = {{"node0", 8}, {"node1", 8}, {"node2", 8}};
  Diagnosis leaf;
  leaf.causes = {Cause::slow_leaf};
  leaf.places = {Culprit{0, "node0", {}, {}, {}}, Culprit{8, "node1", {}, {}, {}}};
  Finding pairs, slow_sum, slow_memory;
  pairs.code = Code::pairs;
  pairs.key = Key("pairs");
  pairs.status = slow_sum.status = slow_memory.status = Status::fail;
  pairs.offenders = leaf.places;
  pairs.offender_count = 2;
  slow_sum.key = Key(sum);
  slow_sum.metric = "busbw_gb_per_s";
  slow_sum.value = 100;
  verdict.culprits = {leaf};
  verdict.findings = {pairs, slow_sum};
  const NodeList list = decide_nodes(verdict);
  for (const auto& node : list.nodes) EXPECT_EQ(name(node.state), "good") << node.host;
  EXPECT_EQ(name(list.nodes[0].action), "MONITOR");
  EXPECT_EQ(list.nodes[0].reasons.size(), 1u) << "the finding repeats what the suspect says";
  slow_memory.key = Key(hbm);
  slow_memory.metric = "hbm_gb_per_s";
  slow_memory.value = 3000;
  verdict.findings.push_back(slow_memory);
  for (const auto& node : decide_nodes(verdict).nodes)
    EXPECT_EQ(name(node.state), "undecided") << "no network makes memory slow";
}

TEST(Nodes, AreResetForALowClockAndIsolatedForHeat) {
  Verdict verdict;
  verdict.state = State::fail;
  verdict.nodes = {{"node0", 8}, {"node1", 8}};
  Diagnosis d;
  d.causes = {Cause::power_or_heat};
  d.places = {Culprit{3, "node0", {}, {}, {}}};
  d.telemetry = "1026 MHz (peers 1465); also in use by pid 7 thermald";
  Diagnosis hot = d;
  hot.places = {Culprit{9, "node1", {}, {}, {}}};
  hot.heat = true;
  verdict.culprits = {d, hot};
  const NodeList list = decide_nodes(verdict);
  EXPECT_EQ(name(list.nodes[0].action), "RESET");
  EXPECT_EQ(name(list.nodes[1].action), "ISOLATE");
  EXPECT_EQ(name(list.nodes[0].state), "bad");
}

TEST(Nodes, OfOneHostGetASettingAndAreNotIsolatedIfAllClocksAreSet) {
  const std::string key = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
  ResultsBuilder builder(4, 1);
  builder.add(key, "tflops", 500, {500, 501, 502, 500}).by_rank("throttled", {1, 1, 1, 1});
  for (int rank = 0; rank < 4; ++rank) builder.throttle(rank, {{"applications_setting", 1.0}});
  builder.repeated();
  const auto verdict = judge({builder.results()},
                             profile("  - {benchmark: \"" + key +
                                     "\", metric: tflops, every: rank, reference: 750, margin: 0.1, source: s}\n"),
                             {});
  ASSERT_EQ(verdict.culprits.size(), 1u);
  EXPECT_EQ(verdict.culprits[0].causes, std::vector{Cause::configuration});
  EXPECT_EQ(verdict.culprits[0].next, "ssh node0 nvidia-smi -rgc");
  const auto list = decide_nodes(verdict);
  ASSERT_EQ(list.nodes.size(), 1u);
  EXPECT_EQ(list.nodes[0].state, NodeState::bad);
  EXPECT_EQ(list.nodes[0].action, Action::reset);
  EXPECT_EQ(list.nodes[0].next, "ssh node0 nvidia-smi -rgc");
}

}  // namespace
}  // namespace shakedown::nodes_test
