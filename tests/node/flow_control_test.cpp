// Priority flow control and trust mode of RoCE ports, as dcb prints them.
#include "node/flow_control.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/node/made_up_host.hpp"

namespace shakedown::flow_control_test {
namespace {

constexpr const char* third_is_lossless = R"({"prio_pfc":[false,false,false,true,false,false,false,false]})";
constexpr const char* none_is_lossless = R"({"prio_pfc":[false,false,false,false,false,false,false,false]})";

TEST(FlowControl, NamesLosslessPrioritiesAndPortsWithoutOne) {
  auto facts = flow_control_facts({{"mlx5_0/1", {third_is_lossless}}, {"mlx5_1/1", {third_is_lossless}}});
  EXPECT_EQ(facts["roce_pfc"].text, "3");
  EXPECT_EQ(facts["roce_without_pfc"].number, 0);
  facts = flow_control_facts({{"mlx5_0/1", {third_is_lossless}}, {"mlx5_1/1", {none_is_lossless}}});
  EXPECT_EQ(facts["roce_pfc"].text, "3 (mlx5_0/1); none (mlx5_1/1)");
  EXPECT_EQ(facts["roce_without_pfc"].number, 1);
  EXPECT_EQ(facts["roce_without_pfc"].text, "mlx5_1/1");
}

TEST(FlowControl, IsUnknownWhereNoPortTells) {
  for (const char* const text : {"", "Attribute read: Operation not supported", "[]", "{}", R"({"prio_pfc": 3})"}) {
    const auto facts = flow_control_facts({{"mlx5_0/1", {text, text[0] == '{' ? "" : text, true}}});
    EXPECT_FALSE(facts.at("roce_without_pfc").number) << text;
    EXPECT_FALSE(facts.at("roce_without_dscp").number) << text;
    EXPECT_FALSE(facts.at("roce_pfc").text) << text;
  }
  EXPECT_FALSE(flow_control_facts({}).at("roce_without_pfc").number);
}

TEST(FlowControl, NamesPortsThatDoNotTrustDscp) {
  const std::string third = R"({"dscp_prio":[[24,3],[26,3]]})", none = "{ }";
  auto facts = flow_control_facts({{"mlx5_0/1", {"", third, true}}, {"mlx5_1/1", {"", none, true}}});
  EXPECT_EQ(facts["roce_without_dscp"].number, 1);
  EXPECT_EQ(facts["roce_without_dscp"].text, "mlx5_1/1");
  EXPECT_EQ(flow_control_facts({{"mlx5_0/1", {"", third, true}}}).at("roce_without_dscp").number, 0);
  EXPECT_EQ(flow_control_facts({{"bnxt_re0/1", {"", third, false}}}).at("roce_without_dscp").number, 0);
  EXPECT_FALSE(flow_control_facts({{"bnxt_re0/1", {"", none, false}}}).at("roce_without_dscp").number)
      << "the table of another driver does not tell it";
  EXPECT_FALSE(flow_control_facts({{"mlx5_0/1", {"", R"({"dscp_prio":3})", true}}}).at("roce_without_dscp").number);
}

TEST(FlowControl, OfAPortIsWhatDcbTellsOfItsInterface) {
  const MadeUpHost host;
  host.write("bin/dcb", "#!/bin/sh\n[ \"$6\" = dscp-prio ] && echo '{}' || echo '{\"prio_pfc\":[false,true]}'");
  std::filesystem::permissions(host.root() / "bin/dcb", std::filesystem::perms::owner_all);
  host.write("sys/class/net/eth0/device/uevent", "DRIVER=mlx5_core\nPCI_SLOT_NAME=0000:17:00.0");
  host.write("sys/class/net/eth1/device/uevent", "DRIVER=bnxt_en");
  const std::string path = std::getenv("PATH");
  setenv("PATH", ((host.root() / "bin").string() + ":" + path).c_str(), 1);
  const auto port = [](const char* name, const char* netdev) {
    return Facts{{"port", text_fact(name)}, {"link_layer", text_fact("Ethernet")}, {"netdev", text_fact(netdev)}};
  };
  const auto tables = read_flow_control(host.root(), {port("mlx5_0/1", "eth0"), port("bnxt_re0/1", "eth1")},
                                        {"mlx5_0/1", "bnxt_re0/1"});
  setenv("PATH", path.c_str(), 1);
  const auto facts = flow_control_facts(tables);
  EXPECT_EQ(facts.at("roce_pfc").text, "1");
  EXPECT_EQ(facts.at("roce_without_dscp").text, "mlx5_0/1");
  EXPECT_EQ(facts.at("roce_without_dscp").number, 1);
}

TEST(FlowControl, IsAskedOfEthernetRailsOnly) {
  const auto port = [](const char* name, const char* layer, const char* netdev) {
    return Facts{{"port", text_fact(name)}, {"link_layer", text_fact(layer)}, {"netdev", text_fact(netdev)}};
  };
  const auto settings = read_flow_control("/",
                                          {port("mlx5_0/1", "Ethernet", "no-such-if"),
                                           port("mlx5_1/1", "InfiniBand", "ib0"), port("mlx5_2/1", "Ethernet", "eth9")},
                                          {"mlx5_0/1", "mlx5_1/1"});
  ASSERT_EQ(settings.size(), 1u);
  EXPECT_EQ(settings.at("mlx5_0/1").pfc, "") << "there is no such interface";
}

}  // namespace
}  // namespace shakedown::flow_control_test
