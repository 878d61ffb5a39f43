// The facts of simulated hosts: processors, memory, limits, disks, networks, the kernel log, bindings.
#include "node/host_facts.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "node/binding.hpp"
#include "node/ports.hpp"
#include "node/topology.hpp"
#include "tests/node/made_up_host.hpp"

namespace shakedown::host_facts_test {
namespace {

void add_cpu(const MadeUpHost& host, int cpu, int package, int core, const std::string& siblings) {
  const auto folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/";
  host.write(folder + "topology/physical_package_id", std::to_string(package));
  host.write(folder + "topology/core_id", std::to_string(core));
  host.write(folder + "topology/thread_siblings_list", siblings);
  host.write(folder + "cpufreq/scaling_governor", "performance");
}

TEST(CpuFacts, CountCoresAndNotThreads) {
  const MadeUpHost host;
  host.write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Platinum 8480C\n");
  for (int package = 0; package < 2; ++package) {
    for (int core = 0; core < 2; ++core) {
      const int first = package * 2 + core;
      const auto siblings = std::to_string(first) + "," + std::to_string(first + 4);
      add_cpu(host, first, package, core, siblings);
      add_cpu(host, first + 4, package, core, siblings);
    }
  }
  host.write("sys/devices/system/cpu/smt/active", "1");
  auto facts = cpu_facts(host.root());
  EXPECT_EQ(facts["cpu"].text, "Intel(R) Xeon(R) Platinum 8480C");
  EXPECT_EQ(facts["sockets"].number, 2);
  EXPECT_EQ(facts["cores"].number, 4);
  EXPECT_EQ(facts["smt"].number, 1);
  EXPECT_EQ(facts["governor"].text, "performance");
}

TEST(HostFacts, ThatCannotBeReadAreUnknownAndStillNamed) {
  for (const auto& facts :
       {cpu_facts("/nonexistent"), memory_facts("/nonexistent"), dram_facts("/nonexistent"),
        limit_facts("/nonexistent"), disk_facts("/nonexistent", "/home"), system_facts("/nonexistent")}) {
    EXPECT_FALSE(facts.empty());
    for (const auto& [name, fact] : facts) EXPECT_FALSE(fact.number || fact.text) << name;
  }
}

TEST(MemoryFacts, AreInGigabytesOfTenToTheNinth) {
  const MadeUpHost host;
  host.write("proc/meminfo", "MemTotal:       2000000000 kB\nMemAvailable:   1000000000 kB");
  host.write("sys/devices/system/node/node0/meminfo", "x");
  host.write("sys/devices/system/node/node1/meminfo", "x");
  host.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "1000");
  host.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  auto facts = memory_facts(host.root());
  EXPECT_DOUBLE_EQ(*facts["memory_gb"].number, 2048);
  EXPECT_DOUBLE_EQ(*facts["memory_free_gb"].number, 1024);
  EXPECT_EQ(facts["numa_nodes"].number, 2);
  EXPECT_DOUBLE_EQ(*facts["hugepages_gb"].number, 2.097152);
  EXPECT_EQ(facts["transparent_hugepages"].text, "madvise");
}

/// A Grace with its GPU, whose 96 GB are node 1; nodes 2 to 8 are for MIG and have no memory.
TEST(MemoryFacts, OfGraceAreWithoutThoseOfItsGpu) {
  const MadeUpHost host;
  const std::string nodes = "sys/devices/system/node/node";
  host.write("proc/meminfo", "MemTotal:       600000000 kB\nMemAvailable:   500000000 kB");
  host.write(nodes + "0/cpulist", "0-71");
  host.write(nodes + "0/meminfo", "Node 0 MemTotal:  500000000 kB\nNode 0 MemFree:  410000000 kB\n");
  host.write(nodes + "1/cpulist", "\n");
  host.write(nodes + "1/meminfo", "Node 1 MemTotal:  100000000 kB\nNode 1 MemFree:  90000000 kB\n");
  for (int empty = 2; empty <= 8; ++empty) {
    const auto number = std::to_string(empty);
    host.write(nodes + number + "/cpulist", "\n");
    host.write(nodes + number + "/meminfo", "Node " + number + " MemTotal:  0 kB\n");
  }
  auto facts = memory_facts(host.root());
  EXPECT_DOUBLE_EQ(*facts["memory_gb"].number, 614.4) << "memory on CXL is the host's";
  EXPECT_EQ(facts["numa_nodes"].number, 9);
  host.write("sys/devices/soc0/soc_id", "jep106:036b:0241");
  facts = memory_facts(host.root());
  EXPECT_DOUBLE_EQ(*facts["memory_gb"].number, 512);
  EXPECT_DOUBLE_EQ(*facts["memory_free_gb"].number, 410 * 1.024);
  EXPECT_EQ(facts["numa_nodes"].number, 1);
}

TEST(DramFacts, NameControllersWithErrors) {
  const MadeUpHost host;
  EXPECT_FALSE(dram_facts(host.root()).at("edac_uncorrected").number);
  for (const std::string controller : {"mc0", "mc1"}) {
    host.write("sys/devices/system/edac/mc/" + controller + "/ue_count", controller == "mc1" ? "2" : "0");
    host.write("sys/devices/system/edac/mc/" + controller + "/ce_count", "7");
  }
  const auto facts = dram_facts(host.root());
  EXPECT_EQ(facts.at("edac_uncorrected").number, 2);
  EXPECT_EQ(facts.at("edac_uncorrected").text, "mc1: 2");
  EXPECT_EQ(facts.at("edac_corrected").number, 14);
}

/// A memory device of the firmware as /sys/firmware/dmi has it: 0x28 bytes, then its strings.
std::string dimm(const std::string& name, int size, int speed, int configured) {
  std::string table(0x28, '\0');
  const auto write = [&](std::size_t at, int word) {
    table[at] = static_cast<char>(word & 0xff), table[at + 1] = static_cast<char>(word >> 8);
  };
  table[0] = 17, table[1] = 0x28, table[0x10] = 2;
  write(0x0c, size), write(0x15, speed), write(0x20, configured);
  return table + "bank" + '\0' + name + '\0' + '\0';
}

TEST(DramFacts, NameADimmThatRunsSlowerThanTheOthers) {
  const MadeUpHost host;
  const auto add = [&](int number, const std::string& table) {
    const auto file = host.root() / ("sys/firmware/dmi/entries/17-" + std::to_string(number)) / "raw";
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << table;
  };
  for (int i = 0; i < 3; ++i) add(i, dimm("P0_DIMM_A" + std::to_string(i), 0x7fff, 5600, 4800));
  add(3, dimm("P1_DIMM_A3", 0x7fff, 5600, 4400));
  add(4, dimm("P1_DIMM_A4", 0, 0, 0));
  add(5, "\x11\x28");  // cut short
  const auto facts = dram_facts(host.root());
  EXPECT_EQ(facts.at("dram_mt_per_s").number, 4400);
  EXPECT_EQ(facts.at("dram_mt_per_s").text, "1 DIMM at 4400, 3 DIMMs at 4800");
  EXPECT_EQ(facts.at("dimms_slow").number, 1);
  EXPECT_EQ(facts.at("dimms_slow").text, "P1_DIMM_A3 at 4400 MT/s, others 4800");
}

TEST(LimitFacts, AreTheSoftOnesOfThisProcess) {
  const MadeUpHost host;
  host.write("proc/self/limits",
             "Limit                     Soft Limit           Hard Limit           Units\n"
             "Max locked memory         65536                unlimited            bytes\n"
             "Max open files            1024                 1048576              files");
  auto facts = limit_facts(host.root());
  EXPECT_EQ(facts["memlock"].text, "65536 bytes");
  EXPECT_EQ(facts["open_files"].text, "1024");
  EXPECT_FALSE(facts["shm_gb"].number) << "the machine has no /dev/shm";
}

TEST(DiskFacts, NameTheMountThatTheFolderLiesIn) {
  const MadeUpHost host;
  host.write("proc/self/mounts",
             "/dev/sda1 / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\nother:/h /homework nfs4 rw 0 0");
  EXPECT_EQ(disk_facts(host.root(), "/home/me").at("mount").text, "nfs4 server:/home on /home");
  EXPECT_EQ(disk_facts(host.root(), "/opt").at("mount").text, "ext4 /dev/sda1 on /");
}

TEST(SystemFacts, AreThoseOfTheRoot) {
  const MadeUpHost host;
  host.write("proc/sys/kernel/osrelease", "6.8.0-45-generic");
  host.write("etc/os-release", "NAME=Ubuntu\nPRETTY_NAME=\"Ubuntu 24.04.1 LTS\"");
  auto facts = system_facts(host.root());
  EXPECT_EQ(facts["kernel"].text, "6.8.0-45-generic");
  EXPECT_EQ(facts["os"].text, "Ubuntu 24.04.1 LTS");
}

TEST(SystemFacts, NameProcessesThatNoSignalEnds) {
  const MadeUpHost host;
  EXPECT_FALSE(system_facts(host.root()).at("uptime_days").number);
  host.write("proc/uptime", "5745600.12 91000.00");
  host.write("proc/1/stat", "1 (systemd) S 0 1 1");
  host.write("proc/77/stat", "77 (nvidia-smi) D 1 77 77");
  host.write("proc/77/comm", "nvidia-smi");
  host.write("proc/78/stat", "78 (a) D) R 1 78 78");  // a process name can contain anything
  const auto facts = system_facts(host.root());
  EXPECT_NEAR(facts.at("uptime_days").number.value_or(0), 66.5, 0.01);
  EXPECT_EQ(facts.at("tasks_in_d_state").number, 1);
  EXPECT_EQ(facts.at("tasks_in_d_state").text, "nvidia-smi (77)");
}

TEST(Ports, ThatAreDeadAreNamed) {
  const MadeUpHost host;
  host.add_port("mlx5_0", "ACTIVE");
  host.add_port("mlx5_1", "DOWN");
  host.add_port("mlx5_10", "ACTIVE", "Ethernet", "22.1");
  const auto ports = read_ports(host.root(), {});
  ASSERT_TRUE(ports);
  ASSERT_EQ(ports->size(), 3u);
  EXPECT_EQ(ports->at(0).rate_gbit, 400);
  EXPECT_EQ(ports->at(0).gid_types, "IB/RoCE v1");
  EXPECT_EQ(ports->at(0).link_downed, 2);
  auto facts = network_facts(ports);
  EXPECT_EQ(facts["ib_ports"].number, 2);
  EXPECT_EQ(facts["ib_ports_down"].number, 1);
  EXPECT_EQ(facts["ib_ports_down"].text, "mlx5_1/1 is DOWN (Disabled)");
  EXPECT_EQ(facts["ib_ports_init"].number, 0);
  EXPECT_EQ(facts["roce_ports"].number, 0) << "one on Ethernet is no rail next to two on InfiniBand";
  EXPECT_EQ(facts["roce_ports_down"].number, 0);
  EXPECT_EQ(facts["ib_rate_gbit"].number, 400);
  EXPECT_EQ(facts["ib_firmware"].text, "28.39.1002");
}

TEST(Ports, ThatWaitForASubnetManagerAreNamed) {
  const MadeUpHost host;
  host.add_port("mlx5_0", "ACTIVE");
  host.add_port("mlx5_1", "INIT");
  host.add_port("mlx5_2", "ARMED");
  host.add_port("mlx5_3", "INIT", "Ethernet");
  auto facts = network_facts(read_ports(host.root(), {}));
  EXPECT_EQ(facts["ib_ports_init"].number, 2);
  EXPECT_NE(facts["ib_ports_init"].text->find("mlx5_1/1 is INIT"), std::string::npos);
}

TEST(Ports, AreNoneWithoutInfinibandAndUnknownWithoutSysfs) {
  const MadeUpHost host;
  EXPECT_TRUE(read_ports(host.root(), {}).value().empty());
  EXPECT_FALSE(read_ports("/nonexistent", {}));
  const auto known = network_facts(std::vector<Port>{}), unknown = network_facts(std::nullopt);
  EXPECT_TRUE(std::ranges::equal(known, unknown, {}, &Facts::value_type::first, &Facts::value_type::first));
  for (const auto& [name, fact] : unknown) EXPECT_FALSE(fact.number || fact.text) << name;
}

/// Adds an address to the GID table of a port.
void add_gid(const MadeUpHost& host, const std::string& device, int index, const std::string& type,
             const std::string& gid, const std::string& netdev) {
  const auto at = std::to_string(index), port = "sys/class/infiniband/" + device + "/ports/1/";
  host.write(port + "gid_attrs/types/" + at, type);
  host.write(port + "gids/" + at, gid);
  host.write(port + "gid_attrs/ndevs/" + at, netdev);
}

TEST(Ports, OfRoceTellTheirAddressAndTheFramesOfItsInterface) {
  const MadeUpHost host;
  const std::string local = "fe80:0000:0000:0000:0ac0:ebff:fe1a:2b3c", v4 = "0000:0000:0000:0000:0000:ffff:0a00:0001";
  for (const auto* device : {"mlx5_0", "mlx5_1"}) {
    host.add_port(device, "ACTIVE", "Ethernet");
    add_gid(host, device, 1, "RoCE v2", local, "eth2");
    add_gid(host, device, 2, "IB/RoCE v1", v4, "eth2");
    add_gid(host, device, 10, "RoCE v2", "0000:0000:0000:0000:0000:0000:0000:0000", "eth2");
  }
  add_gid(host, "mlx5_0", 3, "RoCE v2", v4, "eth2");
  host.write("sys/class/net/eth2/mtu", "1500");
  const auto ports = read_ports(host.root(), {});
  EXPECT_EQ(ports->at(0).gid_index, 3);
  EXPECT_EQ(ports->at(0).mtu, 1500);
  EXPECT_FALSE(ports->at(1).gid_index) << "of its addresses one is of the link, one of v1, and one is empty";
  auto facts = network_facts(ports);
  EXPECT_EQ(facts["roce_mtu"].number, 1500);
  EXPECT_EQ(facts["roce_mtu"].text, "mlx5_0/1");
  EXPECT_EQ(facts["roce_gid_index"].text, "3");
  EXPECT_EQ(facts["roce_ports_without_v2"].number, 1);
  EXPECT_EQ(facts["roce_ports_without_v2"].text, "mlx5_1/1");
}

TEST(Ports, OfRoceTellWhatTheyTrustAndWhetherMarksSlowThemDown) {
  const MadeUpHost host;
  for (const std::string number : {"0", "1"}) {
    const std::string net = "sys/class/net/eth" + number + "/";
    host.add_port("mlx5_" + number, "ACTIVE", "Ethernet");
    add_gid(host, "mlx5_" + number, 3, "RoCE v2", "0000:0000:0000:0000:0000:ffff:0a00:0001", "eth" + number);
    host.write(net + "mtu", "9000");
  }
  EXPECT_FALSE(network_facts(read_ports(host.root(), {})).at("roce_without_dscp").number) << "no file says it";
  for (const std::string number : {"0", "1"}) {
    const std::string net = "sys/class/net/eth" + number + "/";
    host.write(net + "qos/trust", number == "0" ? "dscp" : "pcp");
    for (const std::string point : {"roce_np", "roce_rp"}) {
      host.write(net + "ecn/" + point + "/enable/0", "0");
      host.write(net + "ecn/" + point + "/enable/3", number == "1" || point == "roce_np" ? "1" : "0");
    }
  }
  const auto facts = network_facts(read_ports(host.root(), {}));
  EXPECT_EQ(facts.at("roce_without_dscp").text, "mlx5_1/1");
  EXPECT_EQ(facts.at("roce_without_ecn").text, "mlx5_0/1") << "it does not slow down as a sender";
}

TEST(Ports, SlowerThanTheOthersOfTheirHostAreNamed) {
  const MadeUpHost host;
  for (const auto* device : {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"}) host.add_port(device, "ACTIVE");
  host.add_port("mlx5_9", "ACTIVE", "Ethernet");
  host.write("sys/class/infiniband/mlx5_9/ports/1/rate", "25 Gb/sec (1X EDR)");
  EXPECT_EQ(network_facts(read_ports(host.root(), {})).at("ports_slow").number, 0)
      << "one for management is of another kind";
  host.write("sys/class/infiniband/mlx5_1/ports/1/rate", "200 Gb/sec (4X HDR)");
  auto facts = network_facts(read_ports(host.root(), {}));
  EXPECT_EQ(facts["ports_slow"].number, 1);
  EXPECT_EQ(facts["ports_slow"].text, "mlx5_1/1 has 200 Gb/s, others 400");
  EXPECT_FALSE(facts["roce_rate_gbit"].number);
}

/// Adds a NIC at this location in the PCI tree.
void add_nic(const MadeUpHost& host, const std::string& device, const std::string& path, int numa) {
  host.add_port(device, "ACTIVE");
  host.add_pci(path, "0x15b3", "0x020700", numa);
  std::filesystem::create_directory_symlink(host.root() / "sys/devices" / path,
                                            host.root() / "sys/class/infiniband" / device / "device");
}

TEST(Rails, AreTheNearestPortsOfEachGpuAndFarOnesAreNamed) {
  const MadeUpHost host;
  const std::string near = "pci0000:15/0000:15:01.0/0000:16:00.0/", other = "pci0000:97/0000:97:01.0/0000:98:00.0/";
  host.add_pci(near + "0000:17:00.0", "0x10de", "0x030200", 0);
  host.add_pci(other + "0000:99:00.0", "0x10de", "0x030200", 1);
  add_nic(host, "mlx5_0", other + "0000:9a:00.0", 1);
  add_nic(host, "mlx5_1", near + "0000:18:00.0", 0);
  const std::vector<std::string> gpus{"0000:17:00.0", "0000:99:00.0"};
  const auto facts = rail_facts(host.root(), gpus, read_ports(host.root(), {}));
  EXPECT_EQ(facts.at("rails").text, "GPU0 mlx5_1/1 PIX, GPU1 mlx5_0/1 PIX");
  EXPECT_EQ(facts.at("nics_far").number, 0);
  host.write("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN");
  const auto far = rail_facts(host.root(), gpus, read_ports(host.root(), {}));
  EXPECT_EQ(far.at("nics_far").number, 1);
  EXPECT_EQ(far.at("nics_far").text, "GPU1 mlx5_1/1 SYS") << "what is left is under the other processor";
  EXPECT_FALSE(rail_facts(host.root(), {}, read_ports(host.root(), {})).at("rails").text) << "no GPU, no rail";
}

TEST(GpudirectRdma, IsAlsoDmaBufOfTheOpenKernelModule) {
  const MadeUpHost host;
  host.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04");
  host.write("proc/sys/kernel/osrelease", "5.4.0-100-generic");
  EXPECT_EQ(gpudirect_rdma(host.root()).number, 0) << "Linux has dma-buf for RDMA from 5.12 on";
  host.write("proc/sys/kernel/osrelease", "6.8.0-45-generic");
  EXPECT_EQ(gpudirect_rdma(host.root()).number, 1);
  EXPECT_EQ(gpudirect_rdma(host.root()).text, "dma-buf: open kernel module, Linux 6.8.0-45-generic");
  host.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04");
  EXPECT_EQ(gpudirect_rdma(host.root()).number, 0);
}

TEST(GpudirectRdma, NeedsOneOfTwoModules) {
  const MadeUpHost host;
  EXPECT_EQ(gpudirect_rdma(host.root()).number, 0);
  host.write("sys/module/nvidia_peermem/version", "1");
  EXPECT_EQ(gpudirect_rdma(host.root()).number, 1);
  EXPECT_EQ(gpudirect_rdma(host.root()).text, "nvidia_peermem");
  EXPECT_FALSE(gpudirect_rdma("/nonexistent").number);
}

TEST(Topology, SaysHowFarPciFunctionsAreApart) {
  const MadeUpHost host;
  const std::string root_port = "pci0000:15/0000:15:01.0/";
  host.add_pci(root_port + "0000:16:00.0/0000:17:00.0/0000:18:00.0", "0x10de", "0x030200", 0);
  host.add_pci(root_port + "0000:16:00.0/0000:17:01.0/0000:19:00.0", "0x15b3", "0x020700", 0);
  host.add_pci(root_port + "0000:16:00.0/0000:17:02.0/0000:1a:00.0/0000:1b:00.0/0000:1c:00.0", "0x15b3", "0x020700", 0);
  host.add_pci("pci0000:15/0000:15:02.0/0000:20:00.0", "0x15b3", "0x020700", 0);
  host.add_pci("pci0000:30/0000:30:01.0/0000:31:00.0", "0x10de", "0x030200", 0);
  host.add_pci("pci0000:80/0000:80:01.0/0000:81:00.0", "0x10de", "0x030200", 1);
  const auto from = [&](const std::string& other) { return pci_distance(host.root(), "0000:18:00.0", other); };
  EXPECT_EQ(from("0000:18:00.0"), "X");
  EXPECT_EQ(from("0000:19:00.0"), "PIX");
  EXPECT_EQ(from("0000:1c:00.0"), "PXB");
  EXPECT_EQ(from("0000:20:00.0"), "PHB");
  EXPECT_EQ(from("0000:31:00.0"), "NODE");
  EXPECT_EQ(from("0000:81:00.0"), "SYS");
  EXPECT_EQ(from("0000:99:00.0"), std::nullopt);
  const auto topology = read_topology(
      host.root(), {{"GPU0", "0000:18:00.0", 18}, {"GPU1", "0000:81:00.0", 17}, {"mlx5_0", "0000:19:00.0", 0}});
  EXPECT_EQ(topology.links[0], (std::vector<std::string>{"X", "NV17", "PIX"}));
  EXPECT_EQ(topology.numa, (std::vector<std::string>{"0", "1", "0"}));
}

TEST(Binding, KnowsThatTwoThreadsAreOneCore) {
  const MadeUpHost host;
  add_cpu(host, 0, 0, 0, "0,8");
  add_cpu(host, 8, 0, 0, "0,8");
  EXPECT_EQ(cores_of(host.root(), "0,8"), std::set<int>{0});
  EXPECT_EQ(cores_of("/nonexistent", "0-2,8"), (std::set<int>{0, 1, 2, 8}));
}

TEST(Binding, OfThisProcessIsItsCoresAndTheNodeThatHasThemAll) {
  const MadeUpHost host;
  for (const int cpu : {0, 1, 8, 9}) add_cpu(host, cpu, 0, cpu % 8, cpu % 8 == 0 ? "0,8" : "1,9");
  host.write("sys/devices/system/node/node0/cpulist", "2-7");
  host.write("sys/devices/system/node/node10/cpulist", "0-1,8-9");
  host.write("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-1,8");
  const auto cpus = own_cpus(host.root());
  EXPECT_EQ(cpus.list, "0-1,8");
  EXPECT_EQ(cpus.cores, 2) << "0 and 8 are one";
  EXPECT_EQ(cpus.numa, 10);
  host.write("proc/self/status", "Cpus_allowed_list:\t1-2");
  EXPECT_EQ(own_cpus(host.root()).numa, std::nullopt) << "on two nodes";
  EXPECT_EQ(own_cpus("/nonexistent").cores, 1);
  EXPECT_FALSE(own_cpus().list.empty());
}

TEST(Binding, NamesTheRanksInOtherContainers) {
  const std::string host = "ipc:[1] pid:[2]", other = "ipc:[3] pid:[2]";
  EXPECT_EQ(ranks_apart({host, host}, 0).number, 0);
  EXPECT_FALSE(ranks_apart({host, host}, 0).text);
  const auto one = ranks_apart({host, host, other}, 0), two = ranks_apart({host, host, other}, 2);
  EXPECT_EQ(one.number, 1);
  EXPECT_EQ(one.text, "local rank 2 is in other containers (IPC or process namespaces)");
  EXPECT_EQ(two.number, 2);
  EXPECT_TRUE(two.text.value_or("").starts_with("local ranks 0, 1 "));
  EXPECT_EQ(ranks_apart({host, ""}, 0).number, 0) << "unknown is not apart";
  EXPECT_FALSE(ranks_apart({"", host}, 0).number);
}

TEST(Binding, ReadsItsNamespaces) {
  const MadeUpHost host;
  EXPECT_EQ(own_namespaces(host.root()), "");
  std::filesystem::create_directories(host.root() / "proc/self/ns");
  std::filesystem::create_symlink("ipc:[4026531839]", host.root() / "proc/self/ns/ipc");
  EXPECT_EQ(own_namespaces(host.root()), "") << "the other is unknown";
  std::filesystem::create_symlink("pid:[4026531836]", host.root() / "proc/self/ns/pid");
  EXPECT_EQ(own_namespaces(host.root()), "ipc:[4026531839] pid:[4026531836]");
  EXPECT_FALSE(own_namespaces().empty());
}

TEST(Binding, NamesTheCoreThatRanksShare) {
  const std::vector<std::set<int>> pinned(4, std::set<int>{0});
  EXPECT_EQ(ranks_per_core(pinned, 2).number, 4);
  EXPECT_EQ(ranks_per_core(pinned, 2).text, "4 ranks share core 0");
  const std::vector<std::set<int>> pairs{{0}, {0}, {1}, {2}};
  EXPECT_TRUE(ranks_per_core(pairs, 1).text.value_or("").starts_with("2 ranks "));
  EXPECT_EQ(ranks_per_core(pairs, 3).number, 1);
  EXPECT_FALSE(ranks_per_core(pairs, 3).text);
}

TEST(Binding, ToAllCoresSharesNothingAsLongAsThereAreEnough) {
  const std::set<int> all{0, 1, 2, 3};
  EXPECT_EQ(ranks_per_core(std::vector<std::set<int>>(4, all), 0).number, 1);
  EXPECT_LT(*ranks_per_core(std::vector<std::set<int>>(2, all), 0).number, 1);
  const auto crowd = ranks_per_core(std::vector<std::set<int>>(6, all), 0);
  EXPECT_DOUBLE_EQ(*crowd.number, 1.5);
  EXPECT_TRUE(crowd.text.value_or("").ends_with(" cores 0-3"));
  EXPECT_FALSE(ranks_per_core({{}}, 0).number) << "unknown cores";
}

}  // namespace
}  // namespace shakedown::host_facts_test
