// Tests how accept interprets the output lines of ranks.
#include "launch/rank_output.hpp"

#include <gtest/gtest.h>

namespace shakedown::rank_output_test {
namespace {

using Words = std::vector<std::string>;

TEST(RankOutput, AnnouncesItsEnd) {
  EXPECT_TRUE(announces_end("shakedown: timeout: gemm/x not done after 300 s"));
  EXPECT_TRUE(announces_end("shakedown: rank 1 (a) ended unexpectedly in start; the job cannot go on"));
  EXPECT_FALSE(announces_end("a line of NCCL: shakedown: timeout:"));
  EXPECT_FALSE(announces_end("[1/9] gemm, 3 s so far"));
}

TEST(RankOutput, NamesHostsThatAreLost) {
  EXPECT_EQ(lost_hosts_in("shakedown-lost: nodea nodeb"), (Words{"nodea", "nodeb"}));
  EXPECT_EQ(lost_hosts_in("shakedown-lost: "), Words{});
  EXPECT_FALSE(lost_hosts_in("x shakedown-lost: nodea"));
  EXPECT_FALSE(lost_hosts_in("shakedown: nodea"));
}

TEST(RankOutput, IsForPeopleWhereItSaysSo) {
  EXPECT_TRUE(is_for_people("shakedown: nodea: 4 GPUs"));
  EXPECT_FALSE(is_for_people("shakedown-lost: nodea"));
  EXPECT_FALSE(is_for_people("NCCL INFO shakedown:"));
}

TEST(RankOutput, RefusesWhereAGpuIsInUseOrLibrariesAreMissing) {
  EXPECT_EQ(refusal_in("shakedown: rank 0 (a): GPU-1 is in use by another measurement: process 7 of root"),
            "rank 0 (a): GPU-1 is in use by another measurement: process 7 of root; wait for it, or end it");
  EXPECT_EQ(refusal_in("shakedown: nodea lacks CUDA libraries: libcudart.so.13"),
            "nodea lacks CUDA libraries: libcudart.so.13");
  EXPECT_EQ(refusal_in("a line of NCCL: GPU-1 is in use by another measurement: 7"), "");
  EXPECT_EQ(refusal_in("shakedown: nodea: 4 GPUs"), "");
}

TEST(RankOutput, HoldsOneWholeDocument) {
  EXPECT_EQ(document_in("{\n\"a\": 1}\n"), "{\n\"a\": 1}\n");
  EXPECT_EQ(document_in("a warning\n{\n\"a\": 1}\nbye\n"), "{\n\"a\": 1}\n");
  EXPECT_EQ(document_in("{\n\"a\": 1"), "") << "cut off";
  EXPECT_EQ(document_in("{\n\"a\": {}, \"b\": "), "") << "cut off after a part";
  EXPECT_EQ(document_in("{\"a\": 1}"), "") << "Google Benchmark begins with a line of its own";
  EXPECT_EQ(document_in(""), "");
}

TEST(RankOutput, StreamsAFamilyAndItsDocument) {
  using Streamed = std::pair<std::string, std::string>;
  EXPECT_EQ(streamed(R"({"family": "gemm", "result": {"a": {"b": 1}}})"), Streamed("gemm", "{\"a\": {\"b\": 1}}\n"));
  EXPECT_EQ(streamed(R"([0] {"family": "lora_step", "result": {"a": 1}})"), Streamed("lora_step", "{\"a\": 1}\n"));
  EXPECT_FALSE(streamed(R"({"family": "gemm", "result": {"a": {"b": 1})")) << "cut off";
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
