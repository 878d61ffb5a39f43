// Tests how accept finds results in the output of ranks.
#include "launch/rank_output.hpp"

#include <gtest/gtest.h>

namespace shakedown::rank_output_test {
namespace {

TEST(RankOutput, HoldsOneWholeDocument) {
  EXPECT_EQ(document_in("{\n\"a\": 1}\n"), "{\n\"a\": 1}\n");
  EXPECT_EQ(document_in("a warning\n{\n\"a\": 1}\nbye\n"), "{\n\"a\": 1}\n");
  EXPECT_EQ(document_in("{\n\"a\": 1"), "") << "cut off";
  EXPECT_EQ(document_in("{\"a\": 1}"), "") << "Google Benchmark begins with a line of its own";
  EXPECT_EQ(document_in(""), "");
}

TEST(RankOutput, StreamsAFamilyAndItsDocument) {
  using Streamed = std::pair<std::string, std::string>;
  EXPECT_EQ(streamed(R"({"family": "gemm", "result": {"a": {"b": 1}}})"), Streamed("gemm", "{\"a\": {\"b\": 1}}\n"));
  EXPECT_EQ(streamed(R"([0] {"family": "lora_step", "result": {"a": 1}})"), Streamed("lora_step", "{\"a\": 1}\n"));
  EXPECT_FALSE(streamed(R"({"family": "gemm", "result": )"));
  EXPECT_FALSE(streamed("[1/9] gemm"));
}

TEST(RankOutput, StreamsToNoFileOutsideOfTheRun) {
  for (const std::string family : {"../../x", "/etc/x", "a/b", "..", ".", "", "a.json", "a b"}) {
    EXPECT_FALSE(streamed(R"({"family": ")" + family + R"(", "result": {"a": 1}})")) << family;
  }
}

}  // namespace
}  // namespace shakedown::rank_output_test
