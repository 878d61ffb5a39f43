// base/key.hpp: keys built by operations and parsed by the judge.
#include "base/key.hpp"

#include <gtest/gtest.h>

namespace shakedown::key_test {
namespace {

enum class Engine { sm, ce };
constexpr auto words(Engine) { return names("sm", "ce"); }

TEST(Key, IsBuiltOfAFamilyAndPartsInOrder) {
  const auto key = Key("p2p").set("op", "read").set("engine", Engine::ce).set("src", 0).set("bytes", std::size_t{64});
  EXPECT_EQ(key.text(), "p2p/op:read/engine:ce/src:0/bytes:64");
}

TEST(Key, LeavesOutWhatIsUsualOrNotSaid) {
  EXPECT_EQ(Key("step").set_unless(1, "accumulation", 1).set("rank", std::optional<int>{}).text(), "step");
  EXPECT_EQ(Key("step").set_unless(1, "accumulation", 2).set("rank", std::optional(3)).text(),
            "step/accumulation:2/rank:3");
}

TEST(Key, KeepsThePlaceOfAPartThatIsSetAgain) {
  EXPECT_EQ(Key("p2p/src:0/dst:1").set("src", "*").text(), "p2p/src:*/dst:1");
}

TEST(Key, SetsSeveralPartsAtOnceAndLeavesItsCopiesAsTheyWere) {
  Key key("p2p/src:*/dst:*");
  const Key copy = key;
  key.set_all({{"src", "0"}, {"dst", "1"}, {"bytes", "64"}});
  EXPECT_EQ(key, "p2p/src:0/dst:1/bytes:64");
  EXPECT_EQ(copy, "p2p/src:*/dst:*");
}

TEST(Key, WithoutTextHasNoFamilyAndNoParts) {
  EXPECT_EQ(Key(), "");
  EXPECT_EQ(Key(), Key(""));
  EXPECT_EQ(Key().family(), "");
  EXPECT_TRUE(Key().parts().empty());
  EXPECT_EQ(Key().set("rank", 1), "/rank:1");
}

TEST(Key, IsTheSameAfterItWasParsed) {
  for (const auto* text : {"gemm", "gemm/dtype:bf16/m:8", "machine/ranks", "preflight/of:host"}) {
    EXPECT_EQ(Key(text).text(), text);
  }
}

TEST(Key, TellsItsParts) {
  constexpr auto key = "p2p/op:read/src:12/dst:*";
  EXPECT_EQ(family_of(key), "p2p");
  EXPECT_EQ(key_part(key, "op"), "read");
  EXPECT_EQ(key_part(key, "o"), "") << "the beginning of a name is another name";
  EXPECT_EQ(key_number(key, "src"), 12);
  EXPECT_FALSE(key_number(key, "dst")) << "a star is no number";
  EXPECT_FALSE(key_number(key, "bytes"));
}

TEST(Key, TellsItsPartsOnceItIsParsed) {
  const Key key("p2p/op:read/src:12/dst:*");
  EXPECT_EQ(key.family(), "p2p");
  EXPECT_EQ(key.part("op"), "read");
  EXPECT_EQ(key.part("o"), "");
  EXPECT_EQ(key.number("src"), 12);
  EXPECT_FALSE(key.number("dst"));
  EXPECT_EQ(key.with("src", "1"), "p2p/op:read/src:1/dst:*");
  EXPECT_EQ(key.with("rank", "1"), key);
}

TEST(Key, IsOrderedAsItsText) {
  std::vector<std::string> texts{"gemm", "gemm/dtype:bf16", "gemm-x", "gemm/dtype:bf16/m:8", "gemm/dtype:bf16-x", "a"};
  std::vector<Key> keys;
  for (const auto& text : texts) keys.emplace_back(text);
  std::sort(texts.begin(), texts.end());
  std::sort(keys.begin(), keys.end());
  EXPECT_TRUE(std::equal(keys.begin(), keys.end(), texts.begin(), texts.end()));
}

}  // namespace
}  // namespace shakedown::key_test
