// Tests the judgement of networks: pairs of hosts on simulated fat trees.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "report/rehearsal_outcome.hpp"
#include "tests/nightly.hpp"
#include "thresholds/culprits/fabric.hpp"

namespace shakedown::rehearsal::network_test {
namespace {

/// Other seeds than those of the tuning.
constexpr std::uint64_t first_seed = 40000;

Order order(const std::string& faults, int hosts = 128, int rails = 8, std::uint64_t seed = first_seed) {
  static const Noise noise =
      read_noise(std::filesystem::path(SHAKEDOWN_SOURCE_DIR) / "thresholds/rehearsal/noise/network.yaml");
  Order order;
  order.shape.hosts = hosts;
  order.shape.gpus = rails;
  order.shape.leaf_hosts = 32;
  order.noise = noise;
  order.seed = seed;
  order.faults = placed(parse_faults(faults), order.shape, seed);
  return order;
}

Results measure(const Order& order) { return Fleet(order).results("pairs"); }

FabricJudgement judged(Results results) {
  const Measured measured{std::move(results)};
  return judge_fabric(measured.benchmarks, {}, {});
}

std::string text(const FabricJudgement& judgement) {
  std::string text;
  for (const Diagnosis& suspect : judgement.suspects) text += causes_text(suspect) + ": " + suspect.detail + "; ";
  return text + judgement.said;
}

/// All faults are named, and nothing else.
void expect_right(const std::string& faults, int seeds, int hosts = 128, int rails = 8, bool topology = true) {
  for (int i = 0; i < seeds; ++i) {
    Order tree = order(faults, hosts, rails, first_seed + static_cast<std::uint64_t>(i));
    tree.shape.leaves_are_known = topology;
    tree.faults = placed(parse_faults(faults), tree.shape, tree.seed);
    const Fleet fleet(tree);
    const FabricJudgement judgement = judged(fleet.results("pairs"));
    const auto is_of = [&](const Diagnosis& suspect) {
      return [&](const Fault& fault) { return names(fleet, fault, suspect); };
    };
    for (const Fault& fault : tree.faults) {
      const auto is_named = [&](const Diagnosis& suspect) { return suspect.fails && names(fleet, fault, suspect); };
      EXPECT_TRUE(std::any_of(judgement.suspects.begin(), judgement.suspects.end(), is_named))
          << fmt::format("{}, {} hosts, seed {}: {} of host {}, rail {}: ", faults, hosts, tree.seed, name(fault.what),
                         fault.host, fault.local)
          << text(judgement);
    }
    for (const Diagnosis& suspect : judgement.suspects) {
      EXPECT_TRUE(!suspect.fails || std::any_of(tree.faults.begin(), tree.faults.end(), is_of(suspect)))
          << fmt::format("{}, {} hosts, seed {}: ", faults, hosts, tree.seed) << text(judgement);
    }
  }
}

/// The number of trees: a few after each change, `nightly` in the nightly test.
int trees(int few, int nightly) { return testing_support::is_nightly() ? nightly : few; }

TEST(Network, HealthyTreesNameNothing) {
  for (const int hosts : {3, 8, 64, 128}) expect_right("", trees(3, 100), hosts);
}

/// Multiplies the rate of each exchange of each row by random numbers, as where hosts share the cores of one machine.
Results scattered(Results results, double sigma, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> factor(0, sigma);
  for (Row& row : results.rows) {
    auto& ranks = row.by_rank;
    for (std::size_t rank = 0; rank < ranks["partner"].size(); ++rank) {
      const auto& partner = ranks["partner"][rank];
      if (!partner || *partner < static_cast<double>(rank)) continue;
      const double slower = factor(random);
      for (const auto end : {rank, static_cast<std::size_t>(*partner)}) {
        if (auto& rate = ranks["busbw_gb_per_s"][end]) rate = *rate * slower;
      }
    }
  }
  return results;
}

// The fewer the hosts, the less is known of their scatter.
TEST(Network, NamesNoHostWithinTheScatterOfAllPairs) {
  for (const auto& [hosts, most] : {std::pair{3, 8}, {4, 3}, {8, 1}}) {
    int accused = 0;
    std::string last;
    for (std::uint64_t seed = first_seed; seed < first_seed + 100; ++seed) {
      Order tree = order("", hosts, 1, seed);
      tree.shape.leaves_are_known = false;
      const auto judgement = judged(scattered(measure(tree), 0.3 + 0.1 * static_cast<double>(seed % 8), seed));
      if (judgement.suspects.empty()) continue;
      ++accused;
      last = std::to_string(seed) + ": " + text(judgement);
    }
    EXPECT_LE(accused, most) << hosts << " hosts, seed " << last;
  }
}

TEST(Network, NamesNoUplinkWithinTheScatterOfAllPairs) {
  int accused = 0;
  std::string last;
  for (std::uint64_t seed = first_seed; seed < first_seed + 100; ++seed) {
    Order tree = order("", 4, 1, seed);
    tree.shape.leaf_hosts = 2;
    const auto judgement = judged(scattered(measure(tree), 0.05 + 0.1 * static_cast<double>(seed % 8), seed));
    if (judgement.suspects.empty()) continue;
    ++accused;
    last = std::to_string(seed) + ": " + text(judgement);
  }
  EXPECT_LE(accused, 5) << "seed " << last;
}

TEST(Network, NamesASlowHostOfAFewBelowTheScatterOfAllPairs) {
  std::size_t named = 0;
  constexpr std::uint64_t trees = 100;
  for (std::uint64_t seed = first_seed; seed < first_seed + trees; ++seed) {
    Order tree = order("nic:0.5", 4, 1, seed);
    tree.shape.leaves_are_known = false;
    named += judged(scattered(measure(tree), 0.1, seed)).suspects.size() == 1 ? 1 : 0;
  }
  EXPECT_GE(named, 96U);
}

/// cores: a rate is proportional to the time in which both ends had a core; cables: waits do not change the rates.
enum class LimitedBy { cores, cables };

/// Adds the share of each round for which the ranks of each pair waited for cores. Each host has a usual share, and the
/// shares vary by `spread` in each round.
Results with_waits(Results results, const std::vector<double>& usual, double spread, LimitedBy limit,
                   std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> factor(0, spread);
  for (Row& row : results.rows) {
    auto& ranks = row.by_rank;
    const RankValues partners = ranks["partner"];
    RankValues waits(partners.size());
    std::vector<double> worked;
    for (const double share : usual) worked.push_back(std::min(1.0, (1 - share) * factor(random)));
    for (std::size_t rank = 0; rank < partners.size(); ++rank) {
      if (!partners[rank]) continue;
      const double least = std::min(worked[rank], worked[static_cast<std::size_t>(*partners[rank])]);
      waits[rank] = 1 - least;
      auto& rate = ranks["busbw_gb_per_s"][rank];
      if (rate && limit == LimitedBy::cores) rate = *rate * least;
    }
    ranks["waited"] = waits;
  }
  return results;
}

Results four_hosts(const std::string& faults, std::uint64_t seed) {
  Order tree = order(faults, 4, 1, seed);
  tree.shape.leaves_are_known = false;
  return measure(tree);
}

TEST(Network, NamesNoHostThatWaitedForCores) {
  constexpr std::uint64_t trees = 100;
  std::uint64_t accused = 0, acquitted = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + trees; ++seed) {
    const auto judgement = judged(with_waits(four_hosts("", seed), {0.8, 0.8, 0.9, 0.8}, 0.05, LimitedBy::cores, seed));
    accused += judgement.suspects.empty() ? 0 : 1;
    if (judgement.said.find("1 slow part not judged, because ranks waited for cores: rail 0 of node0002") ==
        std::string::npos)
      continue;
    ++acquitted;
    ASSERT_EQ(judgement.findings.size(), 1U);
    EXPECT_EQ(judgement.findings.front().status, Status::inconclusive) << "with GPUs";
  }
  EXPECT_EQ(accused, 0U);
  EXPECT_GE(acquitted, trees * 9 / 10) << "the host that waited is slow";
}

TEST(Network, PassesOnTheHostBackendIfRanksWaitedForCores) {
  auto results = with_waits(four_hosts("", first_seed), {0.8, 0.8, 0.9, 0.8}, 0.05, LimitedBy::cores, first_seed);
  results.context.backend = Backend::host;
  const auto judgement = judged(std::move(results));
  ASSERT_EQ(judgement.findings.size(), 1U) << text(judgement);
  EXPECT_EQ(judgement.findings.front().status, Status::pass);
  EXPECT_NE(judgement.findings.front().detail.find("for cores"), std::string::npos)
      << judgement.findings.front().detail;
}

TEST(Network, DoesNotPassTwoHostsWithARailThatWaitedForCores) {
  std::uint64_t acquitted = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + 20; ++seed) {
    Order tree = order("", 2, 8, seed);
    tree.shape.leaves_are_known = false;
    std::vector<double> usual(16, 0.7);
    usual[3] = usual[11] = 0.8;  // rail 3 of both hosts
    const auto judgement = judged(with_waits(measure(tree), usual, 0.02, LimitedBy::cores, seed));
    if (judgement.said.find("because ranks waited for cores") == std::string::npos) continue;
    ++acquitted;
    ASSERT_EQ(judgement.findings.size(), 1U);
    EXPECT_EQ(judgement.findings.front().status, Status::inconclusive);
  }
  EXPECT_GE(acquitted, 10U);
}

TEST(Network, NamesASlowHostAloneAlsoIfAllHostsWaitForCores) {
  constexpr std::uint64_t trees = 100;
  for (const auto limit : {LimitedBy::cores, LimitedBy::cables}) {
    std::uint64_t named = 0;
    const double spread = limit == LimitedBy::cores ? 0.1 : 0.5;
    for (std::uint64_t seed = first_seed; seed < first_seed + trees; ++seed) {
      const auto slow = four_hosts("nic:0.5", seed);
      const auto expected = judged(slow),
                 judgement = judged(with_waits(slow, {0.9, 0.9, 0.9, 0.9}, spread, limit, seed));
      ASSERT_EQ(expected.suspects.size(), 1U);
      named += judgement.suspects.size() == 1 && judgement.suspects[0].part.host == expected.suspects[0].part.host;
    }
    EXPECT_GE(named, trees * 96 / 100) << (limit == LimitedBy::cores ? "cores" : "cables");
  }
}

TEST(Network, JudgesHostsThatDidNotWaitAsIfWaitsWereUnknown) {
  for (const char* faults : {"", "nic:0.1", "uplink:0.1", "dead_host"}) {
    const Results known = measure(order(faults, 64));
    Results idle = known;
    for (Row& row : idle.rows) row.by_rank["waited"] = RankValues(row.by_rank["partner"].size());
    for (Row& row : idle.rows) {
      for (auto& wait : row.by_rank["waited"]) wait = 0.002;
    }
    EXPECT_EQ(text(judged(std::move(idle))), text(judged(known))) << faults;
  }
}

/// Nine hosts on three leaf switches and one rail. The rounds have fewer than ten values inside leaf switches.
Order few_hosts_of_three_leaves(const std::string& faults, std::uint64_t seed) {
  Order tree = order(faults, 9, 1, seed);
  tree.shape.leaf_hosts = 3;
  tree.faults = placed(parse_faults(faults), tree.shape, seed);
  return tree;
}

TEST(Network, NamesASlowUplinkOfAFewHosts) {
  for (std::uint64_t seed = first_seed; seed < first_seed + 20; ++seed) {
    const auto judgement = judged(measure(few_hosts_of_three_leaves("uplink:0.5", seed)));
    ASSERT_EQ(judgement.suspects.size(), 1U) << seed << ": " << text(judgement);
    EXPECT_EQ(judgement.suspects.front().causes, std::vector{Cause::slow_uplink}) << text(judgement);
    EXPECT_TRUE(judged(measure(few_hosts_of_three_leaves("", seed))).suspects.empty());
  }
}

/// Six hosts on three leaf switches and one rail: some paths between two leaf switches have one or two values.
Order six_hosts_of_three_leaves(const std::string& faults, std::uint64_t seed) {
  Order tree = order(faults, 6, 1, seed);
  tree.shape.leaf_hosts = 2;
  tree.faults = placed(parse_faults(faults), tree.shape, seed);
  return tree;
}

bool passes(const FabricJudgement& judgement) {
  return std::ranges::all_of(judgement.findings, [](const auto& finding) { return finding.status == Status::pass; });
}

TEST(Network, NamesASlowUplinkOfTwoHostsOrIsUndecided) {
  const int all = trees(40, 400);
  int named = 0, healthy = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + static_cast<std::uint64_t>(all); ++seed) {
    const auto judgement = judged(measure(six_hosts_of_three_leaves("uplink:0.5", seed)));
    EXPECT_FALSE(passes(judgement)) << seed << ": " << text(judgement);
    EXPECT_LE(judgement.suspects.size(), 1U) << seed << ": " << text(judgement);
    for (const Diagnosis& suspect : judgement.suspects) named += suspect.causes.front() == Cause::slow_uplink ? 1 : 0;
    const auto good = judged(measure(six_hosts_of_three_leaves("", seed)));
    EXPECT_TRUE(good.suspects.empty()) << seed << ": " << text(good);
    healthy += passes(good) ? 1 : 0;
  }
  EXPECT_GE(named, all * 19 / 20);
  EXPECT_GE(healthy, all * 19 / 20);
}

TEST(Network, NamesTheNicAndNoUplinkIfOneOfTwoHostsOfALeafIsSlow) {
  for (std::uint64_t seed = first_seed; seed < first_seed + 40; ++seed) {
    const auto judgement = judged(measure(six_hosts_of_three_leaves("nic:0.5", seed)));
    ASSERT_EQ(judgement.suspects.size(), 1U) << seed << ": " << text(judgement);
    EXPECT_EQ(judgement.suspects.front().causes, std::vector{Cause::slow_nic}) << text(judgement);
  }
}

TEST(Network, DoesNotPassASlowUplinkWithinTheScatterOfAllPairs) {
  std::size_t passed = 0, counted = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + 20; ++seed) {
    const auto judgement = judged(scattered(measure(few_hosts_of_three_leaves("uplink:0.3", seed)), 0.2, seed));
    for (const Finding& finding : judgement.findings) passed += finding.status == Status::pass ? 1 : 0;
    const auto where = judgement.said.find("between leaf switches");
    counted += where == std::string::npos ? 0 : 1;
  }
  EXPECT_EQ(passed, 0U);
  EXPECT_GT(counted, 0U);
}

// Hosts without a known leaf switch once ended the judgement with an exception.
TEST(Network, NamesNoUplinkOfHostsWhoseLeafIsUnknown) {
  const Results all = measure(order("uplink:0.5"));
  std::set<std::string> leaves;
  for (const HostFacts& host : all.context.inventory) leaves.insert(host.leaf.value());
  ASSERT_GT(leaves.size(), 2u);
  std::size_t uplinks = 0;
  for (const std::string& unknown : leaves) {
    Results results = all;
    for (HostFacts& host : results.context.inventory) {
      if (host.leaf == unknown) host.leaf = std::nullopt;
    }
    for (const Diagnosis& suspect : judged(std::move(results)).suspects) {
      uplinks += suspect.causes.front() == Cause::slow_uplink ? 1 : 0;
      EXPECT_EQ(suspect.detail.find("leaf  "), std::string::npos) << suspect.detail;
    }
  }
  EXPECT_EQ(uplinks, leaves.size() - 1) << "the slow one, if another one is unknown";
}

TEST(Network, NamesOneFaultOfTenPercentAndNothingElse) {
  for (const char* fault : {"nic:0.1", "nics:0.1", "rail_leaf:0.1", "uplink:0.1", "path:0.1", "rail:0.1", "dead_host",
                            "dead_pair", "sum:0.5"}) {
    SCOPED_TRACE(fault);
    expect_right(fault, trees(3, 100));
  }
}

FabricJudgement of_calm_network(const std::string& faults, int hosts) {
  Order tree = order(faults, hosts);
  tree.noise = read_noise(std::filesystem::path(SHAKEDOWN_SOURCE_DIR) / "thresholds/rehearsal/noise/calm.yaml");
  return judged(measure(tree));
}

TEST(Network, WarnsOfOneNicOfALargeFleetThatIsAsSlowAsTheSlowestHealthyNic) {
  const auto judgement = of_calm_network("nic:0.06", 16);
  ASSERT_EQ(judgement.suspects.size(), 1U) << text(judgement);
  EXPECT_EQ(judgement.suspects.front().causes, std::vector{Cause::slow_nic});
  EXPECT_FALSE(judgement.suspects.front().fails);
  ASSERT_EQ(judgement.findings.size(), 2U);
  EXPECT_EQ(judgement.findings[0].part.kind, PartKind::nic);
  EXPECT_EQ(judgement.findings[0].severity, Severity::warn);
  EXPECT_EQ(judgement.findings[1].status, Status::pass);
}

TEST(Network, FailsANicOfASmallFleetAndSeveralOfALargeFleetThatAreSixPercentSlow) {
  for (const auto& [faults, hosts] : {std::pair{"nic:0.06", 8}, {"nic:0.06+nic:0.06+nic:0.06", 16}}) {
    const auto judgement = of_calm_network(faults, hosts);
    EXPECT_FALSE(judgement.suspects.empty()) << faults;
    for (const Diagnosis& suspect : judgement.suspects) EXPECT_TRUE(suspect.fails) << text(judgement);
  }
}

TEST(Network, NamesTwoFaults) {
  for (const char* faults : {"nic:0.1+nic:0.1", "uplink:0.1+nic:0.1", "nics:0.1+rail_leaf:0.1", "nic:0.1+dead_host"}) {
    SCOPED_TRACE(faults);
    expect_right(faults, trees(3, 100));
  }
}

TEST(Network, NamesBadNicsThatAreAnEndOfMostPairsOfFewHosts) {
  for (const char* part : {"0.7", "0.5"}) {
    const std::string one = std::string("nic:") + part, two = one + "+" + one;
    for (const int rails : {1, 8}) expect_right(one, 10, 3, rails);
    for (const int hosts : {4, 5, 6}) expect_right(two, 10, hosts, 1);
  }
}

// Only one pair of hosts is good on the rail. Its two rounds are compared with the same rounds on the other rail. With
// pauses in both, the rail is named: in 1 of these 400 networks.
TEST(Network, NamesTwoBadNicsOfFourHostsOnOneRailOfSeveralAndNotTheRail) {
  const int all = trees(40, 400);
  int right = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + static_cast<std::uint64_t>(all); ++seed) {
    Order tree = order("nic:0.5+nic:0.5", 4, 2, seed);
    for (Fault& fault : tree.faults) fault.local = 0;
    const Fleet fleet(tree);
    const FabricJudgement judgement = judged(fleet.results("pairs"));
    const auto is_named = [&](const Fault& fault) {
      return std::any_of(judgement.suspects.begin(), judgement.suspects.end(),
                         [&](const Diagnosis& suspect) { return names(fleet, fault, suspect); });
    };
    if (judgement.suspects.size() == 2 && std::all_of(tree.faults.begin(), tree.faults.end(), is_named)) ++right;
  }
  EXPECT_GE(right, all - all / 400);
}

TEST(Network, NamesEndsWithoutTopology) {
  for (const char* fault : {"nic:0.1", "nics:0.1", "dead_host"}) {
    SCOPED_TRACE(fault);
    expect_right(fault, trees(3, 100), 128, 8, false);
  }
}

TEST(Network, OfTwoLeavesSaysThatItIsBetweenThem) {
  auto tree = order("uplink:0.1", 64);
  const auto judgement = judged(measure(tree));
  ASSERT_EQ(judgement.suspects.size(), 1U) << text(judgement);
  EXPECT_NE(judgement.suspects.front().detail.find("between leaf leaf0 and leaf leaf1"), std::string::npos);
}

TEST(Network, SaysWhichDirectionIsSlowWhereItWasMeasuredAgain) {
  auto tree = order("nic:0.1", 32);
  auto results = measure(tree);
  for (auto& row : results.rows) {
    if (row.key.part("dir") != "in") continue;
    for (auto& rate : row.by_rank["busbw_gb_per_s"]) {
      if (rate) rate = 47;
    }
  }
  const auto judgement = judged(std::move(results));
  ASSERT_EQ(judgement.suspects.size(), 1U);
  EXPECT_NE(judgement.suspects.front().detail.find("sending only"), std::string::npos)
      << judgement.suspects.front().detail;
}

TEST(Network, NamesAHostThatDiesInARoundAndNotItsPartners) {
  auto results = measure(order("", 8));
  const std::size_t dead = 5;
  for (std::size_t row = 2; row < results.rows.size(); ++row) {
    auto& ranks = results.rows[row].by_rank;
    for (std::size_t rank = 0; rank < ranks["partner"].size(); ++rank) {
      const bool touches =
          rank / 8 == dead || (ranks["partner"][rank] && static_cast<std::size_t>(*ranks["partner"][rank]) / 8 == dead);
      if (touches) ranks["busbw_gb_per_s"][rank] = std::nullopt;
    }
  }
  const auto judgement = judged(std::move(results));
  ASSERT_EQ(judgement.suspects.size(), 1U);
  EXPECT_EQ(judgement.suspects.front().places.at(0).host, "node0005");
}

std::vector<Finding> missing(Results results) {
  auto findings = judged(std::move(results)).findings;
  std::erase_if(findings, [](const Finding& finding) { return finding.status != Status::missing; });
  return findings;
}

TEST(Network, MissesAHostThatIsInNoRound) {
  for (const int hosts : {2, 3, 7, 8}) EXPECT_TRUE(missing(measure(order("", hosts))).empty()) << "some stand by";
  auto results = measure(order("", 8));
  for (Row& row : results.rows) {
    const auto partners = row.by_rank["partner"];
    for (std::size_t rank = 0; rank < partners.size(); ++rank) {
      if (rank / 8 != 5 && !(partners[rank] && static_cast<std::size_t>(*partners[rank]) / 8 == 5)) continue;
      for (auto& [metric, values] : row.by_rank) values[rank] = std::nullopt;
    }
  }
  const auto findings = missing(std::move(results));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings.front().offender_count, 8U);
  for (const Culprit& place : findings.front().offenders) EXPECT_EQ(place.host, "node0005");
}

TEST(Network, MissesARailThatItsHostHadWithNobody) {
  auto results = measure(order("", 4));
  for (Row& row : results.rows) {
    for (auto& [metric, values] : row.by_rank) values[3] = std::nullopt;
  }
  const auto findings = missing(std::move(results));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings.front().worst->rank, 3);
  EXPECT_EQ(findings.front().offender_count, 1U);
}

TEST(Network, MissesAllWhoseRoundsAreNotThereWhateverTheirSumsSay) {
  auto results = measure(order("", 4));
  std::erase_if(results.rows, [](const Row& row) { return row.key.part("op") != "allreduce"; });
  for (const bool waived : {false, true}) {
    if (waived) std::ranges::for_each(results.rows, [](Row& row) { row.waived = "there is only one host"; });
    const auto findings = missing(results);
    ASSERT_EQ(findings.size(), 1U);
    EXPECT_EQ(findings.front().offender_count, 32U);
  }
}

bool is_sum(const Row& row) { return row.key.part("op") == "allreduce"; }

TEST(Network, NamesAPairThatIsSlowInEachOfItsRounds) {
  auto tree = order("dead_pair", 32);
  auto results = measure(tree);
  for (auto& row : results.rows) {
    if (is_sum(row)) continue;
    auto& ranks = row.by_rank;
    for (std::size_t rank = 0; rank < ranks["partner"].size(); ++rank) {
      if (ranks["partner"][rank] && !ranks["busbw_gb_per_s"][rank]) ranks["busbw_gb_per_s"][rank] = 36;
    }
  }
  const auto judgement = judged(std::move(results));
  EXPECT_TRUE(std::any_of(judgement.suspects.begin(), judgement.suspects.end(), [](const Diagnosis& d) {
    return d.causes == std::vector{Cause::slow_path} && d.detail.find("slow with each other") != std::string::npos;
  })) << text(judgement);
}

TEST(Network, OfThousandsOfHostsNamesNothingThatIsSlowByChanceAndMissesNoFault) {
  expect_right("", trees(1, 20), 4096);
  expect_right("sum:0.5", trees(1, 20), 4096);
  expect_right("nic:0.1", trees(1, 20), 1024);
}

TEST(Network, AnAllReduceThatIsLowIsSaidOfItsPairAndAccusesNoHost) {
  auto tree = order("sum:0.5", 32);
  const auto judgement = judged(measure(tree));
  ASSERT_EQ(judgement.suspects.size(), 1U) << text(judgement);
  const auto& d = judgement.suspects.front();
  EXPECT_EQ(d.causes, std::vector{Cause::slow_path}) << "which leaves both hosts in use";
  EXPECT_EQ(d.places.size(), 2U);
  EXPECT_NE(d.detail.find("each rail"), std::string::npos) << d.detail;
  EXPECT_NE(d.detail.find("; repeated"), std::string::npos) << d.detail;
  EXPECT_EQ(d.evidence_count, 3U) << "a round, and two that repeat it";
}

TEST(Network, AnAllReduceThatIsLowOnceIsNoted) {
  auto tree = order("sum:0.5", 32);
  auto results = measure(tree);
  for (auto& row : results.rows) {
    if (!is_sum(row) || row.key.part("confirm") != "1") continue;
    for (auto& rate : row.by_rank["busbw_gb_per_s"]) {
      if (rate) rate = *rate * 2;
    }
  }
  const auto judgement = judged(std::move(results));
  EXPECT_TRUE(judgement.suspects.empty());
  EXPECT_NE(judgement.said.find("one round"), std::string::npos) << judgement.said;
}

TEST(Network, NamesAHostThatDiesInAnAllReduce) {
  auto results = measure(order("", 8));
  for (auto& row : results.rows) {
    if (!is_sum(row)) continue;
    auto& ranks = row.by_rank;
    for (std::size_t rank = 0; rank < ranks["partner"].size(); ++rank) {
      const auto& partner = ranks["partner"][rank];
      if (rank / 8 == 5 || (partner && static_cast<std::size_t>(*partner) / 8 == 5)) {
        ranks["busbw_gb_per_s"][rank] = std::nullopt;
      }
    }
  }
  const auto judgement = judged(std::move(results));
  ASSERT_EQ(judgement.suspects.size(), 1U);
  EXPECT_EQ(judgement.suspects.front().causes, std::vector{Cause::slow_node});
  EXPECT_NE(judgement.suspects.front().detail.find("node0005 does not answer any of its partners in an AllReduce"),
            std::string::npos);
}

TEST(Network, WrongDataBetweenHostsFails) {
  auto results = measure(order("", 8));
  results.rows[1].wrong_ranks = {5};
  const auto judgement = judged(std::move(results));
  ASSERT_EQ(judgement.wrong_data.size(), 1U);
  EXPECT_EQ(judgement.wrong_data.front().wrong_ranks, std::vector<int>{5});
}

TEST(Network, SaysThatEachRailIsGoodOnlyWhereEachWasMeasured) {
  auto tree = order("dead_host", 2);
  const auto silent = judged(measure(tree));
  ASSERT_EQ(silent.suspects.size(), 1U);
  EXPECT_NE(
      silent.suspects.front().detail.find("do not answer each other in an AllReduce over all rails, and no single "
                                          "rail has a rate"),
      std::string::npos)
      << silent.suspects.front().detail;
}

TEST(Network, OfTwoHostsSaysThatASlowRailIsOfOneOrTheOther) {
  auto tree = order("nic:0.1", 2);
  const auto judgement = judged(measure(tree));
  ASSERT_EQ(judgement.suspects.size(), 1U);
  const auto& d = judgement.suspects.front();
  EXPECT_EQ(d.causes, (std::vector{Cause::slow_nic, Cause::configuration}));
  EXPECT_NE(d.detail.find("slow between node0000 and node0001"), std::string::npos) << d.detail;
}

TEST(Network, OfTwoHostsTellsNoEndFromTheOther) {
  const auto tree = order("", 2);
  const auto judgement = judged(measure(tree));
  EXPECT_TRUE(judgement.suspects.empty());
  EXPECT_FALSE(judgement.judged) << "there are no peers";
}

}  // namespace
}  // namespace shakedown::rehearsal::network_test
