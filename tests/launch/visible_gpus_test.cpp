// Tests the GPUs that CUDA shows under a mask. The expectations are the results of cuInit and cuDeviceGetCount on two
// H200 (2026-11-26); CUDA_ERROR_NO_DEVICE and CUDA_ERROR_INVALID_DEVICE count as no GPU.
#include "launch/visible_gpus.hpp"

#include <gtest/gtest.h>

#include <map>

#include "launch/discover.hpp"

namespace shakedown::visible_gpus_test {
namespace {

const std::string first = "GPU-a7725b98-6920-3bc9-0190-f9dbab27edb3",
                  second = "GPU-10340996-3284-4f74-5fb3-302b01c1f82a";
const std::vector<std::string> two{first, second};

int shown(const std::string& mask) { return visible_gpus(mask, two).count; }

TEST(VisibleGpus, AreThoseOfTheIndicesUpToTheFirstInvalidOne) {
  const std::map<std::string, int> counts{
      {"0", 1},        {"1", 1},          {"0,1", 2}, {"1,0", 2},     {"0,5,1", 1}, {"5,0", 0}, {"0,2", 1},
      {"1,2,0", 1},    {"0,abc,1", 1},    {"abc", 0}, {"0,,1", 1},    {",0", 0},    {"0,", 1},  {"0, ", 1},
      {"0,1,-1,1", 2}, {"0,-1,1", 1},     {"-1", 0},  {"-1,0", 0},    {"--1", 0},   {"all", 0}, {"none", 0},
      {"void", 0},     {"NoDevFiles", 0}, {"", 0},    {"0,1,2,1", 2}, {"0,5,0", 1}};
  for (const auto& [mask, count] : counts) EXPECT_EQ(shown(mask), count) << mask;
}

TEST(VisibleGpus, HaveIndicesAsStrtolReadsThem) {
  const std::map<std::string, int> counts{
      {"0, 1", 2}, {" 0,1", 2},  {"0 ,1", 2}, {"0,1x", 2},       {"1gpu2,0amp", 2},   {"+1", 1},
      {"0x1", 1},  {"00,01", 2}, {"0;1", 1},  {"0:1", 1},        {"0.1", 1},          {"0 1", 1},
      {"1,+0", 2}, {"1-0", 1},   {"-0", 1},   {"4294967296", 1}, {"0,4294967297", 2}, {"99999999999999999999", 0}};
  for (const auto& [mask, count] : counts) EXPECT_EQ(shown(mask), count) << mask;
}

TEST(VisibleGpus, AreNoneIfOneIsNamedTwice) {
  for (const auto& mask :
       std::vector<std::string>{"0,0", "0,1,0", "0,1,1,0", "0,-0", first + "," + first, "GPU-a7725b98," + first}) {
    EXPECT_EQ(shown(mask), 0) << mask;
    EXPECT_NE(visible_gpus(mask, two).ignored.find("names a GPU twice"), std::string::npos) << mask;
  }
}

TEST(VisibleGpus, AreThoseOfTheUuidsWhichMayBeCutShort) {
  const std::string upper = "GPU-A7725B98-6920-3BC9-0190-F9DBAB27EDB3";
  const std::map<std::string, int> counts{{first, 1},
                                          {second + "," + first, 2},
                                          {"GPU-a7725b98", 1},
                                          {"GPU-a772,GPU-1034", 2},
                                          {"GPU-a", 1},
                                          {"GPU-", 0},
                                          {"GPU", 0},
                                          {upper, 1},
                                          {"gpu-" + first.substr(4), 0},
                                          {first.substr(4), 0},
                                          {first + ",GPU-deadbeef," + second, 1},
                                          {first + " ," + second, 2},
                                          {first + ", " + second, 1},
                                          {" " + first, 0},
                                          {first + "x", 1},
                                          {first + ",", 1},
                                          {first + ",1", 1},
                                          {"0," + second, 1},
                                          {"0," + first, 1},
                                          {"1,GPU-a7725b98", 1}};
  for (const auto& [mask, count] : counts) EXPECT_EQ(shown(mask), count) << mask;
  EXPECT_EQ(visible_gpus("GPU-1", {"GPU-10", "GPU-11"}).count, 0) << "of two";
}

TEST(VisibleGpus, AreOneMigDevice) {
  EXPECT_EQ(shown("MIG-" + first.substr(4)), 1) << "a GPU without MIG";
  EXPECT_EQ(shown(first + ",MIG-" + second + "/0/0"), 1);
  EXPECT_EQ(shown("0,MIG-" + second + "/0/0"), 1);
  // "Only single MIG instance enumeration is supported" (the guide).
  const auto mig = visible_gpus("MIG-GPU-a7725b98-6920-3bc9-0190-f9dbab27edb3/1/2,MIG-0d5a3b8e", two);
  EXPECT_EQ(mig.count, 1);
  EXPECT_EQ(mig.ignored, "CUDA shows one MIG device, and no other after it");
}

TEST(VisibleGpus, SayWhatCudaIgnores) {
  EXPECT_EQ(visible_gpus("0,5,1", two).ignored,
            "\"5\" names no GPU of this host; there are 2, and CUDA ignores the rest of the list");
  EXPECT_TRUE(visible_gpus("7", two).ignored.starts_with("\"7\" "));
  for (const auto* taken : {"0,1", "", "-1", "0,-1", "0,", "NoDevFiles"})
    EXPECT_EQ(visible_gpus(taken, two).ignored, "");
}

TEST(VisibleGpus, AreNeverMoreThanThereAre) {
  EXPECT_EQ(visible_gpus("0,1", {}).count, 0);
  const std::vector<std::string> addresses{"0000:1b:00.0", "0000:1c:00.0"};
  EXPECT_EQ(visible_gpus("GPU-1,GPU-2,GPU-3", addresses).count, 2) << "their UUIDs are unknown";
  EXPECT_EQ(visible_gpus("1,0", addresses).count, 2);
}

}  // namespace
}  // namespace shakedown::visible_gpus_test
