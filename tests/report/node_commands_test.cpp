// Tests the scheduler commands after a verdict.
#include "report/node_commands.hpp"

#include <gtest/gtest.h>

namespace shakedown::node_commands_test {
namespace {

NodeDecision node(const std::string& host, NodeState state, const std::string& reason = "") {
  return {host, 8, state, Action::isolate, reason.empty() ? std::vector<std::string>{} : std::vector{reason}, ""};
}

const NodeList list{State::fail,
                    {node("node-a1", NodeState::good), node("node-a2", NodeState::good),
                     node("node-a3", NodeState::bad, "slow NIC"), node("node-a7", NodeState::bad, "slow NIC"),
                     node("node-b1", NodeState::bad, "rank 4's GPU"), node("node-b2", NodeState::undecided)},
                    {}};

TEST(NodeCommands, OfSlurmDrainBadNodesByReasonAndReturnOnlyWhatWeDrained) {
  EXPECT_EQ(scontrol_commands(list),
            "# undecided, left as it is: node-b2\n"
            "scontrol update nodename=node-b1 state=drain reason='shakedown: rank 4'\\''s GPU'\n"
            "scontrol update nodename=node-a[3,7] state=drain reason='shakedown: slow NIC'\n"
            "sinfo -h -N -n 'node-a[1-2]' -o '%N %E' | awk '$2 == \"shakedown:\" {print $1}' | sort -u | "
            "xargs -r -I{} scontrol update nodename={} state=undrain\n");
}

TEST(NodeCommands, OfKubernetesCordonBadNodesAndReturnOnlyWhatWeCordoned) {
  const std::string commands = kubectl_commands(list);
  EXPECT_NE(commands.find("kubectl cordon node-a3 node-a7 && "), std::string::npos);
  EXPECT_NE(commands.find("shakedown/reason='shakedown: slow NIC'"), std::string::npos);
  EXPECT_NE(commands.find("jsonpath='{.metadata.labels.shakedown}')\" != bad ] || { kubectl uncordon node-a1 "),
            std::string::npos);
  EXPECT_EQ(commands.find("kubectl cordon node-a1"), std::string::npos);
  EXPECT_EQ(commands.find("kubectl uncordon node-b2"), std::string::npos) << "undecided";
}

TEST(NodeCommands, LetNoNameOrReasonReachTheShell) {
  const NodeList hostile{
      State::fail,
      {node("a;reboot", NodeState::bad, "x"), node("$(reboot)", NodeState::good), node("-a", NodeState::bad),
       node("b", NodeState::bad, "'; reboot; '\nx y" + std::string(500, 'x'))},
      {}};
  for (const std::string& commands : {scontrol_commands(hostile), kubectl_commands(hostile)}) {
    EXPECT_EQ(commands.rfind("# not a host name, drain it by hand: a;reboot\n# not a host name, return it", 0), 0u)
        << commands;
    EXPECT_NE(commands.find("'shakedown: '\\''; reboot; '\\'' x...'"), std::string::npos) << commands;
    EXPECT_EQ(commands.find(std::string(200, 'x')), std::string::npos);
  }
}

TEST(NodeCommands, OfSlurmAreLeftToHandsWhereTheFirstLabelIsNotTheNameOfOneNode) {
  const NodeList unclear{
      State::fail,
      {node("n1.a", NodeState::bad, "x"), node("n1.b", NodeState::good), node("10.0.0.1", NodeState::bad, "x"),
       node("ALL", NodeState::bad, "x"), node("All.a", NodeState::bad, "x"), node(".x", NodeState::bad, "x"),
       node("n2.a", NodeState::bad, "x"), node("n3.a", NodeState::undecided), node("n3", NodeState::bad, "x")},
      {}};
  const std::string unnamed = "# not the name of one node, ";
  const auto drain = [&](const std::string& host) { return unnamed + "drain it by hand: " + host + "\n"; };
  EXPECT_EQ(scontrol_commands(unclear), drain("n1.a") + unnamed + "return it by hand: n1.b\n" + drain("10.0.0.1") +
                                            drain("ALL") + drain("All.a") + drain(".x") +
                                            "# undecided, left as it is: n3.a\n" + drain("n3") +
                                            "scontrol update nodename=n2 state=drain reason='shakedown: x'\n");
  EXPECT_NE(kubectl_commands(unclear).find("kubectl cordon n1.a 10.0.0.1 "), std::string::npos) << "by whole names";
}

}  // namespace
}  // namespace shakedown::node_commands_test
