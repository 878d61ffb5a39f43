// The text of the live view.
#include "report/live_view.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace shakedown::live_view_test {
namespace {

/// A busy GPU of a B200 host, with the widest values that its columns must hold.
GpuActivity wide_gpu(int number) {
  GpuActivity gpu;
  gpu.gpu = number;
  gpu.busy_percent = gpu.memory_busy_percent = 100;
  gpu.sm_mhz = 1965;
  gpu.power_w = gpu.power_limit_w = 1000;
  gpu.temperature_c = 87;
  gpu.memory_temperature_c = 95;
  gpu.memory_gb = 192.2;
  gpu.memory_used_gb = 180.1;
  gpu.nvlink = {.tx_gb_per_s = 850.4, .rx_gb_per_s = 849.6};
  gpu.pcie = {.tx_gb_per_s = 55.3, .rx_gb_per_s = 54.9};
  return gpu;
}

HostActivity busy_host() {
  HostActivity host;
  host.host = "node07";
  host.cpus = 192;
  host.cpu_percent = 12.4;
  host.load_1min = 24;
  host.memory_gb = 2160;
  host.memory_used_gb = 512;
  for (int i = 0; i < 8; ++i) host.gpus.push_back(wide_gpu(i));
  return host;
}

std::vector<std::string> lines_of(const Activity& activity, std::size_t width = 80, bool color = false) {
  std::istringstream in(live_text(activity, {color, width}));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool has(const std::vector<std::string>& lines, const std::string& text) {
  return std::any_of(lines.begin(), lines.end(), [&](const auto& line) { return line.find(text) != line.npos; });
}

TEST(LiveView, HasALineForTheHostAndForEachGpuInColumns) {
  const auto lines = lines_of({{busy_host()}});
  ASSERT_EQ(lines.size(), 10u);
  EXPECT_EQ(lines[0], "node07: CPU 12 % of 192, load 24.0, memory 512/2160 GB");
  EXPECT_EQ(lines[1], "GPU busy% mem%   MHz         W      C    memory GB  NVLink GB/s   PCIe GB/s");
  EXPECT_EQ(lines[2], "  0   100  100  1965 1000/1000  87/95  180.1/192.2  850.4/849.6   55.3/54.9");
}

TEST(LiveView, FitsIntoEightyColumnsWhateverTheHostDoes) {
  auto host = busy_host();
  host.gpus[0].clock_limits =
      std::vector<std::string>{"sw_power_cap", "hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake"};
  host.gpus[0].new_errors = {{"ecc_uncorrected", 12}, {"nvlink_3_crc", 7}, {"xid_79", 2}, {"pcie_replays", 100000}};
  host.gpus[1].processes = {{4711, std::string(60, 'p'), "alice", 61.2, {{"NCCL_DEBUG_FILE", std::string(200, 'f')}}}};
  for (int i = 0; i < 9; ++i) {
    host.ports.push_back({"mlx5_" + std::to_string(i) + "/1", {}, "ACTIVE", 400, {49.9, 49.8}, {{"symbol_errors", 3}}});
  }
  host.ras = RasState{"NCCL version 2.27.5 compiled with CUDA 12.9", {"0 1 1 8 8 8 RUNNING OK"}, {"E"}, {"W"}};
  for (const auto& line : lines_of({{host}})) EXPECT_LE(line.size(), 80u) << line;
}

TEST(LiveView, ShowsLimitsOfTheClockAndErrorsUnderTheGpu) {
  auto host = busy_host();
  host.gpus = {wide_gpu(0)};
  host.gpus[0].clock_limits = std::vector<std::string>{"hw_thermal"};
  host.gpus[0].new_errors = {{"xid_79", 1}};
  host.gpus[0].errors = {{"ecc_corrected", 4}};
  const auto lines = lines_of({{host}});
  EXPECT_TRUE(has(lines, "clock limited: hw_thermal"));
  EXPECT_TRUE(has(lines, "new errors: XID 79"));
  EXPECT_FALSE(has(lines, "ECC corrected")) << "corrected errors are no fault";
  EXPECT_TRUE(has(lines_of({{host}}, 80, true), "\033[31m    new errors: XID 79\033[0m"));
}

TEST(LiveView, ShowsProcessesOnceWithTheirSettings) {
  auto host = busy_host();
  const std::map<std::string, std::string> settings{{"NCCL_ALGO", "Ring"}};
  host.gpus[0].processes = {{4711, "python", "alice", 61.2, settings}};
  host.gpus[1].processes = {{4712, {}, {}, {}, settings}};
  const auto lines = lines_of({{host}});
  EXPECT_TRUE(has(lines, "alice, 61.2 GB"));
  EXPECT_TRUE(has(lines, "GPU 1: process 4712 (hidden)"));
  EXPECT_TRUE(has(lines, "settings of 4711, 4712: NCCL_ALGO=Ring"));
}

TEST(LiveView, ShowsAnAbsentHostAsOneLineAndTheOthersInFull) {
  HostActivity absent;
  absent.host = "node08";
  absent.problem = "no answer (ssh: Connection refused)";
  const auto lines = lines_of({{absent, busy_host()}});
  EXPECT_EQ(lines[0], "node08: no answer (ssh: Connection refused)");
  EXPECT_EQ(lines.size(), 11u);
}

TEST(LiveView, ShowsWhatIsUnknownAsADash) {
  HostActivity host;
  host.host = "node09";
  host.gpus = {GpuActivity{}};
  host.ports = {{"mlx5_0/1", {}, "DOWN", {}, {0.0, 0.0}, {}}};
  const auto lines = lines_of({{host}});
  EXPECT_EQ(lines[2], "  0     -    -     -         -      -            -            -           -");
  EXPECT_EQ(lines[3], "ports, GB/s out/in: mlx5_0/1 DOWN");
}

TEST(LiveView, PrintsNoControlCharactersOfAProcess) {
  auto host = busy_host();
  host.gpus[0].processes = {{1, "a\033[2Jb", "x\ny", {}, {}}};
  for (const auto& line : lines_of({{host}})) EXPECT_EQ(line.find('\033'), line.npos);
}

}  // namespace
}  // namespace shakedown::live_view_test
