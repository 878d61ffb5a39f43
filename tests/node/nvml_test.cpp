// Values from NVML on simulated GPUs, or no value and the reason.
#include "node/nvml.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/node/fake_gpus.hpp"

namespace shakedown::nvml_test {
namespace {

NvmlGpu first(const Nvml& nvml) { return *nvml.find("GPU-fake-0", std::nullopt); }

TEST(Nvml, ThatIsMissingIsAReasonAndNotAnError) {
  const Nvml nvml("/nonexistent/libnvidia-ml.so.1");
  EXPECT_NE(nvml.problem().find("/nonexistent/libnvidia-ml.so.1"), std::string::npos) << nvml.problem();
  EXPECT_FALSE(nvml.device_count());
  EXPECT_TRUE(nvml.gpus().empty());
  EXPECT_EQ(nvml.find("GPU-fake-0", std::nullopt).why(), nvml.problem());
}

TEST(Nvml, WithoutADriverSaysSo) {
  const FakeGpus gpus("init no_driver\n");
  EXPECT_NE(Nvml(FakeGpus::library()).problem().find("driver is not loaded"), std::string::npos);
}

TEST(Nvml, IsTheOneThatTheVariableNames) {
  const auto variables = [](const std::string& name) -> std::optional<std::string> {
    return name == "SHAKEDOWN_NVML" ? std::optional<std::string>("/a/library.so") : std::nullopt;
  };
  EXPECT_EQ(nvml_library(variables), "/a/library.so");
  EXPECT_EQ(nvml_library([](const std::string&) { return std::nullopt; }), "libnvidia-ml.so.1");
}

TEST(Nvml, FindsAGpuByUuidElseByPciAddress) {
  const FakeGpus gpus(
      "gpus 3\n0 nvmlDeviceGetTemperature 30\n1 nvmlDeviceGetTemperature 31\n"
      "2 nvmlDeviceGetTemperature 32\n");
  const Nvml nvml(FakeGpus::library());
  EXPECT_EQ(nvml.device_count().value(), 3u);
  EXPECT_EQ(nvml.gpus().size(), 3u);
  EXPECT_EQ(nvml.find("GPU-fake-2", std::nullopt)->temperature_c().value(), 32u);
  EXPECT_EQ(nvml.find("GPU-other", "0000:11:00.0")->temperature_c().value(), 31u);
  EXPECT_EQ(nvml.find("GPU-other", std::nullopt).why(), "GPU-other: NVML does not know this GPU");
  EXPECT_FALSE(nvml.find(std::nullopt, std::nullopt));
}

TEST(NvmlGpu, TellsWhoItIs) {
  const FakeGpus gpus("driver 580.159.03\n0 nvmlDeviceGetSerial 1654123\n0 nvmlDeviceGetVbiosVersion 96.00.A5\n");
  const Nvml nvml(FakeGpus::library());
  const auto gpu = first(nvml);
  EXPECT_EQ(nvml.driver_version().value(), "580.159.03");
  EXPECT_EQ(gpu.name().value(), "NVIDIA H200");
  EXPECT_EQ(gpu.uuid().value(), "GPU-fake-0");
  EXPECT_EQ(gpu.pci().value(), "0000:10:00.0") << "as Linux writes it, not with the long domain of NVML";
  EXPECT_EQ(gpu.serial().value(), "1654123");
  EXPECT_EQ(gpu.vbios().value(), "96.00.A5");
}

TEST(NvmlGpu, TellsClocksPowerAndHeat) {
  const FakeGpus gpus(
      "* nvmlDeviceGetClockInfo:1 1410\n* nvmlDeviceGetClockInfo:2 3201\n* nvmlDeviceGetMaxClockInfo:1 1980\n"
      "* nvmlDeviceGetMaxClockInfo:2 3201\n* nvmlDeviceGetPowerUsage 650000\n* field:186 691500\n* field:82 71\n"
      "* nvmlDeviceGetEnforcedPowerLimit 700000\n* nvmlDeviceGetTemperature 57\n"
      "* nvmlDeviceGetCurrentClocksEventReasons 4\n");
  const auto gpu = first(Nvml(FakeGpus::library()));
  EXPECT_EQ(gpu.sm_mhz().value(), 1410u);
  EXPECT_EQ(gpu.sm_mhz_max().value(), 1980u);
  EXPECT_EQ(gpu.memory_mhz().value(), 3201u);
  EXPECT_EQ(gpu.memory_mhz_max().value(), 3201u);
  EXPECT_DOUBLE_EQ(gpu.power_w().value(), 691.5) << "of the moment, not the mean over a second";
  EXPECT_DOUBLE_EQ(gpu.power_limit_w().value(), 700);
  EXPECT_EQ(gpu.temperature_c().value(), 57u);
  EXPECT_EQ(gpu.memory_temperature_c().value(), 71u);
  EXPECT_EQ(gpu.clock_reasons().value(), static_cast<std::uint64_t>(ClockReason::sw_power_cap));
}

TEST(NvmlGpu, GivesNothingAndTheReasonWhereAFieldIsUnsupportedForbiddenOrGone) {
  const FakeGpus gpus("0 nvmlDeviceGetClockInfo:1 no_permission\n0 nvmlDeviceGetName lost\n");
  const auto gpu = first(Nvml(FakeGpus::library()));
  EXPECT_EQ(gpu.sm_mhz().why(), "no permission");
  EXPECT_NE(gpu.name().why().find("fallen off"), std::string::npos);
  EXPECT_EQ(gpu.temperature_c().why(), "not supported");
  EXPECT_EQ(gpu.memory_temperature_c().why(), "not supported");
  EXPECT_FALSE(gpu.power_w());
  EXPECT_FALSE(gpu.remapped_rows());
  EXPECT_FALSE(gpu.retired_pages());
  EXPECT_FALSE(gpu.fabric());
  EXPECT_FALSE(gpu.processes());
  EXPECT_FALSE(gpu.ecc());
  EXPECT_TRUE(gpu.links()->empty()) << "a GPU without NVLink";
}

TEST(NvmlGpu, OfAnOldDriverAnswersThroughTheOlderFunctionsAndNamesTheMissingOnes) {
  const FakeGpus gpus(
      "0 nvmlDeviceGetCurrentClocksThrottleReasons 64\n0 nvmlDeviceGetPowerUsage 300000\n"
      "0 nvmlDeviceGetComputeRunningProcesses 1,5\n0 nvmlDeviceGetNvLinkState:0 1\n"
      "0 nvmlDeviceGetNvLinkState:1 0\n0 nvmlDeviceGetNvLinkErrorCounter:0:2 9\n");
  const auto gpu = first(Nvml(FakeGpus::old_library()));
  EXPECT_EQ(gpu.clock_reasons().value(), 64u);
  EXPECT_DOUBLE_EQ(gpu.power_w().value(), 300);
  EXPECT_EQ(gpu.processes()->size(), 1u);
  EXPECT_EQ(gpu.remapped_rows().why(), "nvmlDeviceGetRemappedRows is missing from the library");
  EXPECT_TRUE(gpu.fabric().why().starts_with("nvmlDeviceGetGpuFabricInfoV "));
  const auto links = gpu.links();
  ASSERT_EQ(links->size(), 2u);
  EXPECT_TRUE(links->at(0).active.value());
  EXPECT_FALSE(links->at(1).active.value());
  EXPECT_EQ(links->at(0).errors.crc.value(), 9u);
  EXPECT_FALSE(links->at(0).speed_mbps);
}

TEST(NvmlGpu, TellsTheErrorsOfItsMemory) {
  const FakeGpus gpus(
      "* nvmlDeviceGetEccMode 1 0\n* nvmlDeviceGetTotalEccErrors:0:0 1\n* nvmlDeviceGetTotalEccErrors:1:0 2\n"
      "* nvmlDeviceGetTotalEccErrors:0:1 3\n* nvmlDeviceGetTotalEccErrors:1:1 4\n* nvmlDeviceGetRemappedRows 5 6 1 0\n"
      "* nvmlDeviceGetRetiredPages:0 7\n* nvmlDeviceGetRetiredPages:1 0\n");
  const auto gpu = first(Nvml(FakeGpus::library()));
  EXPECT_TRUE(gpu.ecc()->now);
  EXPECT_FALSE(gpu.ecc()->pending);
  EXPECT_EQ(gpu.ecc_errors(EccErrors::corrected, EccSince::reset).value(), 1u);
  EXPECT_EQ(gpu.ecc_errors(EccErrors::uncorrected, EccSince::reset).value(), 2u);
  EXPECT_EQ(gpu.ecc_errors(EccErrors::corrected, EccSince::manufacture).value(), 3u);
  EXPECT_EQ(gpu.ecc_errors(EccErrors::uncorrected, EccSince::manufacture).value(), 4u);
  const auto rows = gpu.remapped_rows();
  EXPECT_EQ(rows->corrected, 5u);
  EXPECT_EQ(rows->uncorrected, 6u);
  EXPECT_TRUE(rows->pending);
  EXPECT_FALSE(rows->failed);
  EXPECT_EQ(gpu.retired_pages()->single_bit, 7u);
  EXPECT_EQ(gpu.retired_pages()->double_bit, 0u);
  EXPECT_FALSE(gpu.retired_pages()->pending) << "not told, so unknown";
}

TEST(NvmlGpu, TellsItsLinks) {
  const FakeGpus gpus(
      "* nvmlDeviceGetCurrPcieLinkGeneration 4\n* nvmlDeviceGetMaxPcieLinkGeneration 5\n"
      "* nvmlDeviceGetCurrPcieLinkWidth 8\n* nvmlDeviceGetMaxPcieLinkWidth 16\n* nvmlDeviceGetPcieReplayCounter 2\n"
      "* field:91 3\n* nvmlDeviceGetNvLinkState:0 1\n* nvmlDeviceGetNvLinkState:1 0\n* field:164:0 26562\n"
      "* field:161:0 11\n* field:162:0 12\n* field:163:0 13\n* nvmlDeviceGetGpuFabricInfoV 3 0 7 0\n");
  const auto gpu = first(Nvml(FakeGpus::library()));
  EXPECT_EQ(gpu.pcie_generation().value(), 4u);
  EXPECT_EQ(gpu.pcie_generation_max().value(), 5u);
  EXPECT_EQ(gpu.pcie_width().value(), 8u);
  EXPECT_EQ(gpu.pcie_width_max().value(), 16u);
  EXPECT_EQ(gpu.pcie_replays().value(), 2u);
  const auto links = gpu.links();
  ASSERT_EQ(links->size(), 3u);
  EXPECT_TRUE(links->at(0).active.value());
  EXPECT_EQ(links->at(0).speed_mbps.value(), 26562u);
  EXPECT_EQ(links->at(0).errors.replays.value(), 11u);
  EXPECT_EQ(links->at(0).errors.recoveries.value(), 12u);
  EXPECT_EQ(links->at(0).errors.crc.value(), 13u);
  EXPECT_FALSE(links->at(1).active.value());
  EXPECT_FALSE(links->at(2).active) << "a link whose state is unknown is neither up nor down";
  EXPECT_EQ(gpu.fabric()->state, 3u);
  EXPECT_EQ(gpu.fabric()->clique, 7u);
}

TEST(NvmlGpu, TellsItsModesAndMemory) {
  const FakeGpus gpus(
      "* nvmlDeviceGetMigMode 0 1\n* nvmlDeviceGetPersistenceMode 1\n* nvmlDeviceGetComputeMode 3\n"
      "* nvmlDeviceGetMemoryInfo 1000 600 400\n* nvmlDeviceGetVirtualizationMode 2\nconfidential 1\n");
  const auto gpu = first(Nvml(FakeGpus::library()));
  EXPECT_TRUE(gpu.vgpu().value());
  EXPECT_TRUE(gpu.confidential().value());
  EXPECT_FALSE(gpu.mig()->now);
  EXPECT_TRUE(gpu.mig()->pending);
  EXPECT_TRUE(gpu.persistence().value());
  EXPECT_EQ(gpu.compute_mode().value(), 3u);
  EXPECT_EQ(gpu.memory()->total, 1000u);
  EXPECT_EQ(gpu.memory()->used, 400u);
}

TEST(NvmlGpu, ThatIsPassedThroughIsNoVgpu) {
  const FakeGpus gpus("* nvmlDeviceGetVirtualizationMode 1\nconfidential 0\n");
  const auto gpu = first(Nvml(FakeGpus::library()));
  EXPECT_FALSE(gpu.vgpu().value());
  EXPECT_FALSE(gpu.confidential().value());
}

TEST(NvmlGpu, OfAnOldDriverLeavesConfidentialComputingUnknown) {
  const FakeGpus gpus("* nvmlDeviceGetVirtualizationMode 1\n");
  EXPECT_FALSE(first(Nvml(FakeGpus::library())).confidential());
}

TEST(NvmlGpu, NamesTheProcessesOnIt) {
  std::string many =
      "0 nvmlDeviceGetComputeRunningProcesses " + std::to_string(getpid()) + ",2000000000 4194305,unknown";
  for (int i = 0; i < 200; ++i) many += " " + std::to_string(4194400 + i) + ",1";  // above the maximum PID of Linux
  const FakeGpus gpus(many + "\n");
  const auto processes = first(Nvml(FakeGpus::library())).processes();
  ASSERT_EQ(processes->size(), 202u) << "more than the first guess has room for";
  EXPECT_EQ(processes->at(0).pid, static_cast<unsigned>(getpid()));
  EXPECT_EQ(processes->at(0).name, "node_test");
  EXPECT_EQ(processes->at(0).memory_bytes, 2000000000u);
  EXPECT_EQ(processes->at(1).name, std::nullopt);
  EXPECT_EQ(processes->at(1).memory_bytes, std::nullopt);
}

TEST(XidWatch, GivesWhatCameSinceTheLastCall) {
  const FakeGpus gpus("0 xid none|79|13|none\n");
  XidWatch watch(first(Nvml(FakeGpus::library())));
  EXPECT_TRUE(watch.take()->empty());
  EXPECT_EQ(watch.take().value(), (std::vector<unsigned>{79, 13}));
  EXPECT_TRUE(watch.take()->empty());
}

TEST(XidWatch, OfAGpuWithoutEventsKnowsNothing) {
  const FakeGpus gpus("gpus 1\n");
  EXPECT_EQ(XidWatch(first(Nvml(FakeGpus::library()))).take().why(), "not supported");
}

}  // namespace
}  // namespace shakedown::nvml_test
