// Decides what results and baselines of schema 1 meant: what they called things. What they said in sentences (what held
// clocks down, errors, links of NCCL) is unknown: ci/convert_results reads it where somebody needs it.
#include <string_view>
#include <utility>
#include <vector>

#include "thresholds/json_field.hpp"

namespace shakedown {
namespace {

using nlohmann::json;

void rename_metrics(json& object) {
  if (!object.is_object()) return;
  std::vector<std::string> old;
  for (const auto& [name, value] : object.items()) {
    if (metric_of_schema_1(name) != name) old.push_back(name);
  }
  for (const std::string& name : old) {
    json value = std::move(object[name]);
    object.erase(name);
    object.emplace(metric_of_schema_1(name), std::move(value));
  }
}

}  // namespace

std::string metric_of_schema_1(const std::string& name) {
  constexpr std::string_view end = "_gbps";
  return name.ends_with(end) ? name.substr(0, name.size() - end.size()) + "_gb_per_s" : name;
}

void upgrade_schema_1(json& document) {
  if (const auto rows = document.find("benchmarks"); rows != document.end() && rows->is_array()) {
    for (json& row : *rows) {
      rename_metrics(row);
      if (!row.is_object()) continue;
      for (const char* by_rank : {"by_rank", "text_by_rank"}) {
        if (row.contains(by_rank)) rename_metrics(row[by_rank]);
      }
      const auto texts = row.find("text_by_rank");
      if (texts == row.end() || !texts->is_object()) continue;
      for (const char* prose : {"throttle", "errors"}) texts->erase(prose);
    }
  }
  json& context = document["context"]["shakedown"];
  if (const auto nccl = context.find("nccl"); nccl != context.end() && nccl->is_object()) nccl->erase("fallbacks");
  context["schema"] = 2;
}

}  // namespace shakedown
