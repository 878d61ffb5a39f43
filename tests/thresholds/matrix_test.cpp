// Tests matrices of pairs: constructed ones, and those of four real H200.
#include "thresholds/results/matrix.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/thresholds/results_builder.hpp"

namespace shakedown::matrix_test {
namespace {

using testing_support::Folder;
using testing_support::ResultsBuilder;
using testing_support::Values;

Results of_four_h200() { return read_results(SHAKEDOWN_SOURCE_DIR "/tests/data/h200-sxm-4ranks-full/1/p2p.json"); }

const PairMatrix& with_key(const std::vector<PairMatrix>& matrices, const std::string& key) {
  const auto found = std::find_if(matrices.begin(), matrices.end(), [&](const auto& m) { return m.key == key; });
  if (found == matrices.end()) throw std::runtime_error("no matrix " + key);
  return *found;
}

std::string pair_key(std::size_t src, std::size_t dst, const std::string& bytes = "1024") {
  return "p2p/op:read/engine:ce/src:" + std::to_string(src) + "/dst:" + std::to_string(dst) + "/bytes:" + bytes;
}

/// One figure of a pair on each host, at the destination.
void add_pair(ResultsBuilder& builder, int src, int dst, double value) {
  Values values(builder.context.ranks.size());
  for (const auto& rank : builder.context.ranks) {
    if (rank.local_rank == dst) values[static_cast<std::size_t>(rank.rank)] = value + rank.rank;
  }
  builder.add(pair_key(static_cast<std::size_t>(src), static_cast<std::size_t>(dst)), "copy_gb_per_s", value, values);
}

TEST(PairMatrices, TakeNoMemoryForARankThatNoHostHas) {
  ResultsBuilder builder(2);
  add_pair(builder, 0, 1, 400);
  add_pair(builder, 2000000000, 1, 400);
  const Results results = builder.results();
  const auto matrices = pair_matrices(results.context, results.rows);
  ASSERT_EQ(matrices.size(), 1u);
  EXPECT_EQ(matrices[0].values.size(), 2u);
}

TEST(PairMatrices, OfFourGpusHaveEveryPairOfEveryDirection) {
  const Results results = of_four_h200();
  const auto matrices = pair_matrices(results.context, results.rows);
  ASSERT_EQ(matrices.size(), 7u);  // read, write, both ways, latency; all at once: write, and both by kernels
  const auto& read = with_key(matrices, "p2p/op:read/engine:ce/bytes:1073741824");
  EXPECT_EQ(read.metric, "copy_gb_per_s");
  ASSERT_EQ(read.values.size(), 4u);
  for (std::size_t src = 0; src < 4; ++src) {
    for (std::size_t dst = 0; dst < 4; ++dst) {
      ASSERT_EQ(read.values[src][dst].has_value(), src != dst);
      if (src == dst) continue;
      const auto row = std::find_if(results.rows.begin(), results.rows.end(),
                                    [&](const Row& r) { return r.key == pair_key(src, dst, "1073741824"); });
      ASSERT_NE(row, results.rows.end());
      EXPECT_EQ(read.values[src][dst], row->by_rank.at("copy_gb_per_s").at(dst));
    }
  }
  const auto& latency = with_key(matrices, "p2p/op:latency/engine:sm/bytes:2097152");
  EXPECT_EQ(latency.metric, "latency_us");
  const auto& both = with_key(matrices, "p2p/op:write/engine:ce/dir:both/bytes:1073741824");
  EXPECT_TRUE(both.values[0][3].has_value());
  EXPECT_FALSE(both.values[3][0].has_value()) << "both ways are measured once";
}

TEST(PairMatrices, HaveTheValueOfTheDestinationInTheRowOfTheSource) {
  ResultsBuilder builder(3);
  add_pair(builder, 0, 1, 100);
  add_pair(builder, 2, 1, 200);
  const Results results = builder.results();
  const auto matrices = pair_matrices(results.context, results.rows);
  ASSERT_EQ(matrices.size(), 1u);
  EXPECT_EQ(matrices[0].values[0][1], 101);
  EXPECT_EQ(matrices[0].values[2][1], 201);
  EXPECT_FALSE(matrices[0].values[1][0].has_value());
}

TEST(PairMatrices, HaveThePairsOfShifts) {
  ResultsBuilder builder(6, 2);
  for (const char* shift : {"1", "2"}) {
    builder.add("p2p/op:read/engine:ce/shift:" + std::string(shift) + "/bytes:8", "copy_gb_per_s", 100,
                {100, 101, 102, 103, 104, 105});
  }
  const Results results = builder.results();
  const auto matrices = pair_matrices(results.context, results.rows);
  ASSERT_EQ(matrices.size(), 2u);
  EXPECT_EQ(matrices[1].key, "p2p/op:read/engine:ce/shift:*/bytes:8");
  EXPECT_EQ(matrices[0].values[2][0], 100) << "from the rank before it, round the ring of its host";
  EXPECT_EQ(matrices[0].values[1][0], 100) << "two places before it";
  EXPECT_EQ(matrices[1].values[1][2], 105);
  EXPECT_FALSE(matrices[0].values[1][1].has_value());
}

TEST(PairMatrices, AreOnePerHost) {
  ResultsBuilder builder(4, 2);
  add_pair(builder, 0, 1, 100);
  const Results results = builder.results();
  const auto matrices = pair_matrices(results.context, results.rows);
  ASSERT_EQ(matrices.size(), 2u);
  EXPECT_NE(matrices[0].host, matrices[1].host);
  EXPECT_EQ(matrices[0].values[0][1], 101);
  EXPECT_EQ(matrices[1].values[0][1], 103);
}

TEST(PairMatrices, AreAbsentWhereNothingWasMeasured) {
  ResultsBuilder builder(1);
  builder.add_waiver(pair_key(0, 1), "one rank on this host");
  const Results results = builder.results();
  EXPECT_TRUE(pair_matrices(results.context, results.rows).empty());
}

TEST(PairMatrices, TakeTheMedianOfRepetitions) {
  PairMatrix expected;
  Context context = ResultsBuilder(2).context;
  std::map<std::string, std::vector<RankData>> repetitions;
  for (const double value : {10.0, 30.0, 20.0}) {
    repetitions[pair_key(0, 1)].emplace_back().by_rank = {{"copy_gb_per_s", {std::nullopt, value}}};
  }
  const auto matrices = pair_matrices(context, repetitions);
  ASSERT_EQ(matrices.size(), 1u);
  EXPECT_EQ(matrices[0].values[0][1], 20);
}

TEST(PairMatrices, NameTheSlowestCopyAndTheLongestLatency) {
  PairMatrix matrix{Key("p2p/op:read/bytes:8"), "copy_gb_per_s", "node1", {{std::nullopt, 5.0}, {3.0, std::nullopt}}};
  EXPECT_EQ(matrix.worst()->src, 1);
  EXPECT_EQ(matrix.worst()->value, 3.0);
  matrix.metric = "latency_us";
  EXPECT_EQ(matrix.worst()->src, 0);
  EXPECT_EQ(matrix.worst()->value, 5.0);
  matrix.values = {{std::nullopt}};
  EXPECT_FALSE(matrix.worst().has_value());
}

TEST(PairMatrices, ArePrintedInColumnsWithTheWorstMarked) {
  const PairMatrix matrix{
      Key("p2p/op:read/engine:ce/bytes:8"), "copy_gb_per_s", "node1", {{std::nullopt, 396.86}, {96.04, std::nullopt}}};
  EXPECT_EQ(text(matrix),
            "p2p/op:read/engine:ce/bytes:8 on node1, GB/s, source by row, destination by column\n"
            "  src\\dst     0      1\n"
            "  0           -  396.9\n"
            "  1        96.0*     -\n"
            "  * worst: 1 to 0, 96.0 GB/s\n");
}

TEST(PairMatrices, OfRealGpusHaveLinesOfOneLength) {
  const Results results = of_four_h200();
  for (const auto& matrix : pair_matrices(results.context, results.rows)) {
    std::istringstream lines(text(matrix));
    std::string line;
    std::getline(lines, line);
    std::size_t marks = 0, widest = 0, narrowest = 1000;
    for (int row = 0; row < 5; ++row) {
      std::getline(lines, line);
      marks += static_cast<std::size_t>(std::count(line.begin(), line.end(), '*'));
      while (!line.empty() && line.back() == '*') line.pop_back();
      widest = std::max(widest, line.size());
      narrowest = std::min(narrowest, line.size());
    }
    EXPECT_EQ(widest, narrowest) << text(matrix);
    EXPECT_EQ(marks, 1u);
  }
}

TEST(PairMatrices, StandInTheResultFile) {
  const Results results = of_four_h200();
  std::map<std::string, std::vector<RankData>> by_rank;
  for (const Row& row : results.rows) by_rank[row.key].push_back(row);
  const auto document =
      nlohmann::json::parse(write_results(R"({"context": {}, "benchmarks": []})", results.context, by_rank));
  ASSERT_EQ(document.at("matrices").size(), 7u);
  for (const auto& matrix : document["matrices"]) {
    EXPECT_EQ(matrix.at("src_by_dst").size(), 4u);
    EXPECT_TRUE(matrix.at("src_by_dst")[0][0].is_null());
    EXPECT_TRUE(matrix.at("src_by_dst")[0][1].is_number());
    EXPECT_TRUE(matrix.at("worst").at("value").is_number());
  }
  EXPECT_FALSE(nlohmann::json::parse(write_results(R"({"context": {}, "benchmarks": []})", results.context, {}))
                   .contains("matrices"));
}

}  // namespace
}  // namespace shakedown::matrix_test
