#include "report/superbench.hpp"

#include <algorithm>
#include <map>

#include "base/archive.hpp"
#include "thresholds/catalogue/metrics.hpp"

namespace shakedown {
namespace {

using nlohmann::ordered_json;

}  // namespace

std::string superbench_jsonl(const Judged& judged) {
  if (!judged.measured) return "";
  std::vector<std::string> hosts;
  std::map<std::string, ordered_json> lines;
  for (const Node& node : judged.verdict.nodes) {
    hosts.push_back(node.host);
    lines[node.host] = {{"node", node.host}};
  }
  for (const auto& [key, benchmark] : judged.measured->benchmarks) {
    const std::string metric = headline_metric(benchmark);
    if (metric.empty() || benchmark.error() != nullptr || benchmark.waiver() != nullptr) continue;
    std::string name = key.text() + "/" + metric;
    std::replace(name.begin(), name.end(), ':', '-');
    if (is_shared(key, metric)) {
      const auto value = run_value(benchmark, metric);
      for (const std::string& host : hosts) {
        if (value) lines[host][name] = *value;
      }
      continue;
    }
    const auto values = rank_values(benchmark, metric);
    for (const RankFacts& rank : benchmark.context->ranks) {
      const auto& value = values.empty() ? std::nullopt : values[static_cast<std::size_t>(rank.rank)];
      if (value) lines[rank.host][name + ":" + std::to_string(rank.local_rank)] = *value;
    }
  }
  std::string out;
  for (const std::string& host : hosts) {
    out += text_of_document(lines[host], -1) + "\n";
  }
  return out;
}

}  // namespace shakedown
