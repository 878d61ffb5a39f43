// Tests the memory that a process can take, from made-up files of the kernel.
#include "base/host_memory.hpp"

#include <gtest/gtest.h>

#include "tests/node/made_up_host.hpp"

namespace shakedown::host_memory_test {
namespace {

class HostMemory : public testing::Test {
 protected:
  HostMemory() { host_.write("proc/meminfo", "MemTotal: 2000 kB\nMemFree: 1 kB\nMemAvailable:    1000 kB\n"); }
  void limit(const std::string& group, const std::string& most, int used, int cached) {
    host_.write("sys/fs/cgroup" + group + "/memory.max", most + "\n");
    host_.write("sys/fs/cgroup" + group + "/memory.current", std::to_string(used) + "\n");
    host_.write("sys/fs/cgroup" + group + "/memory.stat", "anon 5\ninactive_file " + std::to_string(cached) + "\n");
  }

  const MadeUpHost host_;
};

TEST_F(HostMemory, IsWhatTheKernelCallsAvailable) {
  EXPECT_EQ(available_memory(host_.root()), 1000 * 1024);
  EXPECT_EQ(available_memory(host_.root() / "nowhere"), std::nullopt);
}

TEST_F(HostMemory, IsLimitedByEachControlGroupAboveTheProcess) {
  host_.write("proc/self/cgroup", "0::/jobs/one\n");
  limit("/jobs/one", "max", 100, 0);
  EXPECT_EQ(available_memory(host_.root()), 1000 * 1024);
  limit("/jobs", "5000", 4000, 500);
  EXPECT_EQ(available_memory(host_.root()), 1500);
  limit("/jobs/one", "300", 400, 0);
  EXPECT_EQ(available_memory(host_.root()), 0);
}

TEST_F(HostMemory, IsLimitedByControlGroupsOfVersion1) {
  host_.write("proc/self/cgroup", "12:cpu,cpuacct:/jobs\n5:memory:/jobs/one\n1:name=systemd:/jobs\n0::/system\n");
  const auto limit = [this](const std::string& group, const std::string& most, int used) {
    const auto folder = "sys/fs/cgroup/memory" + group;
    host_.write(folder + "/memory.limit_in_bytes", most + "\n");
    host_.write(folder + "/memory.usage_in_bytes", std::to_string(used) + "\n");
    host_.write(folder + "/memory.stat", "inactive_file 7\ntotal_inactive_file 200\n");
  };
  limit("", "9223372036854771712", 100000);
  EXPECT_EQ(available_memory(host_.root()), 1000 * 1024);
  limit("/jobs/one", "5000", 4000);
  EXPECT_EQ(available_memory(host_.root()), 1200);
  limit("/jobs", "4500", 4000);
  EXPECT_EQ(available_memory(host_.root()), 700);
}

TEST_F(HostMemory, IsWithoutThatOfTheGpusOfGrace) {
  host_.write("sys/devices/system/node/node0/cpulist", "0-71\n");
  host_.write("sys/devices/system/node/node1/cpulist", "\n");
  host_.write("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:  900 kB\nNode 1 MemFree:  300 kB\n");
  EXPECT_EQ(available_memory(host_.root()), 1000 * 1024) << "memory on CXL is the host's";
  host_.write("sys/devices/soc0/soc_id", "jep106:036b:0241\n");
  EXPECT_EQ(available_memory(host_.root()), 700 * 1024);
  EXPECT_EQ(total_host_memory(host_.root()), 1100 * 1024);
}

}  // namespace
}  // namespace shakedown::host_memory_test
