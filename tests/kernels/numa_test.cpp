// NUMA nodes of made-up hosts: two sockets, and Grace with GPUs whose memory is a node of its own.
#include "kernels/numa.hpp"

#include <gtest/gtest.h>

#include "tests/node/made_up_host.hpp"

namespace shakedown::numa_test {
namespace {

const std::string nodes = "sys/devices/system/node/node", pci = "0000:1b:00.0";

void add_node(const MadeUpHost& host, int node, const std::string& cpus, int gb, const std::string& distances = "") {
  const auto folder = nodes + std::to_string(node);
  host.write(folder + "/cpulist", cpus + "\n");
  host.write(folder + "/meminfo",
             "Node " + std::to_string(node) + " MemTotal:  " + std::to_string(gb * 1000000) + " kB\n");
  if (!distances.empty()) host.write(folder + "/distance", distances + "\n");
}

void add_gpu(const MadeUpHost& host, int node) {
  host.write("sys/bus/pci/devices/" + pci + "/numa_node", std::to_string(node));
}

TEST(Numa, TheFarNodeOfTwoSocketsIsTheOther) {
  const MadeUpHost host;
  add_node(host, 0, "0-47", 1000);
  add_node(host, 1, "48-95", 1000);
  add_gpu(host, 1);
  EXPECT_EQ(host_node_of(host.root(), "0000:1B:00.0"), 1) << "as CUDA writes the address";
  EXPECT_EQ(node_far_from(host.root(), 1), 0);
  EXPECT_EQ(node_far_from(host.root(), 0), 1);
}

TEST(Numa, OneNodeOrAnUnknownOneHasNoFarNode) {
  const MadeUpHost host;
  add_node(host, 0, "0-47", 1000);
  EXPECT_EQ(node_far_from(host.root(), 0), std::nullopt);
  EXPECT_EQ(host_node_of(host.root(), pci), std::nullopt);
  add_gpu(host, -1);
  EXPECT_EQ(host_node_of(host.root(), pci), std::nullopt);
  add_gpu(host, 0);
  EXPECT_EQ(host_node_of(host.root(), pci), 0);
  EXPECT_EQ(host_node_of("/nonexistent", pci), std::nullopt);
}

TEST(Numa, ANodeOfCpusWithoutMemoryIsNotFarMemory) {
  const MadeUpHost host;
  add_node(host, 0, "0-47", 1000);
  add_node(host, 1, "48-95", 0);
  add_node(host, 2, "96-143", 1000);
  EXPECT_EQ(node_far_from(host.root(), 0), 2);
}

/// GH200: node 1 is the GPU's HBM, nodes 2 to 8 are for MIG.
TEST(Numa, TheMemoryOfAGpuIsNoMemoryOfTheHost) {
  const MadeUpHost host;
  add_node(host, 0, "0-71", 480, "10 80 80 80 80 80 80 80 80");
  add_node(host, 1, "", 96, "80 10 255 255 255 255 255 255 255");
  for (int mig = 2; mig <= 8; ++mig) add_node(host, mig, "", 0);
  add_gpu(host, 0);
  EXPECT_EQ(host_node_of(host.root(), pci), 0);
  EXPECT_EQ(node_far_from(host.root(), 0), std::nullopt) << "Linux has eight more nodes, none of them with CPUs";
  add_gpu(host, 1);
  EXPECT_EQ(host_node_of(host.root(), pci), 0) << "the GPU's node is its own memory";
}

/// A tray of GB200: two Graces, each with two GPUs, whose nodes begin at 2.
TEST(Numa, TheFarNodeOfATrayIsTheOtherGrace) {
  const MadeUpHost host;
  add_node(host, 0, "0-71", 480, "10 40 80 80 120 120");
  add_node(host, 1, "72-143", 480, "40 10 120 120 80 80");
  for (const int gpu : {2, 10}) add_node(host, gpu, "", 186, "80 120 10 255 255 255");
  for (const int gpu : {18, 26}) add_node(host, gpu, "", 186, "120 80 255 255 10 255");
  EXPECT_EQ(node_far_from(host.root(), 0), 1);
  EXPECT_EQ(node_far_from(host.root(), 1), 0) << "not node 2, which has memory and no CPUs";
  add_gpu(host, 18);
  EXPECT_EQ(host_node_of(host.root(), pci), 1) << "the nearer of the two";
  add_gpu(host, 10);
  EXPECT_EQ(host_node_of(host.root(), pci), 0);
}

}  // namespace
}  // namespace shakedown::numa_test
