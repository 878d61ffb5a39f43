// The choice of the attention by what cuDNN supports, with a simulated query.
#include "kernels/transformer/attention_choice.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace shakedown::training::attention_choice_test {
namespace {

enum class Supports { both, nondeterministic, neither };

/// A simulated library. It reports what it supports for deterministic (true) and other (false) attention, and records
/// the queries.
struct Library {
  Supports supports;
  std::vector<bool> asked = {};

  bool operator()(bool deterministic) {
    asked.push_back(deterministic);
    const bool can = supports == Supports::both || (supports == Supports::nondeterministic && !deterministic);
    if (!can) throw Unsupported("has no engine for the gradient of attention");
    return deterministic;
  }
};

std::string refusal(std::optional<std::size_t> version) {
  Library library{Supports::neither};
  try {
    choose_attention(std::ref(library), version);
  } catch (const MissingSoftware& reason) {
    return reason.what();
  }
  return "made";
}

TEST(AttentionChoice, IsDeterministicWhereThatIsSupported) {
  Library library{Supports::both};
  EXPECT_TRUE(choose_attention(std::ref(library), 91900));
  EXPECT_EQ(library.asked, std::vector<bool>{true});
}

TEST(AttentionChoice, IsNondeterministicWhereOnlyThatIsSupported) {
  Library library{Supports::nondeterministic};
  EXPECT_FALSE(choose_attention(std::ref(library), 90700));
  EXPECT_EQ(library.asked, (std::vector<bool>{true, false}));
}

TEST(AttentionChoice, NamesTheVersionThatItNeedsAndTheOneThatItFound) {
  const auto old = refusal(90500);
  EXPECT_NE(old.find("needs cuDNN 9.18.1 or newer"), std::string::npos) << old;
  EXPECT_NE(old.find("9.5.0"), std::string::npos) << old;
  EXPECT_NE(old.find("no engine for the gradient of attention"), std::string::npos)
      << "the library's own word: " << old;
  const auto none = refusal(std::nullopt);
  EXPECT_NE(none.find("needs cuDNN 9.18.1 or newer"), std::string::npos) << none;
  const auto recent = refusal(91900);
  EXPECT_NE(recent.find("newer than 9.19.0"), std::string::npos) << recent;
}

}  // namespace
}  // namespace shakedown::training::attention_choice_test
