#include "report/html/data.hpp"

#include <algorithm>

#include "base/archive.hpp"
#include "report/culprits.hpp"
#include "report/family_figures.hpp"
#include "report/verdict_json.hpp"
#include "report/words.hpp"
#include "thresholds/catalogue/families.hpp"
#include "thresholds/catalogue/key_names.hpp"
#include "thresholds/judge/headline.hpp"
#include "thresholds/judge/nodes.hpp"

namespace shakedown {
namespace {

using nlohmann::json;

// The maximum numbers of entries on the page. verdict.json has all entries.
constexpr std::size_t max_findings = 3000, max_culprits = 40, max_nodes = 64;

void cut(json& list, std::size_t most) {
  if (list.size() > most) list.erase(list.begin() + static_cast<std::ptrdiff_t>(most), list.end());
}

json verdict_data(const Verdict& verdict) {
  json document = document_of_text(verdict_json(verdict));
  for (const char* const unused : {"results", "nodes", "sha256", "asked_families"}) document.erase(unused);
  json& findings = document["findings"];
  const auto is_good = [](const json& f) { return f["status"] == "pass" || f["status"] == "waived"; };
  std::stable_partition(findings.begin(), findings.end(), [&](const json& f) { return !is_good(f); });
  cut(findings, max_findings);
  cut(document["unjudged"], max_findings);
  cut(document["culprits"], max_culprits);
  for (json& f : findings) {
    for (const char* const unused : {"code", "sure", "part", "severity", "remedy", "seen"}) f.erase(unused);
    for (const char* const unused : {"source", "rule", "next", "offenders"}) {
      if (is_good(f)) f.erase(unused);
    }
    for (const char* const unused : {"pci", "serial", "value"}) {
      if (is_good(f) && f["worst"].is_object()) f["worst"].erase(unused);
    }
  }
  return document;
}

// Returns the decisions for nodes that the page lists, bad nodes first.
json nodes_data(const NodeList& list) {
  json document = document_of_text(nodes_json(list));
  json& nodes = document["nodes"];
  document["count"] = nodes.size();
  document["bad"] = std::count_if(nodes.begin(), nodes.end(), [](const json& node) { return node["state"] == "bad"; });
  std::stable_partition(nodes.begin(), nodes.end(), [](const json& node) { return node["state"] == "bad"; });
  cut(nodes, max_nodes);
  return document;
}

// Adds the readable name of each key in a document, and the unit of each metric.
void add_names(const json& value, json& names, json& units) {
  if (value.is_object() && value.contains("key")) {
    const std::string key = value["key"], metric = value.value("metric", "");
    if (const std::string name = name_text(Key(key)); !name.empty()) names[key] = name;
    if (!metric.empty()) units[metric] = unit_of(metric);
  }
  for (const json& item : value) {
    if (value.is_structured()) add_names(item, names, units);
  }
}

json words_data(const Verdict& verdict) {
  const Headline headline = headline_of(verdict);
  json consequences = json::array();
  for (const Consequences& of : consequences_of(verdict.culprits, verdict.findings))
    consequences.push_back(consequences_text(of));
  cut(consequences, max_culprits);
  return {{"fault", text(headline.fault)},          {"next", headline.fault.next},
          {"asked", asked_text(verdict)},           {"unjudged", unjudged_text(verdict)},
          {"waivers", waivers_text(verdict)},       {"levels", levels_text(verdict)},
          {"outliers", standing_off_text(verdict)}, {"repair", repair_commands(verdict)},
          {"consequences", std::move(consequences)}};
}

}  // namespace

json page_data(const Judged& judged) {
  const Verdict& verdict = judged.verdict;
  json page = {{"verdict", verdict_data(verdict)},
               {"culprits", verdict.culprits.size()},
               {"findings", verdict.findings.size()},
               {"nodes", nodes_data(decide_nodes(verdict))},
               {"words", words_data(verdict)}};
  for (const FamilyRow& row : family_rows()) page["families"].push_back({row.name, row.shows});
  for (const auto& [finding, margin] : family_figures(verdict)) {
    if (!finding->seen) continue;
    const std::string usual = usual_text(*finding);  // begins with "below: " or "above: " outside of the range
    page["usual"][finding->key.family()] = readable(finding->key) + ": " + value_text(*finding) +
                                           (usual.find(':') < usual.size() ? ", " : ", normal: ") + usual;
  }
  std::set<std::string> families;
  for (const Finding& f : verdict.findings) families.insert(f.key.family());
  families.erase("machine");
  page["commands"] = {"ci/accept"};
  for (const std::string& family : families) page["commands"].push_back(measure_command(family, verdict.ranks));
  if (judged.measured) page["figures"] = figures_data(judged);
  if (judged.soak != nullptr) page["soak"] = soak_data(*judged.soak, *judged.soak_judgement);
  json names = json::object(), units = json::object();
  add_names(page, names, units);
  page["names"] = std::move(names);
  page["units"] = std::move(units);
  return page;
}

}  // namespace shakedown
