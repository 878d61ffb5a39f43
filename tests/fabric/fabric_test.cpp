// What the judge of networks says of made-up fat trees, small counts; fabric_rate makes the tables.
#include <gtest/gtest.h>

#include "tests/fabric/outcome.hpp"
#include "thresholds/fabric.hpp"
#include "thresholds/results.hpp"

namespace shakedown::fabric {
namespace {

void expect_right(Tree tree, int seeds) {
  for (int seed = 1; seed <= seeds; ++seed) {
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
}

TEST(Fabric, NamesOneFaultOfTenPercentAndNobodyElse) {
  for (const auto kind :
       {Kind::nic, Kind::host, Kind::leaf, Kind::uplink, Kind::path, Kind::rail, Kind::dead_host, Kind::dead_pair}) {
    SCOPED_TRACE(name(kind));
    expect_right(with({kind}), 3);
  }
}

TEST(Fabric, NamesTwoFaults) {
  expect_right(with({Kind::nic, Kind::nic}), 3);
  expect_right(with({Kind::uplink, Kind::nic}), 3);
  expect_right(with({Kind::host, Kind::leaf}), 3);
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
    if (row.key.find("dir:in") == std::string::npos) continue;
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

TEST(Fabric, WrongDataBetweenHostsFails) {
  auto results = measure(with({}, 8));
  results.rows[1].wrong_ranks = {5};
  const Measured measured{std::move(results)};
  const auto judgement = judge_fabric(measured.benchmarks, {}, {});
  ASSERT_EQ(judgement.wrong_data.size(), 1U);
  EXPECT_EQ(judgement.wrong_data.front().wrong_ranks, std::vector<int>{5});
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
