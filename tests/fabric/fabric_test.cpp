// What the judge of networks says of made-up fat trees, small counts; fabric_rate makes the tables.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/fabric/outcome.hpp"
#include "thresholds/culprits/fabric.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown::fabric {
namespace {

void expect_right(Tree tree, int seeds, int first = 1) {
  for (int seed = first; seed < first + seeds; ++seed) {
    tree.seed = static_cast<std::uint64_t>(seed);
    auto placed = tree;
    place(placed);
    const auto outcome = judge(placed);
    EXPECT_TRUE(outcome.named) << "seed " << seed << ": " << outcome.text;
    EXPECT_FALSE(outcome.innocent) << "seed " << seed << ": " << outcome.text;
  }
}

Tree with(std::initializer_list<Fault::Kind> kinds, int hosts = 128) {
  Tree tree;
  tree.hosts = hosts;
  for (const auto kind : kinds) tree.faults.push_back({kind});
  return tree;
}

using Kind = Fault::Kind;

TEST(Fabric, OfHealthyTreesNamesNobody) {
  for (const int hosts : {3, 8, 64, 128}) expect_right(with({}, hosts), 3);
  expect_right(with({}, 3), 1, 21000353);  // one round is so good that most are low beside it
}

TEST(Fabric, NamesOneFaultOfTenPercentAndNobodyElse) {
  for (const auto kind : {Kind::nic, Kind::host, Kind::leaf, Kind::uplink, Kind::path, Kind::rail, Kind::dead_host,
                          Kind::dead_pair, Kind::sum}) {
    SCOPED_TRACE(name(kind));
    expect_right(with({kind}), 3);
  }
}

TEST(Fabric, NamesTwoFaults) {
  expect_right(with({Kind::nic, Kind::nic}), 3);
  expect_right(with({Kind::uplink, Kind::nic}), 3);
  expect_right(with({Kind::host, Kind::leaf}), 3);
}

TEST(Fabric, NamesBadNicsThatAreAnEndOfMostPairsOfFewHosts) {
  for (const double part : {0.3, 0.5}) {
    for (const int rails : {1, 8}) {
      auto one = with({Kind::nic}, 3);
      one.rails = rails;
      one.faults[0].part = part;
      expect_right(one, 10);
    }
    for (const int hosts : {4, 5, 6}) {
      SCOPED_TRACE(hosts);
      auto two = with({Kind::nic, Kind::nic}, hosts);
      two.rails = 1;
      for (auto& fault : two.faults) fault.part = part;
      expect_right(two, 10);
    }
  }
}

TEST(Fabric, NamesTwoBadNicsOfFourHostsOnOneRailOfSeveralAndNotTheRail) {
  auto tree = with({Kind::nic, Kind::nic}, 4);
  tree.rails = 2;
  for (auto& fault : tree.faults) fault.part = 0.5;
  expect_right(tree, 20);
}

TEST(Fabric, NamesEndsWithoutTopology) {
  for (const auto kind : {Kind::nic, Kind::host, Kind::dead_host}) {
    SCOPED_TRACE(name(kind));
    auto tree = with({kind});
    tree.topology = false;
    expect_right(tree, 3);
  }
}

TEST(Fabric, OfTwoLeavesSaysThatItIsBetweenThem) {
  auto tree = with({Kind::uplink}, 64);
  place(tree);
  const Measured measured{measure(tree)};
  const auto judgement = judge_fabric(measured.benchmarks, {}, {});
  ASSERT_EQ(judgement.suspects.size(), 1U) << judge(tree).text;
  EXPECT_NE(judgement.suspects.front().detail.find("between leaf leaf0 and leaf leaf1"), std::string::npos);
}

TEST(Fabric, SaysWhichDirectionIsSlowWhereItWasMeasuredAgain) {
  auto tree = with({Kind::nic}, 32);
  place(tree);
  auto results = measure(tree);
  for (auto& row : results.rows) {
    if (row.key.part("dir") != "in") continue;
    for (auto& rate : row.by_rank["busbw_gb_per_s"]) {
      if (rate) rate = 47;
    }
  }
  const Measured measured{std::move(results)};
  const auto judgement = judge_fabric(measured.benchmarks, {}, {});
  ASSERT_EQ(judgement.suspects.size(), 1U);
  EXPECT_NE(judgement.suspects.front().detail.find("sending only"), std::string::npos)
      << judgement.suspects.front().detail;
}

TEST(Fabric, NamesAHostThatDiesInARoundAndNotItsPartners) {
  auto results = measure(with({}, 8));
  const std::size_t dead = 5;
  for (std::size_t row = 2; row < results.rows.size(); ++row) {
    auto& ranks = results.rows[row].by_rank;
    for (std::size_t rank = 0; rank < ranks["partner"].size(); ++rank) {
      const bool touches =
          rank / 8 == dead || (ranks["partner"][rank] && static_cast<std::size_t>(*ranks["partner"][rank]) / 8 == dead);
      if (touches) ranks["busbw_gb_per_s"][rank] = std::nullopt;
    }
  }
  const Measured measured{std::move(results)};
  const auto judgement = judge_fabric(measured.benchmarks, {}, {});
  ASSERT_EQ(judgement.suspects.size(), 1U);
  EXPECT_NE(judgement.suspects.front().detail.find("n5 does not answer"), std::string::npos);
}

std::vector<Finding> missing(Results results) {
  const Measured measured{std::move(results)};
  auto findings = judge_fabric(measured.benchmarks, {}, {}).findings;
  std::erase_if(findings, [](const Finding& finding) { return finding.status != Status::missing; });
  return findings;
}

TEST(Fabric, MissesAHostThatIsInNoRound) {
  for (const int hosts : {2, 3, 7, 8}) EXPECT_TRUE(missing(measure(with({}, hosts))).empty()) << "some stand by";
  auto results = measure(with({}, 8));
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
  for (const Culprit& place : findings.front().offenders) EXPECT_EQ(place.host, "n5");
}

TEST(Fabric, MissesARailThatItsHostHadWithNobody) {
  auto results = measure(with({}, 4));
  for (Row& row : results.rows) {
    for (auto& [metric, values] : row.by_rank) values[3] = std::nullopt;
  }
  const auto findings = missing(std::move(results));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings.front().worst->rank, 3);
  EXPECT_EQ(findings.front().offender_count, 1U);
}

TEST(Fabric, MissesAllWhoseRoundsAreNotThereWhateverTheirSumsSay) {
  auto results = measure(with({}, 4));
  std::erase_if(results.rows, [](const Row& row) { return row.key.part("op") != "allreduce"; });
  for (const bool waived : {false, true}) {
    if (waived) std::ranges::for_each(results.rows, [](Row& row) { row.waived = "there is one host only"; });
    const auto findings = missing(results);
    ASSERT_EQ(findings.size(), 1U);
    EXPECT_EQ(findings.front().offender_count, 32U);
  }
}

bool is_sum(const Row& row) { return row.key.part("op") == "allreduce"; }

TEST(Fabric, NamesAPairThatIsSlowInEachOfItsRounds) {
  auto tree = with({Kind::dead_pair}, 32);
  place(tree);
  auto results = measure(tree);
  for (auto& row : results.rows) {
    if (is_sum(row)) continue;
    auto& ranks = row.by_rank;
    for (std::size_t rank = 0; rank < ranks["partner"].size(); ++rank) {
      if (ranks["partner"][rank] && !ranks["busbw_gb_per_s"][rank]) ranks["busbw_gb_per_s"][rank] = 40;
    }
  }
  const Measured measured{std::move(results)};
  const auto judgement = judge_fabric(measured.benchmarks, {}, {});
  EXPECT_TRUE(std::any_of(judgement.suspects.begin(), judgement.suspects.end(), [](const Diagnosis& d) {
    return d.causes == std::vector{Cause::slow_path} && d.detail.find("slow with each other") != std::string::npos;
  }));
}

// Of 300 networks the ones in which a pair was slow three times by chance, more sums than 16 were low, or a NIC was at
// its best only as good as most are in the middle.
TEST(Fabric, OfThousandsOfHostsNamesNobodyWhoIsSlowByChanceAndMissesNone) {
  expect_right(with({}, 4096), 1, 3000054);
  expect_right(with({Kind::sum}, 4096), 1, 3000284);
  expect_right(with({Kind::nic}, 1024), 1, 5000001);
}

TEST(Fabric, AnAllReduceThatIsLowIsSaidOfItsPairAndAccusesNoHost) {
  auto tree = with({Kind::sum}, 32);
  place(tree);
  const Measured measured{measure(tree)};
  const auto judgement = judge_fabric(measured.benchmarks, {}, {});
  ASSERT_EQ(judgement.suspects.size(), 1U) << judge(tree).text;
  const auto& d = judgement.suspects.front();
  EXPECT_EQ(d.causes, std::vector{Cause::slow_path}) << "which leaves both hosts in use";
  EXPECT_EQ(d.places.size(), 2U);
  EXPECT_NE(d.detail.find("in an AllReduce over all rails, and each rail is good; repeated"), std::string::npos)
      << d.detail;
  EXPECT_EQ(d.evidence_count, 3U) << "a round, and two that repeat it";
}

TEST(Fabric, AnAllReduceThatIsLowOnceIsNoted) {
  auto tree = with({Kind::sum}, 32);
  place(tree);
  auto results = measure(tree);
  for (auto& row : results.rows) {
    if (!is_sum(row) || row.key.part("confirm") != "1") continue;
    for (auto& rate : row.by_rank["busbw_gb_per_s"]) {
      if (rate) rate = *rate * 2;
    }
  }
  const Measured measured{std::move(results)};
  const auto judgement = judge_fabric(measured.benchmarks, {}, {});
  EXPECT_TRUE(judgement.suspects.empty());
  EXPECT_NE(judgement.said.find("slow in one round only"), std::string::npos) << judgement.said;
}

TEST(Fabric, NamesAHostThatDiesInAnAllReduce) {
  auto results = measure(with({}, 8));
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
  const Measured measured{std::move(results)};
  const auto judgement = judge_fabric(measured.benchmarks, {}, {});
  ASSERT_EQ(judgement.suspects.size(), 1U);
  EXPECT_EQ(judgement.suspects.front().causes, std::vector{Cause::slow_node});
  EXPECT_NE(judgement.suspects.front().detail.find("n5 does not answer in an AllReduce"), std::string::npos);
}

TEST(Fabric, WrongDataBetweenHostsFails) {
  auto results = measure(with({}, 8));
  results.rows[1].wrong_ranks = {5};
  const Measured measured{std::move(results)};
  const auto judgement = judge_fabric(measured.benchmarks, {}, {});
  ASSERT_EQ(judgement.wrong_data.size(), 1U);
  EXPECT_EQ(judgement.wrong_data.front().wrong_ranks, std::vector<int>{5});
}

TEST(Fabric, SaysThatEachRailIsGoodOnlyWhereEachWasMeasured) {
  auto tree = with({Kind::dead_host}, 2);
  place(tree);
  const Measured dead{measure(tree)};
  const auto silent = judge_fabric(dead.benchmarks, {}, {});
  ASSERT_EQ(silent.suspects.size(), 1U);
  EXPECT_NE(
      silent.suspects.front().detail.find("do not answer each other in an AllReduce over all rails, and no single "
                                          "rail has a rate"),
      std::string::npos)
      << silent.suspects.front().detail;
}

TEST(Fabric, OfTwoHostsSaysThatASlowRailIsOfOneOrTheOther) {
  auto tree = with({Kind::nic}, 2);
  place(tree);
  const Measured measured{measure(tree)};
  const auto judgement = judge_fabric(measured.benchmarks, {}, {});
  ASSERT_EQ(judgement.suspects.size(), 1U);
  const auto& d = judgement.suspects.front();
  EXPECT_EQ(d.causes, (std::vector{Cause::slow_nic, Cause::configuration}));
  EXPECT_NE(d.detail.find("slow between n0 and n1 against the other rails"), std::string::npos) << d.detail;
}

TEST(Fabric, OfTwoHostsTellsNoEndFromTheOther) {
  const auto tree = with({}, 2);
  const Measured measured{measure(tree)};
  const auto judgement = judge_fabric(measured.benchmarks, {}, {});
  EXPECT_TRUE(judgement.suspects.empty());
  EXPECT_FALSE(judgement.judged) << "there are no peers";
}

}  // namespace
}  // namespace shakedown::fabric
