#include "thresholds/rules/transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/text.hpp"

namespace shakedown {
namespace {

// Returns those of these settings that were recorded and have an effect: "NCCL_P2P_DISABLE=1", "/etc/nccl.conf:
// NCCL_P2P_LEVEL=LOC".
std::string settings_of(const Context& context, std::initializer_list<std::string_view> blamed) {
  std::vector<std::string> found;
  for (const auto& [name, value] : context.environment) {
    const bool is_one =
        std::any_of(blamed.begin(), blamed.end(), [&name = name](auto one) { return name.ends_with(one); });
    if (is_one && !(name.ends_with("_DISABLE") && value == "0")) found.push_back(name + "=" + value);
  }
  return joined(found);
}

// Returns the links inside a host that do not use P2P.
std::vector<NcclLink> fallbacks(const Context& context) {
  const auto host = [&](int rank) { return context.ranks[static_cast<std::size_t>(rank)].host; };
  std::vector<NcclLink> found;
  for (const NcclLink& link : context.nccl.links) {
    if (link.kind() != "P2P" && host(link.src) == host(link.dst)) found.push_back(link);
  }
  return found;
}

// Returns "0 to 1 by SHM/direct/direct, 1 to 0 by SHM/direct/direct and 3 more". If all recorded links are of one kind,
// links that were not recorded are of the same kind.
std::string text(const std::vector<NcclLink>& links, const NcclFacts& nccl) {
  std::vector<std::string> words;
  for (const NcclLink& link : links) {
    if (words.size() == max_offenders) break;
    words.push_back(std::to_string(link.src) + " to " + std::to_string(link.dst) + " by " + link.via);
  }
  const auto left_out = links.size() == nccl.links.size() ? static_cast<std::size_t>(nccl.links_left_out) : 0;
  const auto more = links.size() - words.size() + left_out;
  return joined(words, ",") + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

// Returns the ranks at which these links begin.
std::vector<Culprit> beginnings(const std::vector<NcclLink>& links, const Context& context) {
  std::set<int> ranks;
  for (const NcclLink& link : links) ranks.insert(link.src);
  std::vector<Culprit> culprits;
  for (const int rank : ranks) culprits.push_back(culprit(context.ranks[static_cast<std::size_t>(rank)]));
  return culprits;
}

// Returns the hosts of the run that have an active port, with the number of its ports: "node0 (8)".
std::vector<std::string> hosts_with_ports(const Measured& measured) {
  const auto facts = measured.benchmarks.find("preflight/of:host");
  std::vector<std::string> hosts;
  if (facts == measured.benchmarks.end()) return hosts;
  const auto of = [&](const char* name) { return rank_values(facts->second, name); };
  const auto ib = of("ib_ports"), ib_down = of("ib_ports_down"), roce = of("roce_ports"),
             roce_down = of("roce_ports_down");
  const auto at = [](const auto& values, std::size_t rank) {
    return rank < values.size() ? values[rank].value_or(0) : 0;
  };
  for (const RankFacts& rank : facts->second.context->ranks) {
    const auto i = static_cast<std::size_t>(rank.rank);
    const double up = at(ib, i) - at(ib_down, i) + at(roce, i) - at(roce_down, i);
    if (up > 0) hosts.push_back(fmt::format("{} ({:.0f})", rank.host, std::trunc(up)));
  }
  return hosts;
}

}  // namespace

std::optional<Finding> judge_transport(const std::vector<Results>& files, const Profile& profile) {
  if (profile.peak.count("nvlink_gb_per_s") == 0) return std::nullopt;
  std::optional<Finding> finding;
  for (const Results& file : files) {
    const auto& transport = file.context.nccl.transport;
    if (!transport) continue;
    classify(finding.emplace(), Code::nccl_transport);
    finding->key = machine_key(Code::nccl_transport);
    finding->detail = "P2P";
    if (*transport == "P2P") continue;
    const auto links = fallbacks(file.context);
    const auto settings =
        settings_of(file.context, {"NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_HOSTID", "NCCL_TOPO_FILE"});
    set(*finding, Status::fail,
        file.file.filename().string() + ": configuration: inside a host NCCL uses " + *transport +
            ", but the GPUs have NVLink and it should use P2P" +
            (links.empty() ? "" : " (rank " + text(links, file.context.nccl) + ")") +
            (settings.empty() ? "; no known setting of NCCL is the cause" : "; set is " + settings),
        settings.empty()
            ? "NCCL_DEBUG=INFO shows why; check nvidia-smi topo -p2p r, the fabric manager, the container's "
              "/dev/shm and IPC namespace"
            : "remove " + settings + " and measure again");
    name_offenders(*finding, beginnings(links, file.context));
    break;
  }
  return finding;
}

std::optional<Finding> judge_network(const Measured& measured) {
  const auto hosts = hosts_with_ports(measured);
  for (const Results& file : measured.files) {
    const auto host = [&](int rank) { return file.context.ranks[static_cast<std::size_t>(rank)].host; };
    std::vector<NcclLink> sockets;
    for (const NcclLink& link : file.context.nccl.links) {
      if (link.via.starts_with("NET/Socket") && host(link.src) != host(link.dst)) sockets.push_back(link);
    }
    if (sockets.empty() || hosts.empty()) continue;
    const auto settings = settings_of(file.context, {"NCCL_IB_DISABLE", "NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_IB_HCA"});
    Finding finding;
    classify(finding, Code::nccl_network);
    finding.key = machine_key(Code::nccl_network);
    set(finding, Status::fail,
        file.file.filename().string() + ": configuration: between hosts NCCL uses sockets (rank " +
            text(sockets, file.context.nccl) + "), but InfiniBand or RoCE ports are up on " +
            plural(static_cast<int>(hosts.size()), "host") + ", " + hosts.front() +
            (settings.empty() ? "; no known setting of NCCL is the cause" : "; set is " + settings),
        settings.empty()
            ? "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=NET shows why; check that libibverbs and /dev/infiniband exist"
            : "remove " + settings + " and measure again");
    name_offenders(finding, beginnings(sockets, file.context));
    return finding;
  }
  return std::nullopt;
}

std::optional<std::string> note_on_nvls(const Results& file, const Profile& profile) {
  const Context& context = file.context;
  if (context.nccl.nvls != "off") return std::nullopt;
  std::map<Key, std::pair<double, double>> references;  // by benchmark: references without and with NVLS
  for (const Rule& rule : profile.rules) {
    const bool applies = rule.metric == "busbw_gb_per_s" && rule.benchmark.family() == "allreduce" &&
                         rule.conditions.ranks.contains(context.world_size) &&
                         rule.conditions.hosts.contains(context.hosts);
    if (!applies || !rule.conditions.nvls || !rule.limits.reference) continue;
    auto& [without, with] = references[rule.benchmark];
    (*rule.conditions.nvls ? with : without) = *rule.limits.reference;
  }
  const Key* largest = nullptr;
  for (const auto& [key, reference] : references) {
    if (reference.first <= 0 || reference.second <= reference.first) continue;
    if (largest == nullptr || key.number("bytes") > largest->number("bytes")) largest = &key;
  }
  if (largest == nullptr) return std::nullopt;
  const auto [without, with] = references.at(*largest);
  const auto setting = settings_of(context, {"NCCL_NVLS_ENABLE", "NCCL_ALGO"});
  return fmt::format("NVLS is off{}: {} reaches {:g} instead of {:g} GB/s, by the references of {}",
                     setting.empty() ? "" : " (" + setting + ")", largest->text(), without, with, profile.name);
}

}  // namespace shakedown
