// Fleets whose nodes were measured separately: generated runs with known faults, in memory and as folders.
#include "report/fleet.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/process.hpp"
#include "tests/nightly.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/ledger/ledger.hpp"
#include "thresholds/rehearsal/fleet.hpp"
#include "thresholds/rules/applicability.hpp"
#include "thresholds/rules/site.hpp"

namespace shakedown::fleet_test {
namespace {

namespace fs = std::filesystem;

using rehearsal::Fault;
using rehearsal::Weakness;
using testing_support::is_nightly;
using testing_support::seeds;

const fs::path source = SHAKEDOWN_SOURCE_DIR;
constexpr std::uint64_t first_seed = 71000;  // limits were not tuned with these

struct Cluster {
  int nodes = 8, gpus = 8;
  std::uint64_t seed = first_seed;
  std::vector<Fault> faults = {};  // Fault::host is the node
  std::uint64_t launch = 0;
};

std::string name_of(int node) { return fmt::format("n{:03}", node); }

/// The run of one node, as if it were the only one.
std::vector<Results> run_of(const Cluster& cluster, int node, const std::string& started = "2026-11-25T06:00:00Z") {
  static const rehearsal::Noise noise = rehearsal::read_noise(source / "thresholds/rehearsal/noise/calm.yaml");
  rehearsal::Order order;
  order.shape.gpus = cluster.gpus;
  order.noise = noise;
  order.launch = cluster.launch;
  order.seed = cluster.seed * 10000 + static_cast<std::uint64_t>(node);
  for (Fault fault : cluster.faults) {
    if (fault.host != node) continue;
    fault.host = 0;
    order.faults.push_back(fault);
  }
  auto files = rehearsal::Fleet(order).results();
  for (Results& file : files) {
    file.context.started = started;
    for (RankFacts& rank : file.context.ranks) rank.host = name_of(node);
    for (HostFacts& host : file.context.inventory) host.host = name_of(node);
  }
  return files;
}

Verdict verdict_of(const Measured& measured) {
  static const auto profiles = load_profiles(source / "thresholds");
  const Profile* const ours = select_profile(measured.files, profiles).profile;
  return judge(measured, References({on_site(*ours, nullptr, measured)}), {});
}

Fleet judged(const Cluster& cluster) {
  FleetJudge fleet;
  for (int node = 0; node < cluster.nodes; ++node) {
    const Measured measured(run_of(cluster, node));
    fleet.add(measured.files, verdict_of(measured), {name_of(node)}, name_of(node), true);
  }
  return std::move(fleet).judge({}, {});
}

TEST(AFleet, ThatIsHealthyAccusesNoNode) {
  for (int i = 0; i < seeds(20); ++i) {
    const Fleet fleet = judged({.seed = first_seed + static_cast<std::uint64_t>(i)});
    EXPECT_EQ(fleet.state, State::pass) << i << ": " << headline_text(fleet);
    EXPECT_TRUE(fleet.list().undecided_because.empty());
    EXPECT_EQ(fleet.gpus, 64);
    EXPECT_TRUE(std::ranges::all_of(fleet.nodes, [](const FleetNode& node) { return node.not_compared.empty(); }));
  }
}

TEST(AFleet, NamesOneGpuWithSlowMemoryFirst) {
  for (int i = 0; i < seeds(20); ++i) {
    const Fault slow{Weakness::hbm, 0.05, i % 8, (3 * i) % 8};
    const Fleet fleet = judged({.seed = first_seed + static_cast<std::uint64_t>(i), .faults = {slow}});
    ASSERT_EQ(fleet.count(NodeState::bad), 1u) << i << ": " << headline_text(fleet);
    EXPECT_EQ(fleet.nodes.front().host, name_of(slow.host));
    EXPECT_EQ(fleet.exit_code, 1);
    ASSERT_FALSE(fleet.culprits.empty());
    EXPECT_EQ(fleet.culprits.front().places.front().host, name_of(slow.host));
    EXPECT_EQ(fleet.culprits.front().places.front().rank, slow.local) << "as its own run numbers it";
  }
}

// All GPUs of the node are alike, and above the limits: only the other nodes show it.
TEST(AFleet, NamesANodeThatPassesAlone) {
  Cluster cluster;
  for (int gpu = 0; gpu < cluster.gpus; ++gpu) cluster.faults.push_back({Weakness::hbm, 0.06, 5, gpu});
  const Fleet fleet = judged(cluster);
  ASSERT_EQ(fleet.count(NodeState::bad), 1u) << headline_text(fleet);
  EXPECT_EQ(fleet.nodes.front().host, name_of(5));
  EXPECT_EQ(fleet.nodes.front().verdict, State::pass) << "its own run";
}

TEST(AFleet, ComparesNodesOfOneProfileAndVersionOnly) {
  FleetJudge judge;
  const Cluster cluster{.nodes = 3};
  for (int node = 0; node < cluster.nodes; ++node) {
    auto files = run_of(cluster, node);
    for (Results& file : files) file.context.suite.version = node == 2 ? "0.0.9" : file.context.suite.version;
    const Measured measured(std::move(files));
    judge.add(measured.files, verdict_of(measured), {name_of(node)}, "run", true);
  }
  const Fleet fleet = std::move(judge).judge({}, {});
  EXPECT_EQ(fleet.nodes[0].not_compared, "");
  EXPECT_NE(fleet.nodes[2].not_compared.find("version 0.0.9"), std::string::npos) << fleet.nodes[2].not_compared;
}

/// Adds an earlier run of each node for each launch to a ledger, on the days up to the one before the runs of the tree.
void add_earlier_runs(const fs::path& ledger, Cluster cluster, const std::vector<std::uint64_t>& launches) {
  fs::create_directories(ledger);
  for (int node = 0; node < cluster.nodes; ++node) {
    std::vector<LedgerEvent> events;
    for (std::size_t i = 0; i < launches.size(); ++i) {
      if (i == 0 || launches[i] != cluster.launch) {
        cluster.launch = launches[i];
        const Measured measured(run_of(cluster, node));
        events = events_of(verdict_of(measured), &measured, "");
      }
      for (LedgerEvent& event : events) {
        event.time = fmt::format("2026-11-{:02}T06:00:00Z", 25 - launches.size() + i);
        event.id = fmt::format("{}.{}", node, i);
        add_event(ledger, event);
      }
    }
  }
}

class FleetFolder : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  void write(const Cluster& cluster, int node, const std::string& run, bool complete = true,
             const std::string& started = "2026-11-25T06:00:00Z") const {
    auto files = run_of(cluster, node, started);
    for (Results& file : files) file.context.complete = complete;
    rehearsal::write(files, root_ / "tree" / name_of(node) / run);
    std::error_code ignored;
    fs::create_directory_symlink(run, root_ / "tree" / name_of(node) / "latest", ignored);
  }
  void write(const Cluster& cluster) const {
    for (int node = 0; node < cluster.nodes; ++node) write(cluster, node, "run");
  }

  struct Answer {
    int code;
    std::string out;
  };
  Answer shakedown(std::vector<std::string> words) const {
    words.insert(words.begin(), SHAKEDOWN_PROGRAM);
    words.push_back("--results=" + (root_ / "tree").string());
    const auto program = output_of(words, std::chrono::minutes(5));
    return {program.code, program.text};
  }

  const fs::path root_ = fs::path(testing::TempDir()) / ("fleet-" + std::to_string(getpid()));
};

TEST_F(FleetFolder, IsJudgedByTheNewestCompleteRunOfEachNode) {
  const Cluster healthy{.nodes = 6}, slow{.nodes = 6, .faults = {{Weakness::hbm, 0.05, 1, 3}}};
  write(healthy);
  write(slow, 1, "later", true, "2026-11-26T06:00:00Z");  // was good
  write(slow, 2, "earlier", true, "2026-11-24T06:00:00Z");
  write(healthy, 3, "later", false, "2026-11-26T06:00:00Z");  // broke off
  fs::create_directories(root_ / "tree" / "n004" / "empty");
  fs::create_directories(root_ / "tree" / "n006");  // never started
  std::ofstream(root_ / "roster") << "n[000-007]\n";
  const Answer answer = shakedown({"fleet", "--width=200", "--roster=" + (root_ / "roster").string(),
                                   "--nodes=" + (root_ / "out").string(), "--json=" + (root_ / "fleet.json").string(),
                                   "--csv=" + (root_ / "fleet.csv").string()});
  EXPECT_EQ(answer.code, 1) << answer.out;
  EXPECT_EQ(answer.out.find("FAIL 1 of 8 nodes is bad, 3 undecided: n001 GPU 3 (rank 3, "), 0u) << answer.out;
  EXPECT_NE(answer.out.rfind("\nFLEET: FAIL 1 of 8 "), std::string::npos) << answer.out;
  for (const char* said : {"n003/later, is incomplete", "on the roster, without a run", "no results in ",
                           "2 older runs", "n004/empty: has no results"}) {
    EXPECT_NE(answer.out.find(said), std::string::npos) << said << "\n" << answer.out;
  }
  EXPECT_EQ(line_of(root_ / "out/bad_nodes"), "n001 slots=8");
  EXPECT_EQ(lines_of(root_ / "out/good_nodes")->size(), 4u);
  EXPECT_EQ(lines_of(root_ / "fleet.csv")->size(), 9u);
  EXPECT_NE(read_file(root_ / "fleet.json").find("\"fleet\": \"fail\""), std::string::npos);
  const Answer commands = shakedown({"fleet", "--scontrol"});
  EXPECT_NE(commands.out.find("scontrol update nodename=n001 state=drain"), std::string::npos) << commands.out;
}

std::string row_of(const fs::path& csv, const std::string& host) {
  const auto lines = lines_of(csv).value();
  for (const std::string& line : lines) {
    if (line.starts_with(host + ",")) return line;
  }
  return "";
}

TEST_F(FleetFolder, HasGpusBySerialTheStateInTheLedgerAndTheDrift) {
  const fs::path ledger = root_ / "ledger", csv = root_ / "fleet.csv", json = root_ / "fleet.json";
  Cluster cluster{.nodes = 2};
  add_earlier_runs(ledger, cluster, {1, 2});
  LedgerEvent drained;
  drained.kind = EventKind::drained;
  drained.node = name_of(1);
  drained.time = "2026-11-24T07:00:00Z";
  drained.id = "d";
  add_event(ledger, drained);
  // All GPUs are slower than before. Therefore neither limits nor other GPUs show it.
  for (int gpu = 0; gpu < 2 * cluster.gpus; ++gpu)
    cluster.faults.push_back({Weakness::hbm, 0.05, gpu / cluster.gpus, gpu % cluster.gpus});
  cluster.faults.push_back({Weakness::gemm, 0.1, 0, 3});
  write(cluster);
  const Answer answer = shakedown({"fleet", "--ledger=" + ledger.string(), "--csv=" + csv.string(),
                                   "--json=" + json.string(), "--html=" + (root_ / "fleet.html").string()});
  EXPECT_EQ(answer.code, 1) << answer.out;
  const auto context = run_of(cluster, 0).front().context;
  const std::string serial = context.ranks.at(3).serial.value();
  EXPECT_NE(answer.out.find("8: " + serial), std::string::npos) << answer.out;
  EXPECT_NE(answer.out.find("drained since "), std::string::npos) << answer.out;
  const std::string bad = row_of(csv, name_of(0)), good = row_of(csv, name_of(1));
  EXPECT_NE(bad.find("," + serial + ",good,"), std::string::npos) << bad;
  EXPECT_NE(bad.find(context.ranks.at(2).serial.value() + " " + serial + " "), std::string::npos) << bad;
  EXPECT_NE(bad.find(",gemm," + serial), std::string::npos) << bad;
  EXPECT_NE(good.find(",MONITOR,"), std::string::npos) << good;
  EXPECT_NE(good.find(",drained,2026-11-24T07:00:00Z,-"), std::string::npos) << good;
  EXPECT_NE(good.find(",hbm,"), std::string::npos) << good;
  const auto nodes = nlohmann::json::parse(read_file(json))["nodes"];
  EXPECT_EQ(nodes[0]["gpus"][3]["serial"], serial);
  EXPECT_EQ(nodes[0]["gpus"][3]["at_fault"], true);
  EXPECT_EQ(nodes[0]["gpus"][2]["at_fault"], false);
  EXPECT_EQ(nodes[1]["ledger"]["state"], "drained");
  EXPECT_EQ(nodes[1]["drift"]["family"], "hbm");
  EXPECT_LT(nodes[1]["drift"]["percent"], -3);
  EXPECT_NE(read_file(root_ / "fleet.html").find("<td>" + serial + "</td>"), std::string::npos);
}

TEST_F(FleetFolder, ThatIsHealthyHasNoLossAgainstItsOwnRuns) {
  const Cluster cluster{.nodes = seeds(20)};
  add_earlier_runs(root_ / "ledger", cluster, {1, 2, 3});
  write(cluster);
  const Answer answer = shakedown({"fleet", "--ledger=" + (root_ / "ledger").string(), "--all"});
  EXPECT_EQ(answer.code, 0) << answer.out;
  EXPECT_EQ(answer.out.find("MONITOR"), std::string::npos) << answer.out;
  EXPECT_NE(answer.out.find("good since "), std::string::npos) << answer.out;
}

TEST_F(FleetFolder, HasTheDriftOfEachHostOfOneRun) {
  rehearsal::Order order;
  order.noise = rehearsal::read_noise(source / "thresholds/rehearsal/noise/calm.yaml");
  order.shape.hosts = 2;
  order.seed = first_seed + 400;
  const auto measured_on = [&](const std::string& day) {
    auto files = rehearsal::Fleet(order).results();
    for (Results& file : files) file.context.started = day + "T06:00:00Z";
    return files;
  };
  fs::create_directories(root_ / "ledger");
  const Measured before(measured_on("2026-11-20"));
  for (const LedgerEvent& event : events_of(verdict_of(before), &before, "")) add_event(root_ / "ledger", event);
  order.launch = 1;
  for (int gpu = 0; gpu < order.shape.gpus; ++gpu) order.faults.push_back({Weakness::hbm, 0.05, 1, gpu});
  rehearsal::write(measured_on("2026-11-25"), root_ / "tree" / "run");
  const fs::path json = root_ / "fleet.json";
  const Answer answer = shakedown({"fleet", "--ledger=" + (root_ / "ledger").string(), "--json=" + json.string()});
  const auto nodes = nlohmann::json::parse(read_file(json))["nodes"];
  ASSERT_EQ(nodes.size(), 2u) << answer.out;
  const std::string slow_host = before.files.front().context.ranks.back().host;
  for (const auto& node : nodes) {
    ASSERT_TRUE(node["drift"].is_object()) << answer.out;
    const bool is_slow = node["host"] == slow_host;
    EXPECT_EQ(node["drift"]["percent"].get<double>() < -3, is_slow) << node["drift"].dump();
    EXPECT_EQ(node["drift"]["is_loss"], is_slow);
  }
}

TEST_F(FleetFolder, LeavesAnEventThatCannotBeReadOut) {
  write({.nodes = 2});
  const fs::path ledger = root_ / "ledger";
  fs::create_directories(ledger);
  const std::string of_another = "20261124T060000Z-n007-run-1.json", of_one = "20261124T060000Z-n000-run-1.json";
  std::ofstream(ledger / of_another) << "{";
  std::ofstream(ledger / "notes.json") << "[]";
  const Answer others = shakedown({"fleet", "--ledger=" + ledger.string()});
  EXPECT_EQ(others.code, 0) << "no node of the fleet depends on it: " << others.out;
  EXPECT_NE(others.out.find("\nFLEET: PASS 2 nodes of 16 GPUs good"), std::string::npos) << others.out;
  for (const std::string& file : {of_another, std::string("notes.json")}) {
    EXPECT_NE(others.out.find(file), std::string::npos) << others.out;
  }
  std::ofstream(ledger / of_one) << "{";
  const Answer own = shakedown({"fleet", "--ledger=" + ledger.string(), "--nodes=" + (root_ / "out").string()});
  EXPECT_EQ(own.code, 3) << own.out;
  EXPECT_NE(own.out.find("\nFLEET: INCOMPLETE 1 of 2 nodes"), std::string::npos) << own.out;
  EXPECT_NE(own.out.find(of_one), std::string::npos) << own.out;
  EXPECT_EQ(line_of(root_ / "out/good_nodes"), "n001 slots=8") << "the event does not concern the other node";
  EXPECT_EQ(shakedown({"fleet", "--ledger=" + (root_ / "none").string()}).code, 2);
}

TEST_F(FleetFolder, IsRefusedByVerbsOfOneRunWithTheVerbThatTakesIt) {
  write({.nodes = 2});
  for (const char* verb : {"report", "nodes"}) {
    const Answer answer = shakedown({verb});
    EXPECT_EQ(answer.code, 2);
    EXPECT_NE(answer.out.find("shakedown fleet --results="), std::string::npos) << verb << ": " << answer.out;
  }
}

TEST_F(FleetFolder, ThatCannotBeReadLeavesNoOldFiles) {
  fs::create_directories(root_ / "tree/n1");
  for (const char* file : {"good_nodes", "fleet.json", "fleet.csv"}) std::ofstream(root_ / file) << "n1 good\n";
  const Answer answer = shakedown({"fleet", "--nodes=" + root_.string(), "--json=" + (root_ / "fleet.json").string(),
                                   "--csv=" + (root_ / "fleet.csv").string()});
  EXPECT_EQ(answer.code, 2) << answer.out;
  EXPECT_NE(answer.out.find("no results of any node"), std::string::npos) << answer.out;
  for (const char* file : {"good_nodes", "fleet.json", "fleet.csv"}) {
    EXPECT_EQ(read_file(root_ / file).find("n1 good"), std::string::npos) << file;
  }
}

double seconds_of_children() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
}

TEST_F(FleetFolder, OfAThousandGpusWithOneBadTakesSecondsAndFewLines) {
  const Cluster cluster{.nodes = is_nightly() ? 125 : 16, .faults = {{Weakness::hbm, 0.05, 7, 2}}};
  write(cluster);
  add_earlier_runs(root_ / "ledger", cluster, {1, 1, 1, 1, 1});
  const double before = seconds_of_children();
  const Answer answer = shakedown({"fleet", "--width=100", "--ledger=" + (root_ / "ledger").string()});
  EXPECT_LE(seconds_of_children() - before, 10);
  EXPECT_EQ(answer.out.find(fmt::format("FAIL 1 of {} nodes is bad: n007 GPU 2 ", cluster.nodes)), 0u) << answer.out;
  EXPECT_LT(std::count(answer.out.begin(), answer.out.end(), '\n'), 60) << answer.out;
  std::istringstream lines(answer.out);
  bool in_table = false;
  for (std::string line; std::getline(lines, line);) {
    in_table = line.starts_with("node ") || (in_table && !line.starts_with("peers"));
    EXPECT_TRUE(!in_table || columns(line) <= 100) << line;
  }
  const Answer all = shakedown({"fleet", "--all"});
  EXPECT_GT(std::count(all.out.begin(), all.out.end(), '\n'), cluster.nodes);
}

}  // namespace
}  // namespace shakedown::fleet_test
