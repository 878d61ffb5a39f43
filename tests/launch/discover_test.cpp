// Tests the answers of hosts in the discovery, and the list of absent hosts.
#include "launch/discover.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/host_name.hpp"

namespace shakedown::discover_test {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

HostAnswer host(const std::string& name, const std::string& boot = "b") {
  return {name, std::nullopt, boot, {}, std::nullopt, 0};
}

TEST(Discovery, AnAnswerIsOneLineThatIsReadBack) {
  const HostAnswer answer{"pod7", "node7", "boot", {"GPU-1", "GPU-2"}, "CUDA_VISIBLE_DEVICES=1", 1};
  const auto line = answer_line(answer);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(answer_in(line), answer);
  EXPECT_EQ(answer_in("[1,0]<stdout>: " + line), answer) << "a launcher may put the rank before it";
  for (const auto* other : {"", "Warning: permanently added", "{\"host\": ", "[]"}) EXPECT_FALSE(answer_in(other));
}

TEST(Discovery, AHostIsCountedOnceAndTwoOfOneNameAreTwo) {
  const auto hosts = distinct_hosts({host("a"), host("b"), host("a"), host("a", "other boot")});
  EXPECT_EQ(hosts.size(), 3U);
}

TEST(Discovery, WhoDoesNotAnswerIsNamed) {
  EXPECT_EQ(absent_hosts({"a.local", "b.local", "c.local"}, {host("a"), host("C.local")}), (Names{"b.local"}));
  EXPECT_EQ(absent_hosts({"10.0.0.1", "10.0.0.2"}, {host("a"), host("b")}), Names{}) << "they have other names";
}

TEST(Discovery, AHostHasTheNameThatResultsGiveIt) {
  std::map<std::string, std::string> variables{{"SHAKEDOWN_SYSFS", "/nonexistent"}, {"SHAKEDOWN_NODE", "gpu-7"}};
  const auto environment = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  EXPECT_EQ(answer_of_this_host(environment).name(), "gpu-7");
  variables["SHAKEDOWN_HOST"] = "h1";
  EXPECT_EQ(answer_of_this_host(environment).name(), "h1");
  EXPECT_EQ(host_name(environment), "h1") << "as the record of a gate has it";
  variables["SHAKEDOWN_HOST"] = variables["SHAKEDOWN_NODE"] = "";
  EXPECT_EQ(answer_of_this_host(environment).name(), system_host_name());
}

TEST(Discovery, GpusAreThoseOfTheBusOrElseOfTheDriversDeviceNodes) {
  const fs::path root = fs::temp_directory_path() / ("shakedown_roll_" + std::to_string(getpid()));
  fs::create_directories(root / "sys/bus/pci/devices");
  fs::create_directories(root / "dev");
  for (const auto* name : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"}) std::ofstream(root / "dev" / name) << "";
  std::map<std::string, std::string> variables{{"SHAKEDOWN_ROOT", root}, {"SHAKEDOWN_NVML", "/nonexistent"}};
  const auto environment = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  EXPECT_EQ(answer_of_this_host(environment).gpus, (Names{"/dev/nvidia0", "/dev/nvidia1"}));
  const auto device = root / "sys/bus/pci/devices/0000:1b:00.0";
  fs::create_directories(device);
  std::ofstream(device / "vendor") << "0x10de\n";
  std::ofstream(device / "class") << "0x030200\n";
  const auto on_bus = answer_of_this_host(environment);
  EXPECT_EQ(on_bus.gpus, Names{"0000:1b:00.0"});
  EXPECT_EQ(on_bus.usable_gpus, 1);
  variables["CUDA_VISIBLE_DEVICES"] = "";
  EXPECT_EQ(answer_of_this_host(environment).usable_gpus, 0);
  EXPECT_EQ(answer_of_this_host(environment).mask, "CUDA_VISIBLE_DEVICES=");
  variables["CUDA_VISIBLE_DEVICES"] = "0,1";
  EXPECT_EQ(answer_of_this_host(environment).usable_gpus, 1) << "there is one";
  EXPECT_TRUE(answer_of_this_host(environment).mask_ignored.value_or("").starts_with("\"1\""));
  variables.erase("CUDA_VISIBLE_DEVICES");
  variables["SLURM_JOB_GPUS"] = "6,7";
  EXPECT_EQ(answer_of_this_host(environment).usable_gpus, 1) << "Slurm's numbers are those of the whole node";
  fs::remove_all(root);
}

}  // namespace
}  // namespace shakedown::discover_test
