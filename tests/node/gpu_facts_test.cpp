// The state of simulated GPUs as facts: every kind of fault is detected and explained.
#include "node/gpu_facts.hpp"

#include <gtest/gtest.h>

#include "base/known_events.hpp"
#include "node/host_inventory.hpp"
#include "tests/node/fake_gpus.hpp"
#include "tests/node/made_up_host.hpp"

namespace shakedown::gpu_facts_test {
namespace {

Environment no_variables() {
  return [](const std::string&) { return std::nullopt; };
}

/// Returns eight links at 26.6 GB/s in one direction.
std::string links(const std::string& gpu, int down = -1) {
  std::string text = gpu + " field:91 8\n";
  for (int link = 0; link < 8; ++link) {
    const auto number = std::to_string(link);
    text += gpu + " nvmlDeviceGetNvLinkState:" + number + (link == down ? " 0\n" : " 1\n");
    text += gpu + " field:164:" + number + " 26562\n";
    for (const auto* counter : {"161", "162", "163"}) text += gpu + " field:" + counter + ":" + number + " 0\n";
  }
  return text;
}

Facts facts_of_first(const std::string& answers) {
  const FakeGpus gpus(answers);
  const Nvml nvml(FakeGpus::library());
  auto facts = gpu_facts(nvml.gpus().front(), std::vector<Xid>{}, "/nonexistent");
  facts.merge(nvlink_facts(nvml.gpus().front()));
  facts["processes"] = process_fact(nvml.gpus().front());
  return facts;
}

TEST(GpuFacts, OfAnUnreadableGpuAreUnknownWithTheReason) {
  auto facts = facts_of_first("gpus 1\n");
  EXPECT_FALSE(facts["pcie_width"].number);
  EXPECT_EQ(facts["pcie_width"].text, "not supported");
  EXPECT_EQ(facts["nvlinks"].number, 0);
  EXPECT_FALSE(facts["serial"].text) << "a reason must not be taken for a serial number";
  EXPECT_EQ(facts["gpu"].text, "NVIDIA H200");
}

TEST(GpuFacts, OfALostGpuSaySo) {
  auto facts = facts_of_first("gpus 1\n0 nvmlDeviceGetEccMode lost\n");
  EXPECT_FALSE(facts["ecc"].number);
  EXPECT_NE(facts["ecc"].text.value_or("").find("fallen off"), std::string::npos) << facts["ecc"].text.value_or("");
}

TEST(GpuFacts, TellAPendingRemapOfRows) {
  auto facts = facts_of_first("gpus 1\n0 nvmlDeviceGetRemappedRows 1 2 1 0\n");
  EXPECT_EQ(facts["rows_remapped"].number, 3);
  EXPECT_EQ(facts["remap_pending"].number, 1);
  EXPECT_EQ(facts["remap_failed"].number, 0);
}

TEST(GpuFacts, TellANarrowPcieLink) {
  auto facts = facts_of_first("gpus 1\n0 nvmlDeviceGetCurrPcieLinkWidth 8\n0 nvmlDeviceGetMaxPcieLinkWidth 16\n");
  EXPECT_EQ(facts["pcie_width"].number, 8);
  EXPECT_EQ(facts["pcie_width_max"].number, 16);
}

TEST(GpuFacts, TellWhyAGpuIsThrottled) {
  auto facts = facts_of_first("gpus 1\n0 nvmlDeviceGetCurrentClocksEventReasons 72\n");  // 8 + 64
  EXPECT_EQ(facts["throttled"].number, 2);
  EXPECT_EQ(facts["throttled"].text, "slowdown (hardware), heat (hardware)");
  facts = facts_of_first("gpus 1\n0 nvmlDeviceGetCurrentClocksEventReasons 1\n");
  EXPECT_EQ(facts["throttled"].number, 0) << "an idle GPU is not throttled";
}

TEST(GpuFacts, TellThatAGpuIsDivided) {
  EXPECT_EQ(facts_of_first("gpus 1\n0 nvmlDeviceGetMigMode 1 1\n")["mig"].number, 1);
}

TEST(GpuFacts, NameALinkThatIsDown) {
  auto facts = facts_of_first("gpus 1\n" + links("0", 3));
  EXPECT_EQ(facts["nvlinks"].number, 8);
  EXPECT_EQ(facts["nvlinks_up"].number, 7);
  EXPECT_EQ(facts["nvlinks_up"].text, "link 3 is down");
  facts = facts_of_first("gpus 1\n" + links("0"));
  EXPECT_EQ(facts["nvlinks_up"].number, 8);
  EXPECT_DOUBLE_EQ(*facts["nvlink_gb_per_s"].number, 8 * 26.562);
  EXPECT_EQ(facts["nvlink_errors"].number, 0);
}

TEST(GpuFacts, NameALinkWithErrors) {
  auto facts = facts_of_first("gpus 1\n" + links("0") + "0 field:161:5 12\n");
  EXPECT_EQ(facts["nvlink_errors"].number, 12);
  EXPECT_EQ(facts["nvlink_errors"].text, "link 5: 12");
}

TEST(GpuFacts, TellTroubleOfTheFabric) {
  EXPECT_EQ(facts_of_first("gpus 1\n0 nvmlDeviceGetGpuFabricInfoV 3 0 0 0\n")["fabric_trouble"].number, 0);
  auto waiting = facts_of_first("gpus 1\n0 nvmlDeviceGetGpuFabricInfoV 2 0 0 0\n");
  EXPECT_EQ(waiting["fabric_trouble"].number, 1);
  EXPECT_EQ(waiting["fabric_trouble"].text, "registration in progress");
  auto degraded = facts_of_first("gpus 1\n0 nvmlDeviceGetGpuFabricInfoV 3 0 0 1\n");
  EXPECT_EQ(degraded["fabric_trouble"].text, "degraded bandwidth");
}

TEST(GpuFacts, NameProcessesThatUseTheGpu) {
  const auto facts = facts_of_first("gpus 1\n0 nvmlDeviceGetComputeRunningProcesses 4194999,2000000000\n");
  EXPECT_EQ(facts.at("processes").number, 1);
  EXPECT_EQ(facts.at("processes").text, "pid 4194999 with 2.0 GB");
}

TEST(GpuFacts, DoNotCountAWaitingJobAsAUserOfTheGpu) {
  const FakeGpus gpus("gpus 1\n0 nvmlDeviceGetComputeRunningProcesses 4194999,2000000000\n");
  const Nvml nvml(FakeGpus::library());
  const auto fact = process_fact(nvml.gpus().front(), {4194999});
  EXPECT_EQ(fact.number, 0);
  EXPECT_NE(fact.text.value_or("").find("pid 4194999"), std::string::npos) << "it is still named";
  EXPECT_EQ(process_fact(nvml.gpus().front(), {4711}).number, 1);
}

TEST(GpuFacts, HaveTheActionThatTheDriverAsksFor) {
  EXPECT_EQ(facts_of_first("gpus 1\n0 field:230 0\n").at("recovery_action").number, 0);
  const auto reset = facts_of_first("gpus 1\n0 field:230 1\n").at("recovery_action");
  EXPECT_EQ(reset.number, 1);
  EXPECT_EQ(reset.text, "reset the GPU");
  EXPECT_FALSE(facts_of_first("gpus 1\n").at("recovery_action").number) << "older drivers have no such field";
}

TEST(GpuFacts, GiveXidsToTheirGpu) {
  const FakeGpus gpus("gpus 2\n");
  const Nvml nvml(FakeGpus::library());
  const std::vector<Xid> xids{
      {"0000:11:00.0", 79}, {"0000:11:00.0", 13}, {"0000:11:00.0", 13}, {"0000:11:00.0", 63}, {"0000:11:00.0", 32}};
  EXPECT_EQ(gpu_facts(nvml.gpus()[0], xids, "/").at("xids").number, 0);
  const auto second = gpu_facts(nvml.gpus()[1], xids, "/");
  EXPECT_EQ(second.at("xids").text, "XID 32");
  EXPECT_EQ(second.at("xids_condemning").number, 1);
  EXPECT_EQ(second.at("xids_condemning").text, "XID 79; XID 79: " + advice_on("xid_79"));
  EXPECT_EQ(second.at("xids_of_programs").number, 3);
  EXPECT_EQ(second.at("xids_of_programs").text, "2 x XID 13, XID 63") << "NVIDIA says to ignore the latter";
  EXPECT_FALSE(gpu_facts(nvml.gpus()[1], std::nullopt, "/").at("xids").number);
  const std::vector<Xid> asked{{"0000:11:00.0", 154, "", "Node Reboot Required"}};
  const auto of_154 = gpu_facts(nvml.gpus()[1], asked, "/").at("xids_condemning");
  EXPECT_EQ(of_154.number, 1);
  EXPECT_EQ(of_154.text, "XID 154; XID 154: " + advice_on("xid_154") + " (Node Reboot Required)");
  const std::vector<Xid> of_syslog{{"0000:11:00.0", 79, "/var/log/syslog"}};
  EXPECT_TRUE(
      gpu_facts(nvml.gpus()[1], of_syslog, "/").at("xids").text.value_or("").starts_with("XID 79 in /var/log/syslog,"));
  EXPECT_EQ(gpu_facts(nvml.gpus()[1], of_syslog, "/").at("xids_condemning").number, 0) << "a user may have written it";
  EXPECT_EQ(gpu_facts(nvml.gpus()[0], of_syslog, "/").at("xids").text, std::nullopt) << "it has none";
}

TEST(HostInventory, NamesTheGpuThatIsOnTheBusButNotInNvml) {
  const MadeUpHost host;
  for (int gpu = 0; gpu < 8; ++gpu) host.add_gpu(gpu);
  const FakeGpus gpus("gpus 7\n");
  auto inventory = read_host(host.root(), Nvml(FakeGpus::library()), no_variables(), "/");
  EXPECT_EQ(inventory.host["gpus_pci"].number, 8);
  EXPECT_EQ(inventory.host["gpus_nvml"].number, 7);
  EXPECT_EQ(inventory.host["gpus_missing"].number, 1);
  EXPECT_TRUE(inventory.host["gpus_missing"].text.value_or("").starts_with("0000:17:00.0 "));
}

TEST(HostInventory, SaysThatAJobSeesGpusThatItWasNotGiven) {
  const MadeUpHost host;
  for (int gpu = 0; gpu < 8; ++gpu) host.add_gpu(gpu);
  const FakeGpus gpus("gpus 8\n");
  const auto job = [](const std::string& name) {
    return name == "SLURM_GPUS_ON_NODE" ? std::optional<std::string>("1") : std::nullopt;
  };
  auto inventory = read_host(host.root(), Nvml(FakeGpus::library()), job, "/");
  EXPECT_EQ(inventory.host["gpus_not_isolated"].number, 7);
  EXPECT_EQ(inventory.host["gpus_not_isolated"].text, "the scheduler gave the job 1 GPUs, and the job sees 8");
  EXPECT_EQ(inventory.host["gpus_missing"].number, 0);
}

TEST(HostInventory, OfAMachineWithoutNvidiaHasNoGpuAndMissesNone) {
  const MadeUpHost host;
  auto inventory = read_host(host.root(), Nvml("/nonexistent.so"), no_variables(), "/");
  EXPECT_TRUE(inventory.gpus.empty());
  EXPECT_EQ(inventory.host["gpus_nvml"].number, 0);
  EXPECT_EQ(inventory.host["gpus_missing"].number, 0);
}

TEST(HostInventory, KnowsNoNumberOfGpusWhereNvmlIsMissing) {
  const MadeUpHost host;
  host.add_gpu(0);
  auto inventory = read_host(host.root(), Nvml("/nonexistent.so"), no_variables(), "/");
  EXPECT_FALSE(inventory.host["gpus_nvml"].number);
  EXPECT_FALSE(inventory.host["gpus_missing"].number);
  EXPECT_EQ(inventory.host["nvml_fails"].number, 1);
  EXPECT_NE(inventory.host["nvml_fails"].text->find("/nonexistent.so"), std::string::npos);
}

TEST(HostInventory, ShowsHowGpusAndNicsAreConnected) {
  const MadeUpHost host;
  host.add_gpu(0);
  host.add_gpu(1);
  const FakeGpus gpus("gpus 2\n" + links("*"));
  const auto topology = read_host(host.root(), Nvml(FakeGpus::library()), no_variables(), "/").topology;
  ASSERT_EQ(topology.devices.size(), 2u);
  EXPECT_EQ(topology.links[0][1], "NV8");
}

TEST(NcclSettings, ComeFromTheEnvironmentBeforeTheFiles) {
  const MadeUpHost host;
  host.write("etc/nccl.conf", "NCCL_SOCKET_IFNAME=eth9");
  EXPECT_EQ(nccl_environment(no_variables(), host.root())("NCCL_SOCKET_IFNAME"), "eth9");
  const auto set = [](const std::string& name) {
    return name == "NCCL_SOCKET_IFNAME" ? std::optional<std::string>("ib0") : std::nullopt;
  };
  EXPECT_EQ(nccl_environment(set, host.root())("NCCL_SOCKET_IFNAME"), "ib0");
  const auto settings = nccl_environment(no_variables(), host.root());
  EXPECT_EQ(settings("NCCL_ALGO"), std::nullopt);
  host.write("etc/nccl.conf", "NCCL_ALGO=Ring");
  EXPECT_EQ(settings("NCCL_ALGO"), std::nullopt) << "the file was read before";
}

}  // namespace
}  // namespace shakedown::gpu_facts_test
