#include "node/port_roles.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "node/inventory.hpp"
#include "node/ports.hpp"
#include "tests/node/made_up_host.hpp"
#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"

namespace shakedown {
namespace {

/// A port as one line of a test. `bus`: the two digits of its PCI bus; below the switch of the GPU there if `near`.
struct MadeUpPort {
  std::string device, layer, rate, state = "ACTIVE";
  int bus = 0, function = 0;
  bool near = false;
};

class PortRoles : public ::testing::Test {
 protected:
  /// GPU g is on bus 0x10 + g, below a switch of its own.
  void add_gpus(int count) {
    for (int g = 0; g < count; ++g) host_.add_pci(switch_at(0x10 + g) + address(0x10 + g, 0), "0x10de", "0x030200");
  }

  void add(const MadeUpPort& port) {
    host_.add_port(port.device, port.state, port.layer);
    const auto folder = "sys/class/infiniband/" + port.device;
    host_.write(folder + "/ports/1/rate", port.rate + " Gb/sec");
    host_.write(folder + "/ports/1/counters/link_downed", "0");
    const auto path = port.near ? switch_at(port.bus) + address(port.bus, 8 + port.function)
                                : fmt::format("pci0000:{:02x}/", port.bus) + address(port.bus, port.function);
    host_.add_pci(path, "0x15b3", "0x020700");
    std::filesystem::create_directory_symlink(host_.root() / "sys/devices" / path, host_.root() / folder / "device");
  }

  /// Adds equal ports on consecutive buses.
  void add(int count, MadeUpPort port) {
    const auto stem = port.device;
    for (int i = 0; i < count; ++i, ++port.bus) {
      port.device = stem + std::to_string(i);
      add(port);
    }
  }

  void add_interface(const std::string& device, const std::string& interface) {
    host_.write("sys/class/infiniband/" + device + "/device/net/" + interface + "/mtu", "9000");
  }
  /// Gives a RoCE port an address and an interface with large frames.
  void add_address(const std::string& device, int number) {
    const auto port = "sys/class/infiniband/" + device + "/ports/1/", interface = fmt::format("rdma{}", number);
    host_.write(port + "gid_attrs/types/3", "RoCE v2");
    host_.write(port + "gids/3", fmt::format("0000:0000:0000:0000:0000:ffff:0a00:{:04x}", number + 1));
    host_.write(port + "gid_attrs/ndevs/3", interface);
    host_.write("sys/class/net/" + interface + "/mtu", "9000");
  }
  void route_by(const std::string& interface) {
    host_.write("proc/net/route", "Iface Destination Gateway\nlo 0000007F 0\n" + interface + " 00000000 0101A8C0");
  }

  std::vector<Port> ports() const {
    return read_ports(host_.root(), read_pci_bus(host_.root() / "sys").value().gpus, named_).value();
  }
  std::map<std::string, int> counted() const {
    std::map<std::string, int> count;
    for (const auto& port : ports()) ++count[std::string(name(port.role))];
    return count;
  }
  std::string role(const std::string& device) const {
    for (const auto& port : ports()) {
      if (port.device == device) return std::string(name(port.role));
    }
    return "no such port";
  }
  Facts facts() const { return network_facts(ports()); }
  /// Judges a run on two healthy GPUs of a host with these ports. Returns the warnings and failures about them.
  std::vector<std::string> complaints(const std::string& gpu) const {
    testing_support::ResultsBuilder run(2, 1, gpu);
    ByRank numbers;
    TextByRank texts;
    for (const auto& [fact, value] : facts()) {
      if (value.number) numbers[fact] = {value.number, std::nullopt};
      if (value.text) texts[fact] = {value.text, std::nullopt};
    }
    run.add_facts("preflight/of:host", numbers, texts);
    JudgeOptions options;
    options.families = {{"preflight"}};
    const auto verdict = judge({run.results("preflight.json")}, testing_support::shipped_profiles(), options);
    std::vector<std::string> found;
    for (const auto& finding : verdict.findings) {
      const bool is_known = numbers.contains(finding.metric) || texts.contains(finding.metric);
      if (is_known && !finding.good()) found.push_back(finding.metric);
    }
    return found;
  }
  void expect_no_complaint(const std::string& gpu = "NVIDIA H200") const {
    EXPECT_EQ(complaints(gpu), std::vector<std::string>()) << gpu;
  }

  MadeUpHost host_;
  std::vector<std::string> named_;  // rails of a site file

 private:
  static std::string switch_at(int bus) { return fmt::format("pci0000:{0:02x}/0000:{0:02x}:1e.0/", bus); }
  static std::string address(int bus, int function) {
    return fmt::format("0000:{:02x}:{:02x}.{}", bus, function / 8, function % 8);
  }
};

using Roles = std::map<std::string, int>;

TEST_F(PortRoles, OfADgxH100LeaveStorageOutThatHasTheRateOfTheRails) {
  add_gpus(8);
  add(8, {.device = "mlx5_", .layer = "InfiniBand", .rate = "400", .bus = 0x10, .near = true});
  for (const int slot : {0, 1}) {
    add({.device = fmt::format("storage_{}", slot), .layer = "InfiniBand", .rate = "400", .bus = 0x40 + slot});
    add({.device = fmt::format("second_{}", slot),
         .layer = "Ethernet",
         .rate = "10",
         .state = "DOWN",
         .bus = 0x40 + slot,
         .function = 1});
  }
  EXPECT_EQ(counted(), (Roles{{"rail", 8}, {"other network", 2}, {"unused port", 2}}));
  EXPECT_EQ(facts().at("nics").number, 8);
  expect_no_complaint("NVIDIA H100 80GB HBM3");
}

TEST_F(PortRoles, OfAnHgxB200LeaveTheBridgesOfItsSwitchesOut) {
  add_gpus(8);
  add(8, {.device = "mlx5_", .layer = "InfiniBand", .rate = "400", .bus = 0x10, .near = true});
  add(4, {.device = "bridge_", .layer = "InfiniBand", .rate = "400", .state = "INIT", .bus = 0x60});
  for (int i = 0; i < 4; ++i) {
    host_.write(fmt::format("sys/class/infiniband/bridge_{}/device/vpd", i), "\x82 ConnectX-7 V3 SMDL=SW_MNG");
  }
  EXPECT_EQ(counted(), (Roles{{"rail", 8}, {"switch bridge", 4}}));
  expect_no_complaint("NVIDIA B200");
}

TEST_F(PortRoles, OfAnOracleCloudNodeLeaveTheFrontEndAndItsSecondPortOut) {
  add_gpus(8);
  add(16, {.device = "rdma_", .layer = "Ethernet", .rate = "200", .bus = 0x20});
  for (int i = 0; i < 16; ++i) add_address("rdma_" + std::to_string(i), i);
  add({.device = "mlx5_2", .layer = "Ethernet", .rate = "100", .bus = 0x50});
  add({.device = "mlx5_3", .layer = "Ethernet", .rate = "100", .state = "DOWN", .bus = 0x50, .function = 1});
  add_interface("mlx5_2", "eth0");
  route_by("eth0");
  EXPECT_EQ(counted(), (Roles{{"rail", 16}, {"front end", 1}, {"unused port", 1}}));
  EXPECT_EQ(facts().at("roce_ports_down").number, 0);
  expect_no_complaint("NVIDIA H100 80GB HBM3");
}

TEST_F(PortRoles, OfAGoogleCloudNodeAreTheAdaptersWithoutADefaultRoute) {
  add_gpus(8);  // eight functions of ConnectX-7; the front end is gVNIC, which has no RDMA
  add(8, {.device = "mlx5_", .layer = "Ethernet", .rate = "400", .bus = 0x10, .near = true});
  for (int i = 0; i < 8; ++i) add_address("mlx5_" + std::to_string(i), i);
  host_.write("sys/class/net/eth0/mtu", "8244");
  route_by("eth0");
  EXPECT_EQ(counted(), (Roles{{"rail", 8}}));
  EXPECT_EQ(facts().at("roce_rate_gbit").number, 400);
  expect_no_complaint();
}

TEST_F(PortRoles, OfAHostWithoutRdmaAreNone) {
  add_gpus(8);  // as a3-highgpu-8g, whose GPUs send over TCP
  EXPECT_TRUE(ports().empty());
  expect_no_complaint("NVIDIA H100 80GB HBM3");
}

TEST_F(PortRoles, OfAnAzureGuestLeaveAcceleratedNetworkingOut) {
  add_gpus(8);  // a guest sees no switches between GPUs and NICs
  add(8, {.device = "mlx5_ib", .layer = "InfiniBand", .rate = "400", .bus = 0x30});
  add({.device = "mlx5_an0", .layer = "Ethernet", .rate = "100", .bus = 0x50});
  add_interface("mlx5_an0", "enP1s1");
  std::filesystem::create_directories(host_.root() / "sys/class/net/eth0/lower_enP1s1");
  route_by("eth0");
  EXPECT_EQ(counted(), (Roles{{"rail", 8}, {"front end", 1}}));
  EXPECT_EQ(facts().at("ib_rate_gbit").number, 400);
  expect_no_complaint("NVIDIA H100 80GB HBM3");
}

TEST_F(PortRoles, OfAwsEfaAreRailsThatNeedNoAddressOfRoce) {
  add_gpus(8);
  add(32, {.device = "rdmap", .layer = "Unknown", .rate = "100", .bus = 0x20});
  EXPECT_EQ(counted(), (Roles{{"rail", 32}}));
  EXPECT_EQ(facts().at("nics").number, 32);
  EXPECT_EQ(facts().at("roce_ports").number, 0);
  EXPECT_EQ(facts().at("efa_ports").number, 32);
  EXPECT_EQ(facts().at("efa_rate_gbit").number, 100);
  expect_no_complaint();
}

TEST_F(PortRoles, OfAGb200TrayLeaveBluefieldOnEthernetOut) {
  add_gpus(4);
  add(4, {.device = "mlx5_", .layer = "InfiniBand", .rate = "400", .bus = 0x20});
  add(2, {.device = "bluefield_", .layer = "Ethernet", .rate = "200", .bus = 0x40});
  EXPECT_EQ(counted(), (Roles{{"rail", 4}, {"other network", 2}}));
  expect_no_complaint("NVIDIA GB200");
}

TEST_F(PortRoles, OfAPciExpressBoxWithOneNicIsARail) {
  add_gpus(4);
  add({.device = "mlx5_0", .layer = "InfiniBand", .rate = "200", .bus = 0x40});
  EXPECT_EQ(counted(), (Roles{{"rail", 1}}));
  EXPECT_EQ(facts().at("rail_ports").text, "1 rail of 200 Gb/s: mlx5_0/1");
  expect_no_complaint("NVIDIA L40S");
}

TEST_F(PortRoles, OfVirtualFunctionsAreNoRails) {
  add_gpus(2);
  add(2, {.device = "mlx5_", .layer = "InfiniBand", .rate = "400", .bus = 0x20});
  add({.device = "mlx5_vf", .layer = "InfiniBand", .rate = "400", .state = "DOWN", .bus = 0x20, .function = 2});
  host_.write("sys/class/infiniband/mlx5_vf/device/physfn/vendor", "0x15b3");
  EXPECT_EQ(role("mlx5_vf"), "virtual function");
  expect_no_complaint();
}

// Faults that must not be explained away.

TEST_F(PortRoles, KeepARailThatIsDownOrTrainedDown) {
  add_gpus(8);
  add(6, {.device = "mlx5_", .layer = "InfiniBand", .rate = "400", .bus = 0x20});
  add({.device = "slow", .layer = "InfiniBand", .rate = "200", .bus = 0x30});
  add({.device = "down", .layer = "InfiniBand", .rate = "10", .state = "DOWN", .bus = 0x31});
  EXPECT_EQ(counted(), (Roles{{"rail", 8}}));
  EXPECT_EQ(facts().at("nics").number, 7);
  EXPECT_EQ(facts().at("ib_ports_down").text, "down/1 is DOWN (Disabled)");
  EXPECT_EQ(facts().at("ports_slow").text, "slow/1 has 200 Gb/s, others 400");
  EXPECT_EQ(complaints("NVIDIA H200"), (std::vector<std::string>{"ib_ports_down", "ports_slow"}));
}

TEST_F(PortRoles, KeepHalfOfTheRailsIfTheirLeafSwitchIsLost) {
  add_gpus(8);
  add(4, {.device = "mlx5_", .layer = "InfiniBand", .rate = "400", .bus = 0x20});
  add(4, {.device = "lost_", .layer = "InfiniBand", .rate = "10", .state = "DOWN", .bus = 0x30});
  EXPECT_EQ(facts().at("ib_ports_down").number, 4);
}

TEST_F(PortRoles, KeepAllRailsIfAllAreDownNextToStorageThatIsUp) {
  add_gpus(8);
  add(8, {.device = "mlx5_", .layer = "InfiniBand", .rate = "10", .state = "DOWN", .bus = 0x20});
  add({.device = "storage", .layer = "Ethernet", .rate = "200", .bus = 0x40});
  EXPECT_EQ(role("storage"), "other network");
  EXPECT_EQ(facts().at("ib_ports_down").number, 8);
}

TEST_F(PortRoles, KeepAPortThatIsDownIfAnotherNicHasBothConnected) {
  add_gpus(4);
  for (const int function : {0, 1}) {
    for (const int nic : {0, 1}) {
      const bool is_down = nic == 1 && function == 1;
      add({.device = fmt::format("mlx5_{}", 2 * nic + function),
           .layer = "InfiniBand",
           .rate = is_down ? "10" : "400",
           .state = is_down ? "DOWN" : "ACTIVE",
           .bus = 0x20 + nic,
           .function = function});
    }
  }
  EXPECT_EQ(role("mlx5_3"), "rail");
  EXPECT_EQ(facts().at("ib_ports_down").number, 1);
}

TEST_F(PortRoles, KeepARailOfADgxWithOneNicMissingOnItsBus) {
  add_gpus(8);
  add(7, {.device = "mlx5_", .layer = "InfiniBand", .rate = "400", .bus = 0x10, .near = true});
  add(2, {.device = "storage_", .layer = "InfiniBand", .rate = "400", .bus = 0x40});
  EXPECT_EQ(facts().at("nics").number, 7) << "storage does not replace the NIC that is missing";
}

TEST_F(PortRoles, AreThoseOfTheSiteFileIfItNamesRails) {
  add_gpus(8);
  add(8, {.device = "mlx5_", .layer = "InfiniBand", .rate = "400", .bus = 0x10, .near = true});
  add(2, {.device = "roce_", .layer = "Ethernet", .rate = "200", .bus = 0x40});
  EXPECT_EQ(facts().at("nics").number, 8);
  named_ = {"mlx5_0/1", "roce_0/1", "roce_9/1"};
  EXPECT_EQ(role("roce_0"), "rail");
  EXPECT_EQ(role("mlx5_7"), "other network");
  EXPECT_EQ(facts().at("nics").number, 2);
  EXPECT_EQ(facts().at("rail_names").text, "mlx5_0/1, roce_0/1") << "there is no roce_9";
}

TEST_F(PortRoles, CountErrorsByPortBetweenTwoReadings) {
  add(2, {.device = "mlx5_", .layer = "InfiniBand", .rate = "400", .bus = 0x20});
  const auto counter = [&](const std::string& port) {
    return "sys/class/infiniband/" + port + "/ports/1/counters/symbol_error";
  };
  const std::vector<std::string> rails{"mlx5_0/1", "mlx5_1/1"};
  host_.write(counter("mlx5_1"), "40");
  const auto before = port_errors(host_.root(), rails);
  host_.write(counter("mlx5_0"), "7");
  host_.write(counter("mlx5_1"), "50");
  const PortErrors expected{{"mlx5_1/1", {{"symbol_errors", 10}}}};
  EXPECT_EQ(grown(before, port_errors(host_.root(), rails)), expected) << "one of them could not be read before";
  EXPECT_EQ(grown(before, port_errors(host_.root(), {"mlx5_0/1"})), PortErrors{}) << "others are left out";
}

TEST_F(PortRoles, NameErrorsByPort) {
  add(2, {.device = "mlx5_", .layer = "InfiniBand", .rate = "400", .bus = 0x20});
  host_.write("sys/class/infiniband/mlx5_1/ports/1/counters/symbol_error", "183422");
  host_.write("sys/class/infiniband/mlx5_1/ports/1/counters/link_error_recovery", "255");
  EXPECT_EQ(facts().at("ports_with_errors").number, 1);
  EXPECT_EQ(facts().at("ports_with_errors").text, "mlx5_1/1: 255 link recoveries, 183422 symbol errors");
}

}  // namespace
}  // namespace shakedown
