// Slow software is not blamed on hardware: stored launches whose training step is slowed down by a fallback.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "thresholds/judge/judge.hpp"
#include "thresholds/judge/nodes.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown::software_test {
namespace {

const std::string plain = "attention by plain kernels in place of cuDNN";

/// A stored launch of H200s whose training step takes `slower` times as long.
class Launch {
 public:
  Launch(int ranks, double slower)
      : files_(read_results(std::vector<std::filesystem::path>{SHAKEDOWN_SOURCE_DIR "/ci/baselines/h200-sxm/" +
                                                               std::to_string(ranks) + "ranks/1"})) {
    for (Results& file : files_) {
      for (Row& row : file.rows) {
        if (row.key.family() == "lora_step") slow_down(row, slower);
      }
    }
  }

  Launch& rename(const std::string& device) {
    for (Results& file : files_) {
      for (RankFacts& rank : file.context.ranks) rank.device = device;
    }
    return *this;
  }

  /// States the fallback in the row of each rank, or of one.
  Launch& state_fallback(std::optional<std::size_t> only = std::nullopt) {
    for (Results& file : files_) {
      file.context.versions["cudnn"] = "9.10.2";
      for (Row& row : file.rows) {
        if (row.key.family() != "lora_step") continue;
        auto& texts = row.text_by_rank["fallback"];
        texts.resize(file.context.ranks.size());
        for (std::size_t rank = 0; rank < texts.size(); ++rank) {
          if (!only || only == rank) texts[rank] = plain;
        }
      }
    }
    return *this;
  }

  Verdict judged(const FamilySet& families = {}) const {
    JudgeOptions options;
    options.families = families;
    const auto profiles = load_profiles(SHAKEDOWN_SOURCE_DIR "/thresholds");
    return judge(Measured(files_), References(profiles), options);
  }

 private:
  static void slow_down(Row& row, double slower) {
    const auto change = [&](const std::string& name, double& value) {
      if (name.ends_with("_ms") || name == "seconds") value *= slower;
      if (name.starts_with("tokens_per_s") || name == "model_tflops") value /= slower;
    };
    row.real_time *= slower;
    for (auto& [name, value] : row.metrics) change(name, value);
    for (auto& [name, values] : row.by_rank) {
      for (auto& value : values) {
        if (value) change(name, *value);
      }
    }
  }

  std::vector<Results> files_;
};

bool is_software(const Diagnosis& d) { return d.causes == std::vector{Cause::software}; }

TEST(Software, IsTheCulpritOfASlowStepOnBlackwellAndNoGpuIs) {
  for (const int ranks : {1, 2}) {
    const Launch launch = Launch(ranks, 14).rename("NVIDIA B200").state_fallback();
    const auto verdict = launch.judged({{"lora_step"}});
    EXPECT_EQ(verdict.state, State::fail) << ranks;
    ASSERT_EQ(verdict.culprits.size(), 1U) << ranks;
    const Diagnosis& d = verdict.culprits.front();
    EXPECT_TRUE(is_software(d)) << causes_text(d);
    EXPECT_TRUE(d.fails);
    EXPECT_TRUE(d.places.empty()) << "no GPU is accused";
    EXPECT_NE(d.detail.find(plain), std::string::npos) << d.detail;
    EXPECT_NE(d.next.find("cuDNN 9.10.2"), std::string::npos) << d.next;
    for (const auto& node : decide_nodes(verdict).nodes) EXPECT_NE(node.state, NodeState::bad) << node.host;
  }
}

TEST(Software, IsNotTheCulpritWithoutTheFactOfTheRow) {
  const auto verdict = Launch(1, 14).rename("NVIDIA B200").judged({{"lora_step"}});
  ASSERT_FALSE(verdict.culprits.empty());
  EXPECT_TRUE(std::none_of(verdict.culprits.begin(), verdict.culprits.end(), is_software));
}

TEST(Software, IsTheOnlyCulpritOfAWholeRunThatIsHealthyBesides) {
  for (const int ranks : {1, 2}) {
    const auto verdict = Launch(ranks, 7.5).state_fallback().judged();
    ASSERT_FALSE(verdict.culprits.empty());
    EXPECT_TRUE(is_software(verdict.culprits.front())) << causes_text(verdict.culprits.front());
    for (const Diagnosis& d : verdict.culprits) EXPECT_TRUE(is_software(d) || !d.fails) << causes_text(d);
  }
}

TEST(Software, OfOneRankDoesNotMakeItsGpuAnOutlier) {
  const auto verdict = Launch(2, 7.5).state_fallback(1).judged();
  for (const Diagnosis& d : verdict.culprits) EXPECT_TRUE(is_software(d) || !d.fails) << causes_text(d);
}

TEST(Software, ThatIsAsFastAsTheUsualIsNoCulprit) {
  const auto verdict = Launch(2, 1).state_fallback().judged();
  EXPECT_EQ(verdict.state, State::pass) << verdict_line(verdict);
  EXPECT_TRUE(std::none_of(verdict.culprits.begin(), verdict.culprits.end(), is_software));
}

}  // namespace
}  // namespace shakedown::software_test
