// The activity of a simulated host with simulated GPUs, ports and an NCCL job.
#include "node/activity.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/archive.hpp"
#include "base/socket.hpp"
#include "tests/free_port.hpp"
#include "tests/node/fake_gpus.hpp"
#include "tests/node/made_up_host.hpp"

namespace shakedown::activity_test {
namespace {

using std::chrono::milliseconds;

const std::string busy_gpu =
    "gpus 2\n0 nvmlDeviceGetUtilizationRates 97 41\n0 nvmlDeviceGetClockInfo:1 1755\n0 nvmlDeviceGetMaxClockInfo:1 "
    "1980\n"
    "0 nvmlDeviceGetClockInfo:2 3201\n0 field:186 691000\n0 nvmlDeviceGetEnforcedPowerLimit 700000\n"
    "0 nvmlDeviceGetTemperature 57\n0 field:82 72\n0 nvmlDeviceGetMemoryInfo 150000000000 50000000000 100000000000\n"
    "0 nvmlDeviceGetCurrentClocksEventReasons 68\n0 nvmlDeviceGetTotalEccErrors:0:0 3|3|3\n"
    "0 nvmlDeviceGetTotalEccErrors:1:0 0\n"
    "0 xid 48|none|none\n0 nvmlDeviceGetComputeRunningProcesses 4711,61000000000\n* nvmlDeviceGetTemperature 30\n"
    "0 nvmlDeviceGetTemperature 57\n";

class Activities : public ::testing::Test {
 protected:
  Activities() {
    host_.write("proc/uptime", "1000.00 3000.00");
    host_.write("proc/loadavg", "4.25 4.00 3.90 3/900 77");
    host_.write("proc/meminfo", "MemTotal:       1000000 kB\nMemAvailable:    250000 kB");
    host_.write("sys/devices/system/cpu/online", "0-3");
    host_.write("etc/passwd", "root:x:0:0:root:/root:/bin/bash\nalice:x:" + std::to_string(getuid()) + ":1::/:/bin/sh");
  }

  ActivityReader reader(int ras_port = 1) const { return {host_.root(), "node7", Nvml(FakeGpus::library()), ras_port}; }

  /// Returns the second reading, after `change`.
  template <class Change>
  HostActivity second(const Change& change) const {
    auto readings = reader();
    readings.read();
    change();
    std::this_thread::sleep_for(milliseconds(50));
    return readings.read();
  }

  MadeUpHost host_;
};

TEST_F(Activities, OfAGpuHasItsLoadClocksPowerHeatMemoryAndErrors) {
  const FakeGpus gpus(busy_gpu);
  const auto host = reader().read();
  EXPECT_EQ(host.host, "node7");
  ASSERT_EQ(host.gpus.size(), 2u);
  const auto& gpu = host.gpus.front();
  EXPECT_EQ(gpu.uuid, "GPU-fake-0");
  EXPECT_EQ(gpu.busy_percent, 97);
  EXPECT_EQ(gpu.memory_busy_percent, 41);
  EXPECT_EQ(gpu.sm_mhz, 1755);
  EXPECT_EQ(gpu.sm_mhz_max, 1980);
  EXPECT_EQ(gpu.memory_mhz, 3201);
  EXPECT_EQ(gpu.power_w, 691);
  EXPECT_EQ(gpu.power_limit_w, 700);
  EXPECT_EQ(gpu.temperature_c, 57);
  EXPECT_EQ(gpu.memory_temperature_c, 72);
  EXPECT_EQ(gpu.memory_gb, 150);
  EXPECT_EQ(gpu.memory_used_gb, 100);
  EXPECT_EQ(gpu.clock_limits, (std::vector<std::string>{"sw_power_cap", "hw_thermal"}));
  EXPECT_EQ(gpu.errors, (ErrorCounts{{"ecc_corrected", 3}}));
  EXPECT_EQ(gpu.new_errors, (ErrorCounts{{"xid_48", 1}}));
  EXPECT_FALSE(gpu.nvlink.tx_gb_per_s) << "there is no earlier reading";
  EXPECT_FALSE(host.gpus[1].busy_percent) << "this GPU reports only its temperature";
  EXPECT_FALSE(host.gpus[1].problem);
}

TEST_F(Activities, OfAHostHasItsProcessorsAndMemory) {
  const FakeGpus gpus("gpus 0\n");
  const auto host = second([&] { host_.write("proc/uptime", "1010.00 3030.00"); });
  EXPECT_EQ(host.cpus, 4);
  EXPECT_DOUBLE_EQ(host.cpu_percent.value(), 25) << "of 40 s of 4 processors, 30 were idle";
  EXPECT_EQ(host.load_1min, 4.25);
  EXPECT_DOUBLE_EQ(host.memory_gb.value(), 1.024);
  EXPECT_DOUBLE_EQ(host.memory_used_gb.value(), 0.768);
  EXPECT_TRUE(host.gpu_problem);
}

TEST_F(Activities, HaveRatesOfNvlinkAndPcieBetweenTwoReadings) {
  const FakeGpus gpus(
      "0 field:138 1000|2001000\n0 field:139 0|1000000\n0 field:197 5000|100005000\n0 field:198 9000|1000\n");
  const auto host = second([] {});
  const auto& gpu = host.gpus.front();
  ASSERT_TRUE(gpu.nvlink.tx_gb_per_s && gpu.nvlink.rx_gb_per_s && gpu.pcie.tx_gb_per_s);
  EXPECT_LE(*gpu.nvlink.tx_gb_per_s, 2.048 / 0.05) << "2,000,000 KiB in at least 50 ms";
  EXPECT_GT(*gpu.nvlink.tx_gb_per_s, 2.048 / 60);
  EXPECT_DOUBLE_EQ(*gpu.nvlink.tx_gb_per_s, 2 * *gpu.nvlink.rx_gb_per_s);
  EXPECT_NEAR(*gpu.nvlink.tx_gb_per_s / *gpu.pcie.tx_gb_per_s, 20.48, 1e-9);
  EXPECT_FALSE(gpu.pcie.rx_gb_per_s) << "the counter was reset";
}

TEST_F(Activities, PreferTheCountersOfBytesThatBlackwellHas) {
  const FakeGpus gpus("0 field:202 1000|2000001000\n0 field:204 1000|1000001000\n");
  const auto gpu = second([] {}).gpus.front();
  ASSERT_TRUE(gpu.nvlink.tx_gb_per_s && gpu.nvlink.rx_gb_per_s);
  EXPECT_DOUBLE_EQ(*gpu.nvlink.tx_gb_per_s, 2 * *gpu.nvlink.rx_gb_per_s);
}

TEST_F(Activities, HaveRatesOfInfinibandPortsAndInterfacesWithHardware) {
  const FakeGpus gpus("gpus 0\n");
  host_.add_port("mlx5_0", "ACTIVE");
  host_.add_port("mlx5_1", "DOWN");
  const std::string counters = "sys/class/infiniband/mlx5_0/ports/1/counters/", eth = "sys/class/net/eth0/";
  const auto write = [&](const std::string& data, const std::string& bytes) {
    host_.write(counters + "port_xmit_data", data);
    host_.write(counters + "port_rcv_data", data);
    host_.write(eth + "statistics/tx_bytes", bytes);
    host_.write(eth + "statistics/rx_bytes", bytes);
  };
  write("1000", "1000");
  host_.write(eth + "device/vendor", "0x15b3");
  host_.write(eth + "operstate", "up");
  host_.write(eth + "speed", "25000");
  host_.write("sys/class/net/lo/statistics/tx_bytes", "5");
  const auto ports = second([&] { write("1001000", "1001000"); }).ports;
  ASSERT_EQ(ports.size(), 3u) << "the loopback has no hardware";
  EXPECT_EQ(ports[0].port, "mlx5_0/1");
  EXPECT_EQ(ports[0].rate_gbit, 400);
  EXPECT_EQ(ports[1].state, "DOWN");
  EXPECT_FALSE(ports[1].traffic.tx_gb_per_s);
  EXPECT_EQ(ports[2].port, "eth0");
  EXPECT_EQ(ports[2].state, "up");
  EXPECT_EQ(ports[2].rate_gbit, 25);
  ASSERT_TRUE(ports[0].traffic.tx_gb_per_s && ports[2].traffic.rx_gb_per_s);
  EXPECT_NEAR(*ports[0].traffic.tx_gb_per_s / *ports[2].traffic.rx_gb_per_s, 4, 2)
      << "words of 4 bytes, read a moment apart";
}

TEST_F(Activities, NameAProcessWithItsUserAndTheSettingsOfNccl) {
  const FakeGpus gpus(busy_gpu);
  using namespace std::string_literals;
  host_.write("proc/4711/environ", "HOME=/root\0NCCL_ALGO=Ring\0NCCL_TOKEN=hunter2\0OMP_NUM_THREADS=8\0"s);
  const auto gpu = reader().read().gpus.front();
  ASSERT_EQ(gpu.processes.size(), 1u);
  EXPECT_EQ(gpu.processes[0].pid, 4711);
  EXPECT_EQ(gpu.processes[0].memory_gb, 61);
  EXPECT_EQ(gpu.processes[0].user, getuid() == 0 ? "root" : "alice");
  EXPECT_EQ(gpu.processes[0].settings,
            (std::map<std::string, std::string>{{"NCCL_ALGO", "Ring"}, {"OMP_NUM_THREADS", "8"}}));
}

TEST_F(Activities, ReportALostGpuAndTheOthers) {
  const FakeGpus gpus(
      "gpus 2\n0 nvmlDeviceGetMemoryInfo lost\n0 nvmlDeviceGetClockInfo:1 lost\n0 nvmlDeviceGetTemperature lost\n"
      "1 nvmlDeviceGetTemperature 30\n");
  const auto host = reader().read();
  EXPECT_TRUE(host.gpus[0].problem);
  EXPECT_FALSE(host.gpus[1].problem);
}

TEST_F(Activities, WithoutNvmlStillHaveTheHost) {
  ActivityReader readings(host_.root(), "node7", Nvml("/nosuch/libnvidia-ml.so.1"));
  const auto host = readings.read();
  EXPECT_NE(host.gpu_problem.value_or("").find("/nosuch/libnvidia-ml.so.1"), std::string::npos);
  EXPECT_EQ(host.load_1min, 4.25);
}

TEST_F(Activities, AreTheSameAfterTheirJourneyAsJson) {
  const FakeGpus gpus(busy_gpu);
  const Activity before{{reader().read()}};
  const auto text = json_text(before, -1);
  const auto document = document_of_text(text);
  const std::filesystem::path place("test");
  EXPECT_EQ(json_text(read_as<Activity>(Field(place, "", document)), -1), text);
}

// The answer of a job of NCCL 2.27 as its user guide shows it, with an error.
constexpr const char* status =
    "NCCL version 2.27.5 compiled with CUDA 12.9\nCUDA runtime version 12090, driver version 12090\n\nJob summary\n"
    "===========\n\n  Nodes  Processes         GPUs  Processes     GPUs\n(total)   per node  per process    (total)  "
    "(total)\n      1          8            1          8        8\n\nCommunicators... (0.00s)\n=============\n\n"
    "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n    #  in group  per comm  per node  "
    "per "
    "comm  in group\n    0         1         1         8         8         8   RUNNING  "
    "INCOMPLETE\n\nErrors\n======\n\n"
    "INCOMPLETE\n  Missing communicator data from 1 job process\n\nWarnings\n========\n\n";

TEST(RasState, HasTheGroupsErrorsAndWarningsOfTheText) {
  const auto state = ras_state_in(status);
  EXPECT_EQ(state.version, "NCCL version 2.27.5 compiled with CUDA 12.9");
  EXPECT_EQ(state.groups, (std::vector<std::string>{"0 1 1 8 8 8 RUNNING INCOMPLETE"}));
  EXPECT_EQ(state.errors, (std::vector<std::string>{"INCOMPLETE", "Missing communicator data from 1 job process"}));
  EXPECT_TRUE(state.warnings.empty());
}

/// A service that answers as NCCL does, or that says nothing.
class Service {
 public:
  explicit Service(bool answers, const std::string& address = "127.0.0.1")
      : listener_(listen_at(address, port_)), thread_([this, answers] { serve(answers); }) {}
  ~Service() { thread_.join(); }
  int port() const { return port_; }

 private:
  void serve(bool answers) const {
    if (!readable(listener_, milliseconds(5000))) return;
    const auto client = accept_from(listener_);
    std::string heard;
    const auto hear = [&] {
      char text[256];
      if (!readable(client, milliseconds(5000))) return false;
      const auto count = recv(client.get(), text, sizeof text, 0);
      if (count > 0) heard.assign(text, static_cast<std::size_t>(count));
      return count > 0;
    };
    const auto say = [&](const std::string& text) { static_cast<void>(write_all(client.get(), text)); };
    while (hear()) {
      if (!answers) continue;
      if (heard == "STATUS\n") return say(status);  // closes the connection
      say(heard.starts_with("CLIENT PROTOCOL") ? "SERVER PROTOCOL 2\n" : "OK\n");
    }
  }

  int port_ = free_port();
  Socket listener_;
  std::thread thread_;
};

TEST(RasState, IsThatOfTheJobThatListens) {
  const Service service(true);
  const auto state = ras_state(milliseconds(5000), {.port = service.port()});
  ASSERT_TRUE(state);
  EXPECT_EQ(state->groups.size(), 1u);
}

TEST(RasState, IsThatOfAJobThatListensAtIPv6Only) {
  for (const bool by_name : {false, true}) {
    const Service service(true, "::1");
    const auto port = std::to_string(service.port());
    const auto state = ras_state(milliseconds(5000), ras_address_in((by_name ? "localhost:" : "[::1]:") + port));
    ASSERT_TRUE(state) << by_name;
    EXPECT_FALSE(state->problem);
    EXPECT_EQ(state->groups.size(), 1u);
  }
}

TEST(RasState, IsAskedWhereNcclRasAddrSays) {
  EXPECT_EQ(ras_address_in("[fd00::7]:99").hosts, std::vector<std::string>{"fd00::7"});
  EXPECT_EQ(ras_address_in("[fd00::7]:99").port, 99);
  EXPECT_EQ(ras_address_in("10.0.0.1:7").hosts, std::vector<std::string>{"10.0.0.1"});
  EXPECT_EQ(ras_address_in("LOCALHOST:7").hosts, (std::vector<std::string>{"127.0.0.1", "::1"}));
  for (const char* wrong : {"", ":", "localhost", "localhost:x", "localhost:70000"}) {
    EXPECT_EQ(ras_address_in(wrong).port, usual_ras_port) << wrong;
    EXPECT_EQ(ras_address_in(wrong).hosts.size(), 2u) << wrong;
  }
}

TEST(RasState, IsUnknownIfNothingListensAndSaysSoIfTheServiceIsSilent) {
  EXPECT_FALSE(ras_state(milliseconds(1000), {.port = free_port()}));
  const Service service(false);
  const auto began = std::chrono::steady_clock::now();
  const auto state = ras_state(milliseconds(300), {.port = service.port()});
  ASSERT_TRUE(state);
  EXPECT_EQ(state->problem, ras_is_silent);
  EXPECT_LT(std::chrono::steady_clock::now() - began, milliseconds(4000));
}

}  // namespace
}  // namespace shakedown::activity_test
