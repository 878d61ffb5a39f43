// The inventory of simulated machines.
#include "node/inventory.hpp"

#include <gtest/gtest.h>

#include <unistd.h>
#include <cstdlib>
#include <filesystem>

#include <fstream>

#include "tests/node/made_up_host.hpp"

namespace shakedown::inventory_test {
namespace {

/// A folder with the layout of /sys for a machine with the given PCI functions.
class FakeSysfs {
 public:
  FakeSysfs() { std::filesystem::create_directories(root_ / "bus/pci/devices"); }
  ~FakeSysfs() { std::filesystem::remove_all(root_); }
  void add(const std::string& address, const std::string& vendor, const std::string& kind) const {
    const auto folder = root_ / "bus/pci/devices" / address;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "vendor") << vendor << "\n";
    std::ofstream(folder / "class") << kind << "\n";
  }
  const std::filesystem::path& root() const { return root_; }

 private:
  std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("shakedown_sysfs_" + std::to_string(getpid()));
};

Environment variables(std::map<std::string, std::string> values) {
  return [values](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(PciBus, HasGpusSwitchesAndBridges) {
  const FakeSysfs machine;
  machine.add("0000:1b:00.0", "0x10de", "0x030200");
  machine.add("0000:01:00.0", "0x10de", "0x030000");
  machine.add("0000:05:00.0", "0x10de", "0x068000");  // NVSwitch
  machine.add("0000:01:00.1", "0x10de", "0x040300");  // the audio function of a graphics card
  machine.add("0000:00:02.0", "0x8086", "0x030000");
  machine.add("0000:15:01.0", "0x8086", "0x060400");
  const auto bus = read_pci_bus(machine.root()).value();
  EXPECT_EQ(bus.gpus, (std::vector<std::string>{"0000:01:00.0", "0000:1b:00.0"}));
  EXPECT_EQ(bus.nvswitches, std::vector<std::string>{"0000:05:00.0"});
  EXPECT_EQ(bus.bridges, std::vector<std::string>{"0000:15:01.0"});
}

TEST(PciBus, IsEmptyOnAMachineWithoutOne) {
  const FakeSysfs machine;
  std::filesystem::remove_all(machine.root() / "bus/pci");
  EXPECT_TRUE(read_pci_bus(machine.root()).value().gpus.empty());
}

TEST(PciBus, IsUnknownWhereNothingCanBeRead) { EXPECT_FALSE(read_pci_bus("/nonexistent")); }

TEST(NvidiaDriver, ShowsByItsModuleOrItsDeviceNodes) {
  for (const std::string trace : {"sys/module/nvidia", "proc/driver/nvidia", "dev/nvidiactl", "dev/nvidia3"}) {
    const MadeUpHost host;
    host.write("dev/nvme0", "no GPU");
    host.write("dev/nvidia-caps/nvidia-cap1", "no GPU");
    host.write("sys/module/nvme/version", "no driver of GPUs");
    EXPECT_EQ(nvidia_driver(host.root()), std::nullopt);
    host.write(trace, "");
    EXPECT_EQ(nvidia_driver(host.root()), "/" + trace);
  }
}

TEST(ScheduledGpus, AreThoseOfTheNode) {
  EXPECT_EQ(scheduled_gpus(variables({{"SLURM_GPUS_ON_NODE", "4"}})), 4);
  EXPECT_EQ(scheduled_gpus(variables({{"SLURM_JOB_GPUS", "0,1,2"}})), 3);
  EXPECT_EQ(scheduled_gpus(variables({})), std::nullopt);
}

TEST(GpuMask, IsTheUsersBeforeTheSchedulers) {
  const auto mask = gpu_mask(variables({{"CUDA_VISIBLE_DEVICES", "0,3"}, {"SLURM_JOB_GPUS", "0,1,2,3"}}));
  ASSERT_TRUE(mask);
  EXPECT_EQ(mask->text, "CUDA_VISIBLE_DEVICES=0,3");
  EXPECT_EQ(mask->devices, (std::vector<std::string>{"0", "3"}));
}

TEST(GpuMask, ThatIsEmptyHidesAllGpus) {
  EXPECT_TRUE(gpu_mask(variables({{"CUDA_VISIBLE_DEVICES", ""}}))->devices.empty());
  EXPECT_TRUE(gpu_mask(variables({{"CUDA_VISIBLE_DEVICES", "NoDevFiles"}}))->devices.empty());
}

TEST(GpuMask, EndsAtAnInvalidEntryAsInCuda) {
  EXPECT_EQ(gpu_mask(variables({{"CUDA_VISIBLE_DEVICES", "1,-1,2"}}))->devices, std::vector<std::string>{"1"});
}

TEST(GpuMask, IsNothingWhereNobodySetOne) { EXPECT_FALSE(gpu_mask(variables({}))); }

TEST(Tuning, TakesWhatChangesResultsAndNothingElse) {
  setenv("NCCL_ALGO", "Ring", 1);
  setenv("UCX_RC_TIMEOUT", "1s", 1);
  const std::vector<std::string> others{"SECRET_TOKEN",  "NCCL_AUTH_TOKEN",   "NCCL_IB_PASSWORD", "NCCL_OF_NOBODY",
                                        "UCX_OF_NOBODY", "NCCL_TOPO_FILE_PW", "OMPI_MCA_btl_auth"};
  for (const auto& name : others) setenv(name.c_str(), "x", 1);
  setenv("NCCL_SOCKET_IFNAME", "me:hidden@eth0", 1);
  const auto found = tuning(variables({}));
  EXPECT_EQ(found.at("NCCL_ALGO"), "Ring");
  EXPECT_EQ(found.at("UCX_RC_TIMEOUT"), "1s");
  EXPECT_EQ(found.at("NCCL_SOCKET_IFNAME"), "***");
  unsetenv("NCCL_SOCKET_IFNAME");
  for (const auto& name : others) {
    EXPECT_EQ(found.count(name), 0u) << name;
    unsetenv(name.c_str());
  }
  unsetenv("NCCL_ALGO");
  unsetenv("UCX_RC_TIMEOUT");
}

TEST(Tuning, ReadsTheLinesOfNcclsConfigurationFile) {
  const auto file = std::filesystem::temp_directory_path() / ("shakedown_nccl_" + std::to_string(getpid()) + ".conf");
  std::ofstream(file)
      << "# a comment\nNCCL_P2P_DISABLE=1\nNCCL_TOPO_FILE_PW=x\nDB_PASSWORD=x\nNCCL_AUTH_TOKEN=x\nOMP_NUM_THREADS=1\n";
  const auto found = tuning(variables({{"NCCL_CONF_FILE", file}}));
  EXPECT_EQ(found.at(file.string() + ": NCCL_P2P_DISABLE"), "1");
  for (const auto& [name, value] : found) {
    EXPECT_TRUE(name.rfind(file.string(), 0) != 0 || name == file.string() + ": NCCL_P2P_DISABLE") << name;
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace shakedown::inventory_test
