// Parsing of the NCCL debug log. The lines are from NCCL 2.28.3 on two H200.
#include "kernels/nccl_log.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace shakedown::nccl_log_test {
namespace {

NcclLog read(const std::string& text) {
  std::istringstream in(text);
  return read_nccl_log(in);
}

TEST(NcclLog, TellsEachLinkOnce) {
  const auto log = read(
      "vm:1448:1448 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
      "vm:1448:1448 [0] NCCL INFO Connected to proxy localRank 0 -> connection 0x7f75e0000d20\n"
      "vm:1448:1448 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM\n");
  ASSERT_EQ(log.links.size(), 1u);
  EXPECT_EQ(log.links[0].src, 0);
  EXPECT_EQ(log.links[0].dst, 1);
  EXPECT_EQ(log.links[0].via, "P2P/CUMEM");
  EXPECT_EQ(log.links[0].kind(), "P2P");
}

TEST(NcclLog, TellsSharedMemoryAndNetworks) {
  const auto log = read(
      "vm:1576:1576 [1] NCCL INFO Channel 02 : 1[1] -> 0[0] via SHM/direct/direct\n"
      "n1:9:9 [3] NCCL INFO Channel 01/0 : 13[5] -> 24[0] [send] via NET/IB/3/GDRDMA\n"
      "n1:9:9 [3] NCCL INFO Channel 01/0 : 2[2] -> 1[1] [receive] via NET/Socket/0/Shared\n");
  ASSERT_EQ(log.links.size(), 3u);
  EXPECT_EQ(log.links[0].kind(), "SHM");
  EXPECT_EQ(log.links[1].src, 13);
  EXPECT_EQ(log.links[1].dst, 24);
  EXPECT_EQ(log.links[1].kind(), "NET");
  EXPECT_EQ(log.links[2].via, "NET/Socket/0/Shared");
}

TEST(NcclLog, TellsTheAlgorithmOfTheLastCollective) {
  const auto log = read(
      "vm:1448:1448 [0] NCCL INFO AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}\n"
      "vm:1448:1448 [0] NCCL INFO AllReduce: 134217728 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..15}\n");
  EXPECT_EQ(log.algorithm, "NVLS_TREE/SIMPLE");
  EXPECT_TRUE(log.links.empty());
}

TEST(Transports, OfANetworkRowAreAllTheNetwork) {
  EXPECT_EQ(problem_of_network({"NET/Socket/0", "NET/IB/3/GDRDMA"}), "");
  EXPECT_NE(problem_of_network({"NET/Socket/0", "P2P/CUMEM"}).find("NCCL used P2P/CUMEM"), std::string::npos);
  EXPECT_NE(problem_of_network({"SHM/direct/direct"}).find("NCCL used SHM/direct/direct"), std::string::npos);
  EXPECT_NE(problem_of_network({}), "") << "an unknown transport fails";
}

TEST(NcclLog, PassesOverWhatItDoesNotKnow) {
  for (const auto* text : {"", "\n\n", "vm:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] vi", "via P2P/CUMEM",
                           "vm:1:1 [0] NCCL INFO Channel 00/0 : 99999999999[0] -> 1[1] via P2P/IPC",
                           "vm:1:1 [0] NCCL INFO Algorithm | Tree | Ring |", "Bytes -> Algo RING pro"}) {
    const auto log = read(text);
    EXPECT_TRUE(log.links.empty()) << text;
    EXPECT_TRUE(log.algorithm.empty()) << text;
  }
}

}  // namespace
}  // namespace shakedown::nccl_log_test
