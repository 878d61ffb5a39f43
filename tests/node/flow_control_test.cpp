// Priority flow control of RoCE ports, as dcb prints it.
#include "node/flow_control.hpp"

#include <gtest/gtest.h>

namespace shakedown::flow_control_test {
namespace {

constexpr const char* third_is_lossless = R"({"prio_pfc":[false,false,false,true,false,false,false,false]})";
constexpr const char* none_is_lossless = R"({"prio_pfc":[false,false,false,false,false,false,false,false]})";

TEST(FlowControl, NamesLosslessPrioritiesAndPortsWithoutOne) {
  auto facts = flow_control_facts({{"mlx5_0/1", third_is_lossless}, {"mlx5_1/1", third_is_lossless}});
  EXPECT_EQ(facts["roce_pfc"].text, "3");
  EXPECT_EQ(facts["roce_without_pfc"].number, 0);
  facts = flow_control_facts({{"mlx5_0/1", third_is_lossless}, {"mlx5_1/1", none_is_lossless}});
  EXPECT_EQ(facts["roce_pfc"].text, "3 (mlx5_0/1); none (mlx5_1/1)");
  EXPECT_EQ(facts["roce_without_pfc"].number, 1);
  EXPECT_EQ(facts["roce_without_pfc"].text, "mlx5_1/1");
}

TEST(FlowControl, IsUnknownWhereNoPortTells) {
  for (const char* const text : {"", "Attribute read: Operation not supported", "[]", "{}", R"({"prio_pfc": 3})"}) {
    const auto facts = flow_control_facts({{"mlx5_0/1", text}});
    EXPECT_FALSE(facts.at("roce_without_pfc").number) << text;
    EXPECT_FALSE(facts.at("roce_pfc").text) << text;
  }
  EXPECT_FALSE(flow_control_facts({}).at("roce_without_pfc").number);
}

TEST(FlowControl, IsAskedOfEthernetRailsOnly) {
  const auto port = [](const char* name, const char* layer, const char* netdev) {
    return Facts{{"port", text_fact(name)}, {"link_layer", text_fact(layer)}, {"netdev", text_fact(netdev)}};
  };
  const auto settings = read_flow_control({port("mlx5_0/1", "Ethernet", "no-such-if"),
                                           port("mlx5_1/1", "InfiniBand", "ib0"), port("mlx5_2/1", "Ethernet", "eth9")},
                                          {"mlx5_0/1", "mlx5_1/1"});
  ASSERT_EQ(settings.size(), 1u);
  EXPECT_EQ(settings.at("mlx5_0/1"), "") << "there is no such interface";
}

}  // namespace
}  // namespace shakedown::flow_control_test
