#include "base/nearest_word.hpp"

#include <gtest/gtest.h>

namespace shakedown::nearest_word_test {
namespace {

const std::vector<std::string> verbs{"accept", "measure", "report", "nodes", "regress", "baseline"};

TEST(NearestWord, IsTheOneWithTheFewestEdits) {
  for (const auto& [typed, meant] : std::vector<std::pair<std::string, std::string>>{{"acept", "accept"},
                                                                                     {"repotr", "report"},
                                                                                     {"baslin", "baseline"},
                                                                                     {"node", "nodes"},
                                                                                     {"regres", "regress"}}) {
    EXPECT_EQ(nearest_word(typed, verbs), meant);
  }
  EXPECT_EQ(did_you_mean("mesure", verbs), " (did you mean measure?)");
}

TEST(NearestWord, IsNoneForAnotherWord) {
  for (const auto* other : {"", "x", "help", "install", "go"})
    EXPECT_EQ(nearest_word(other, verbs), std::nullopt) << other;
  EXPECT_EQ(did_you_mean("install", verbs), "");
  EXPECT_EQ(nearest_word("accept", {}), std::nullopt);
}

}  // namespace
}  // namespace shakedown::nearest_word_test
