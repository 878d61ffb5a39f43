#include "node/kernel_log.hpp"

#include <gtest/gtest.h>

#include "tests/node/made_up_host.hpp"

namespace shakedown {
namespace {

KernelLog log_of(const std::string& text, const std::string& file = "dev/kmsg") {
  const MadeUpHost host;
  host.write(file, text);
  return read_kernel_log(host.root()).value();
}

TEST(KernelLog, HasXidsByGpu) {
  const auto log = log_of(
      "Nov 1 host kernel: NVRM: Xid (PCI:0000:1B:00): 79, pid=1, GPU has fallen off the bus.\n"
      "Nov 1 user: NVRM: Xid (PCI:0000:1b:00): 99999999999, which anybody may write\n"
      "Nov 1 host kernel: NVRM: Xid (PCI:0000:1c:00): 13, Graphics Exception\nsomething else",
      "var/log/kern.log");
  ASSERT_EQ(log.xids.size(), 2u);
  EXPECT_EQ(log.xids.at(0).pci, "0000:1b:00.0");
  EXPECT_EQ(log.xids.at(0).code, 79);
  EXPECT_EQ(log.xids.at(0).file, "/var/log/kern.log");
  EXPECT_EQ(log_of("6,1,1,-;NVRM: Xid (PCI:0000:1B:00): 48, pid=1\n").xids.at(0).file, "") << "the kernel's own";
}

TEST(KernelLog, HasXidsInAllFormsOfTheDriver) {
  for (const auto& [line, code] :
       {std::pair{"NVRM: Xid (PCI:0000:10:00 GPU-I:05): 94, pid=991, name=python3, Contained: CE User Channel", 94},
        {"NVRM: Xid (0000:10:00): 79, GPU has fallen off the bus.", 79},
        {"NVRM: Xid (PCI:0000:10:00.0): 119, pid=3, Timeout after 6s of waiting for RPC response from GPU0 GSP!", 119},
        {"NVRM: GPU0 Xid (PCI:0000:10:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error", 74},
        {"NVRM: Xid (PCI:0000:10:00): 145, RLW_SRC_TRACK Nonfatal XC0 i0 Link 12 (0x00000001)", 145}}) {
    const auto xids = log_of(line).xids;
    ASSERT_EQ(xids.size(), 1u) << line;
    EXPECT_EQ(xids.front().code, code);
    EXPECT_EQ(xids.front().pci, "0000:10:00.0");
  }
}

TEST(KernelLog, HasTheLastActionThatTheDriverAsksFor) {
  const auto changed = [](const std::string& gpu, const std::string& to) {
    return "NVRM: Xid (PCI:0000:" + gpu + ":00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to " +
           to + "\n";
  };
  const auto log = log_of(changed("10", "0x1 (GPU Reset Required)") + changed("11", "0x1 (GPU Reset Required)") +
                          changed("10", "0x2 (Node Reboot Required)") + changed("11", "0x0 (None)"));
  ASSERT_EQ(log.xids.size(), 1u);
  EXPECT_EQ(log.xids.front().pci, "0000:10:00.0");
  EXPECT_EQ(log.xids.front().action, "Node Reboot Required");
  EXPECT_EQ(log_of("NVRM: Xid (PCI:0000:10:00): 154, a form of another driver\n").xids.size(), 1u);
}

TEST(KernelLog, HasErrorsOfSwitchesAndWhetherTheyAreFatal) {
  const auto log = log_of(
      "4,100,9000,-;nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error\n"
      "4,101,9001,-;nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n"
      "4,102,9002,-;nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 20034, Severity 1 Engine instance 30 Sub-engine 00\n"
      "4,103,9003,-;nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n");
  ASSERT_EQ(log.switch_errors.size(), 3u);
  const auto facts = kernel_log_facts(log);
  EXPECT_EQ(facts.at("sxids").number, 2);
  EXPECT_EQ(facts.at("sxids").text, "2 x NVSwitch 3: SXid 20034, Link 30 LTSSM Fault Up");
  EXPECT_EQ(facts.at("sxids_nonfatal").number, 1);
  EXPECT_TRUE(log.xids.empty());
}

TEST(KernelLog, HasFaultsOfTheDriverPciAndNics) {
  for (const auto* line :
       {"NVRM: GPU 0000:1b:00.0: RmInitAdapter failed! (0x62:0x40:2477)", "NVRM: rm_init_adapter failed for device",
        "NVRM: API mismatch: the client has the version 580.95.05, but this kernel module has the version 580.82.07.",
        "NVRM: The NVIDIA GPU at PCI:27:0:0 has fallen off the bus and is not responding to commands.",
        "pcieport 0000:15:01.0: AER: Uncorrectable (Fatal) error message received from 0000:16:00.0",
        "nvidia 0000:16:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
        "pcieport 0000:15:01.0: DPC: containment event, status:0x1f01 source:0x0000",
        "Memory failure: 0x5d3a001: recovery action for dirty LRU page: Recovered",
        "{1}[Hardware Error]: event severity: fatal",
        "mlx5_core 0000:18:00.0: mlx5_pcie_event:300:(pid 1): Detected insufficient power on the PCIe slot (27W).",
        "mlx5_core 0000:18:00.0: Port module event[error]: module 0, Cable error, High Temperature",
        "mlx5_core 0000:18:00.0: Port module event[error]: module 0, Cable error, Bus stuck (I2C or data shorted)",
        "mlx5_core 0000:18:00.0: poll_health:821: device's health compromised - reached miss count",
        "mce: Uncorrected hardware memory error in user-access at 1f6d3c40"}) {
    const auto log = log_of(std::string(line) + "\n" + line);
    ASSERT_EQ(log.faults.size(), 1u) << line;
    EXPECT_NE(log.faults.front().find("(2 lines)"), std::string::npos) << log.faults.front();
  }
  for (const auto* line : {"NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05",
                           "mlx5_core 0000:18:00.1: Port module event: module 1, Cable unplugged",
                           "pcieport 0000:15:01.0: AER: enabled with IRQ 27",
                           "nvme 0000:01:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
                           "pcieport 0000:15:01.0: DPC: error containment capabilities: Int Msg #0",
                           "{1}[Hardware Error]: event severity: corrected", "mce: CPU supports 20 MCE banks"}) {
    EXPECT_TRUE(log_of(line).faults.empty()) << line;
  }
}

TEST(KernelLog, BeginsWithTheLastStartOfTheHost) {
  const auto log = log_of(
      "Nov 1 n1 kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=1\nNov 2 n1 kernel: Linux version 6.8.0\n"
      "Nov 2 n1 kernel: NVRM: Xid (PCI:0000:1c:00): 48, pid=1\n",
      "var/log/messages");
  ASSERT_EQ(log.xids.size(), 1u);
  EXPECT_EQ(log.xids.front().code, 48);
}

TEST(KernelLog, ThatNobodyMayReadIsUnknown) {
  const MadeUpHost host;
  EXPECT_FALSE(read_kernel_log(host.root()));
  EXPECT_FALSE(kernel_log_facts(std::nullopt).at("sxids").number);
}

}  // namespace
}  // namespace shakedown
