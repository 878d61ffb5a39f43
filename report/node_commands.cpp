#include "report/node_commands.hpp"

#include <map>
#include <vector>

#include "base/host_list.hpp"
#include "base/text.hpp"

namespace shakedown {
namespace {

// A host's name goes into a shell: RFC 1123 and the underscore, nothing else.
bool is_safe(const std::string& host) {
  return !host.empty() && host.front() != '-' &&
         host.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyz"
             "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
             "0123456789.-_") == std::string::npos;
}

// One line in single quotes, short enough for sinfo -R and for an annotation that people read.
std::string quoted_reason(const NodeDecision& node) {
  constexpr std::size_t most = 160;
  std::string reason = "shakedown: " + (node.reasons.empty() ? std::string("failed") : one_line(node.reasons.front()));
  if (reason.size() > most) reason = reason.substr(0, most - 3) + "...";
  std::string quoted = "'";
  for (const char c : printable(reason)) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

struct Nodes {
  std::map<std::string, std::vector<std::string>> bad;  // hosts by quoted reason
  std::vector<std::string> good;
  std::string comments;
};

Nodes sorted_out(const NodeList& list, bool first_label) {
  Nodes nodes;
  for (const NodeDecision& node : list.nodes) {
    if (node.state == NodeState::undecided) {
      nodes.comments += "# undecided, left as it is: " + one_line(node.host) + "\n";
      continue;
    }
    if (!is_safe(node.host)) {
      nodes.comments += "# not a host name, do it by hand: " + one_line(node.host) + "\n";
      continue;
    }
    const std::string host = first_label ? node.host.substr(0, node.host.find('.')) : node.host;
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
