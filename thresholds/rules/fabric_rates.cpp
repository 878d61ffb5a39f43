// Computes the expected rates between hosts.
#include "thresholds/rules/fabric_rates.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "thresholds/catalogue/metrics.hpp"

namespace shakedown {
namespace {

// Smaller sizes are limited by latency, and no figures are published for them.
constexpr long long bandwidth_bound = 1LL << 30;

Rule floor_rule(const Key& key, double floor, std::string source) {
  Rule rule;
  rule.benchmark = key;
  rule.metric = "busbw_gb_per_s";
  rule.limits.min = floor;
  rule.source = std::move(source);
  rule.at = "derived";
  return rule;
}

// Returns rules for one host, applied to the rows that are measured inside each of several hosts.
std::vector<Rule> rules_inside_hosts(const Profile& profile, const Benchmarks& benchmarks) {
  std::vector<Rule> rules;
  const auto is_inside = [](const auto& entry) { return entry.first.part("scope") == "node"; };
  if (std::ranges::none_of(benchmarks, is_inside)) return rules;
  for (const Rule& rule : profile.rules) {
    const auto found = benchmarks.find(Key(rule.benchmark).set("scope", "node"));
    if (found == benchmarks.end()) continue;
    const Context& context = *found->second.context;
    if (rule.conditions.hosts.contains(context.hosts) || !rule.conditions.hosts.contains(1)) continue;
    if (!rule.conditions.ranks.contains(context.world_size / context.hosts)) continue;
    Rule inside = rule;
    inside.benchmark = found->first;
    inside.conditions.hosts = inside.conditions.ranks = {};
    rules.push_back(std::move(inside));
  }
  return rules;
}

// Returns the rate of one host: as measured inside hosts, else the profile's limit, else the rate of the links of its
// GPUs, which NCCL's rings cannot exceed.
std::optional<double> rate_of_one_host(const Profile& profile, const Benchmarks& benchmarks, const Benchmark& world) {
  // An AllReduce of a pair of hosts is the same operation as an AllReduce of all hosts.
  const Key operation = world.key.family() == "pairs"
                            ? Key("allreduce").set("dtype", "f32").set("bytes", world.key.part("bytes"))
                            : world.key;
  const auto inside = benchmarks.find(Key(operation).set("scope", "node"));
  if (inside != benchmarks.end()) return run_value(inside->second, "busbw_gb_per_s");
  const int ranks = world.context->world_size / world.context->hosts;
  for (const Rule& rule : profile.rules) {
    const bool fits = rule.benchmark == operation && rule.metric == "busbw_gb_per_s" && rule.limits.min &&
                      rule.conditions.hosts.contains(1) && rule.conditions.ranks.contains(ranks);
    const std::string nvls = !rule.conditions.nvls ? "" : *rule.conditions.nvls ? "on" : "off";
    if (fits && (nvls.empty() || world.context->nccl.nvls == nvls)) return rule.limits.min;
  }
  const auto link = profile.peak.find("nvlink_gb_per_s");
  return link == profile.peak.end() || ranks < 2 ? std::nullopt : std::optional(link->second);
}

}  // namespace

double allreduce_limit(const ClusterShape& c) {
  return c.host_gb_per_s * (c.ranks - 1) / c.ranks * c.hosts / (c.hosts - 1);
}

double alltoall_limit(const ClusterShape& c) {
  const double own = c.ranks_per_host();
  return c.host_gb_per_s / own * (c.ranks - 1) / (c.ranks - own);
}

std::optional<SiteFabric> fabric_as_read(const Measured& measured) {
  const auto found = measured.benchmarks.find("preflight/of:host");
  if (found == measured.benchmarks.end()) return std::nullopt;
  const auto least = [&](const char* fact) {
    std::optional<double> lowest;
    for (const auto& value : rank_values(found->second, fact)) {
      if (value && (!lowest || *value < *lowest)) lowest = value;
    }
    return lowest;
  };
  const auto nics = least("ib_ports"), rate = least("ib_rate_gbit");
  constexpr double max_nics = 1024;  // no host has more NICs, so a larger number is a read error
  if (!nics || !rate || !(*nics >= 1 && *nics <= max_nics) || !(*rate > 0)) return std::nullopt;
  return SiteFabric{static_cast<int>(*nics), *rate, std::nullopt, "as pre-flight read it"};
}

std::vector<Rule> rules_between_hosts(const Profile& profile, const std::optional<SiteFabric>& fabric,
                                      const Measured& measured) {
  auto rules = rules_inside_hosts(profile, measured.benchmarks);
  if (!fabric) return rules;
  const auto derived = [&](const std::string& of) {
    return fmt::format("derived: {}; {} NICs of {} Gb/s in each host ({})", of, fabric->nics,
                       number_text(fabric->nic_gbit), fabric->source);
  };
  for (const auto& [key, benchmark] : measured.benchmarks) {
    const Context& context = *benchmark.context;
    const bool between = key.part("scope").empty() || key.family() == "pairs";
    if (context.hosts < 2 || !between) continue;
    const ClusterShape shape{static_cast<double>(context.hosts), static_cast<double>(context.world_size),
                             fabric->host_gb_per_s()};
    const bool large = key.number("bytes").value_or(0) >= bandwidth_bound;
    const bool plain = key.part("place").empty() && key.part("launch").empty() && key.part("timing").empty() &&
                       key.part("via").empty() && key.part("dtype") == "f32";
    const auto one_host = rate_of_one_host(profile, measured.benchmarks, benchmark);
    const auto expect = [&](double limit, double part, const char* what) {
      const double expected = one_host ? std::min(limit, *one_host) : limit;
      rules.push_back(floor_rule(key, part * expected,
                                 derived(fmt::format("{} of {} GB/s, {}", number_text(part), number_text(expected),
                                                     one_host && *one_host < limit ? "the rate of one host" : what))));
    };
    if (key.family() == "allreduce" && large && plain) {
      expect(allreduce_limit(shape), allreduce_part, "the rate of the NICs");
    } else if (key.part("op") == "alltoall" && large && plain) {
      expect(alltoall_limit(shape), alltoall_part, "the rate of the NICs");
    } else if (key.family() != "pairs" || key.part("round").empty() || benchmark.waiver() != nullptr) {
      continue;
    } else if (key.part("op") == "allreduce") {
      if (large) {
        expect(allreduce_limit({2, 2 * shape.ranks_per_host(), shape.host_gb_per_s}), allreduce_part,
               "the rate of the NICs of two hosts, for the median pair");
      }
    } else {
      const double rate = shape.host_gb_per_s / shape.ranks_per_host();
      rules.push_back(floor_rule(key, pairs_part * rate,
                                 derived(fmt::format("{} of {} GB/s, the NICs' rate for one GPU, for the median pair",
                                                     number_text(pairs_part), number_text(rate)))));
    }
  }
  return rules;
}

}  // namespace shakedown
