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

}  // namespace
}  // namespace shakedown::host_memory_test
