#include "report/node_commands.hpp"

#include <map>
#include <vector>

#include "base/host_list.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"

namespace shakedown {
namespace {

// Returns the reason as one line in single quotes, short enough for sinfo -R and for an annotation.
std::string quoted_reason(const NodeDecision& node) {
  constexpr std::size_t max_reason_bytes = 160;
  const std::string reason =
      "shakedown: " + (node.reasons.empty() ? std::string("failed") : one_line(node.reasons.front()));
  return shell_word(shortened(printable(reason), max_reason_bytes));
}

struct Nodes {
  std::map<std::string, std::vector<std::string>> bad;  // hosts by quoted reason
  std::vector<std::string> good;
  std::string comments;
};

std::string first_label(const std::string& host) { return host.substr(0, host.find('.')); }

// False for labels that Slurm misreads: it reads ALL as every node, and a number as the start of an IP address.
bool can_be_name(const std::string& label) {
  return label.find_first_not_of("0123456789") != std::string::npos && lower(label) != "all";
}

Nodes sorted_out(const NodeList& list, bool by_first_label) {
  std::map<std::string, int> labels;
  for (const NodeDecision& node : list.nodes) ++labels[first_label(node.host)];
  Nodes nodes;
  for (const NodeDecision& node : list.nodes) {
    if (node.state == NodeState::undecided) {
      nodes.comments += "# undecided, left as it is: " + one_line(node.host) + "\n";
      continue;
    }
    const std::string host = by_first_label ? first_label(node.host) : node.host;
    if (!is_host_name(node.host) || (by_first_label && (!can_be_name(host) || labels[host] > 1))) {
      nodes.comments += std::string("# not ") + (is_host_name(node.host) ? "the name of one node" : "a host name") +
                        (node.state == NodeState::bad ? ", drain" : ", return") +
                        " it by hand: " + one_line(node.host) + "\n";
      continue;
    }
    (node.state == NodeState::bad ? nodes.bad[quoted_reason(node)] : nodes.good).push_back(host);
  }
  return nodes;
}

}  // namespace

std::string scontrol_commands(const NodeList& list) {
  const Nodes nodes = sorted_out(list, true);
  std::string out = nodes.comments;
  for (const auto& [reason, hosts] : nodes.bad) {
    out += "scontrol update nodename=" + host_ranges(hosts) + " state=drain reason=" + reason + "\n";
  }
  if (!nodes.good.empty()) {
    out += "sinfo -h -N -n '" + host_ranges(nodes.good) +
           "' -o '%N %E' | awk '$2 == \"shakedown:\" {print $1}' | sort -u | "
           "xargs -r -I{} scontrol update nodename={} state=undrain\n";
  }
  return out;
}

std::string kubectl_commands(const NodeList& list) {
  const Nodes nodes = sorted_out(list, false);
  std::string out = nodes.comments;
  for (const auto& [reason, hosts] : nodes.bad) {
    const std::string names = joined(hosts, " ");
    out += "kubectl cordon " + names + " && kubectl label --overwrite node " + names +
           " shakedown=bad && kubectl annotate --overwrite node " + names + " shakedown/reason=" + reason + "\n";
  }
  for (const std::string& host : nodes.good) {
    out += "[ \"$(kubectl get node " + host +
           " -o jsonpath='{.metadata.labels.shakedown}')\" != bad ] || { kubectl uncordon " + host +
           " && kubectl label node " + host + " shakedown- && kubectl annotate node " + host +
           " shakedown/reason-; }\n";
  }
  return out;
}

}  // namespace shakedown
