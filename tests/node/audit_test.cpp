#include "node/audit.hpp"

#include <gtest/gtest.h>

#include <map>

#include "base/files.hpp"
#include "node/host_facts.hpp"
#include "tests/node/made_up_host.hpp"

namespace shakedown {
namespace {

using Variables = std::map<std::string, std::string>;

std::vector<std::string> names_of(const MadeUpHost& host, const Variables& variables = {}) {
  std::vector<std::string> names;
  const auto environment = [&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  AuditedHost audited{host.root(), read_pci_bus(host.root() / "sys").value(), cpu_facts(host.root())};
  audited.facts.merge(memory_facts(host.root()));
  audited.facts.merge(limit_facts(host.root()));
  audited.facts["driver"] = text_fact(line_of(host.root() / "sys/module/nvidia/version"));
  for (const auto& setting : audit_settings(audited, environment)) {
    EXPECT_FALSE(setting.cost.empty() || setting.command.empty() || setting.source.empty()) << setting.name;
    names.emplace_back(setting.name);
  }
  return names;
}

/// A configuration space of 4,096 bytes with Access Control Services at 0x120, after another capability.
std::string with_acs(char control) {
  std::string config(4096, '\0');
  const auto write = [&](std::size_t at, std::uint32_t word) {
    for (int i = 0; i < 4; ++i) config[at + static_cast<std::size_t>(i)] = static_cast<char>(word >> 8 * i);
  };
  write(0x100, 0x0001 | 1U << 16 | 0x120U << 20);
  write(0x120, 0x000d | 1U << 16);
  config[0x126] = control;
  return config;
}

void add_bridge(const MadeUpHost& host, const std::string& config) {
  host.add_pci("pci0000:15/0000:15:01.0", "0x8086", "0x060400");
  std::ofstream(host.root() / "sys/devices/pci0000:15/0000:15:01.0/config", std::ios::binary) << config;
}

using Names = std::vector<std::string>;

TEST(Audit, FindsNothingOnAHostThatIsSetUp) {
  const MadeUpHost host;
  host.add_gpu(0);
  add_bridge(host, with_acs(0x01));  // source validation alone redirects nothing
  host.write("sys/module/gdrdrv/version", "2.5");
  host.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 iommu=pt");
  host.write("sys/class/iommu/dmar0/intel-iommu/version", "5:0");
  host.write("proc/sys/kernel/numa_balancing", "0");
  host.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance");
  host.write("sys/module/pcie_aspm/parameters/policy", "[default] performance powersave powersupersave");
  host.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  host.write("proc/self/limits", "Max open files            1048576              1048576              files");
  EXPECT_EQ(names_of(host), Names{});
  EXPECT_EQ(names_of(MadeUpHost()), Names{}) << "a host of which nothing can be read";
}

TEST(Audit, FindsEachSettingThatIsPlanted) {
  const std::map<std::string, std::pair<std::string, std::string>> planted{
      {"iommu", {"sys/class/iommu/dmar0/version", "5:0"}},
      {"driver_fault", {"sys/module/nvidia/version", "570.133.20"}},
      {"nouveau", {"sys/module/nouveau/version", "1"}},
      {"numa_balancing", {"proc/sys/kernel/numa_balancing", "1"}},
      {"zone_reclaim", {"proc/sys/vm/zone_reclaim_mode", "1"}},
      {"governor", {"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave"}},
      {"nmi_watchdog", {"proc/sys/kernel/nmi_watchdog", "1"}},
      {"aspm", {"sys/module/pcie_aspm/parameters/policy", "default performance [powersave]"}},
      {"huge_pages", {"sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]"}},
      {"open_files", {"proc/self/limits", "Max open files            1024                 4096                 files"}},
      {"panic_on_hang", {"proc/sys/kernel/hung_task_panic", "1"}},
  };
  for (const auto& [name, file] : planted) {
    const MadeUpHost host;
    host.write("proc/cmdline", "root=/dev/sda1");
    host.write(file.first, file.second);
    EXPECT_EQ(names_of(host), Names{name});
  }
}

TEST(Audit, FindsWhatDependsOnGpusAndNics) {
  const MadeUpHost host;
  host.add_gpu(0);
  EXPECT_EQ(names_of(host), Names{"gdrcopy"});
  add_bridge(host, with_acs(0x1d));
  host.add_port("mlx5_0", "ACTIVE");
  std::filesystem::create_directories(host.root() / "dev");
  EXPECT_EQ(names_of(host), (Names{"acs", "uverbs", "gdrcopy"}));
  host.write("dev/infiniband/uverbs0", "");
  EXPECT_EQ(names_of(host), (Names{"acs", "gdrcopy"}));
}

TEST(Audit, KnowsVersionsWithFaults) {
  const auto faulty = faulty_versions_fact("nccl", "2.18.1");
  EXPECT_EQ(faulty.number, 1);
  EXPECT_NE(faulty.text.value_or("").find("LL128 may damage data"), std::string::npos);
  EXPECT_NE(faulty.text.value_or("").find("NCCL release notes 2.18.1"), std::string::npos);
  EXPECT_EQ(faulty_versions_fact("nccl", "2.28.9").number, 0);
  EXPECT_EQ(faulty_versions_fact("driver", "2.18.1").number, 0);
}

TEST(Audit, EndsAtADamagedConfigurationSpace) {
  const MadeUpHost host;
  host.add_gpu(0);
  std::string loops(4096, '\0');
  loops[0x102] = 0x01, loops[0x103] = 0x10;  // the next capability is this one
  add_bridge(host, loops);
  EXPECT_EQ(names_of(host), Names{"gdrcopy"});
}

TEST(Audit, FindsVariablesThatCost) {
  for (const auto& [name, value] : Variables{{"NCCL_P2P_DISABLE", "1"},
                                             {"NCCL_P2P_LEVEL", "LOC"},
                                             {"NCCL_SHM_DISABLE", "1"},
                                             {"NCCL_IB_DISABLE", "1"},
                                             {"NCCL_NVLS_ENABLE", "0"},
                                             {"NCCL_ALGO", "Ring"},
                                             {"NCCL_PROTO", "Simple"},
                                             {"NCCL_NET", "Socket"},
                                             {"NCCL_MAX_NCHANNELS", "4"},
                                             {"NCCL_CROSS_NIC", "0"},
                                             {"CUDA_LAUNCH_BLOCKING", "1"}}) {
    EXPECT_EQ(names_of(MadeUpHost(), {{name, value}}), Names{name});
  }
  EXPECT_EQ(names_of(MadeUpHost(), {{"NCCL_P2P_DISABLE", "0"}, {"NCCL_DEBUG", "INFO"}}), Names{});
  const MadeUpHost host;
  host.write("etc/nccl.conf", "NCCL_ALGO=Tree");
  EXPECT_EQ(names_of(host), Names{"NCCL_ALGO"});
}

}  // namespace
}  // namespace shakedown
