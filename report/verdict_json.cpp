// Decides the fields of verdict.json, which report/verdict.schema.json describes. Tested by tests/terminal_test.cpp.
#include "report/verdict_json.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>

#include "thresholds/json_field.hpp"

namespace shakedown {
namespace {

using nlohmann::ordered_json;

constexpr int verdict_schema = 1;

std::string lower(std::string_view words) {
  std::string out(words);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// JSON has no infinity; a value that is not finite is "invalid" and said so in the detail.
ordered_json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? ordered_json(*value) : ordered_json(nullptr);
}

template <class T>
ordered_json or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json to_json(const Culprit& culprit) {
  return {{"rank", or_null(culprit.rank)},    {"host", culprit.host},
          {"uuid", or_null(culprit.uuid)},    {"pci", or_null(culprit.pci)},
          {"value", number(culprit.value)},   {"local_rank", or_null(culprit.local_rank)},
          {"serial", or_null(culprit.serial)}};
}

ordered_json to_json(const Evidence& e) {
  return {{"key", e.key},
          {"metric", e.metric},
          {"judgement", name(e.by)},
          {"value", number(e.value)},
          {"expected", number(e.expected)},
          {"percent", number(e.percent)},
          {"mads", number(e.mads)}};
}

ordered_json to_json(const Diagnosis&);
ordered_json to_json(const Spoken&);
ordered_json to_json(const Node&);

template <class T>
ordered_json list_of(const std::vector<T>& items) {
  ordered_json list = ordered_json::array();
  for (const T& item : items) list.push_back(to_json(item));
  return list;
}

ordered_json to_json(const Diagnosis& d) {
  ordered_json causes = ordered_json::array();
  for (const Cause cause : d.causes) causes.push_back(name(cause));
  return {{"causes", causes},
          {"fails", d.fails},
          {"places", list_of(d.places)},
          {"place_count", d.place_count},
          {"percent", number(d.percent)},
          {"mads", number(d.mads)},
          {"evidence", list_of(d.evidence)},
          {"evidence_count", d.evidence_count},
          {"detail", d.detail},
          {"telemetry", d.telemetry},
          {"next", d.next}};
}

ordered_json to_json(const Spoken& spoken) { return {{"judgement", name(spoken.by)}, {"text", spoken.text}}; }

ordered_json to_json(const Node& node) { return {{"host", node.host}, {"ranks", node.ranks}}; }

ordered_json to_json(const Finding& f) {
  ordered_json offenders = ordered_json::array();
  for (const Culprit& offender : f.offenders) offenders.push_back(to_json(offender));
  return {{"key", f.key},
          {"metric", f.metric},
          {"judgement", name(f.judgement)},
          {"status", name(f.status)},
          {"severity", name(f.severity)},
          {"counted", f.counts()},
          {"value", number(f.value)},
          {"limit", number(f.limit)},
          {"limit_name", f.limit_name},
          {"unit", f.unit},
          {"worst", f.worst ? to_json(*f.worst) : ordered_json(nullptr)},
          {"offender_count", f.offender_count},
          {"offenders", offenders},
          {"detail", f.detail},
          {"source", f.source},
          {"rule", f.rule_at},
          {"next", f.next}};
}

// ---------------------------------------------------------------------------------------------------------------------
// Reader

template <class Enum>
Enum named(const Field& field, std::initializer_list<Enum> values) {
  const std::string word = field.text();
  for (const Enum value : values) {
    if (lower(name(value)) == lower(word)) return value;
  }
  field.refuse("\"" + word + "\" is not known to this release");
}

std::optional<double> optional_number(const Field& parent, const char* name) {
  const auto member = parent.find(name);
  return member ? std::optional(member->number()) : std::nullopt;
}

std::vector<std::string> texts(const Field& list) {
  std::vector<std::string> result;
  list.each([&](const Field& item) { result.push_back(item.text()); });
  return result;
}

Culprit read_culprit(const Field& field) {
  return {field.optional_integer("rank"),  field["host"].text(),
          field.optional_text("uuid"),     field.optional_text("pci"),
          optional_number(field, "value"), field.optional_integer("local_rank"),
          field.optional_text("serial")};
}

Judgement read_judgement(const Field& parent) {
  const auto judgement = parent.find("judgement");  // files of release 0.1.0 have none: only rules spoke
  return judgement ? named(*judgement, {Judgement::rule, Judgement::baseline, Judgement::peers, Judgement::crosscheck})
                   : Judgement::rule;
}

Evidence read_evidence(const Field& field) {
  return {field["key"].text(),
          field["metric"].text(),
          read_judgement(field),
          optional_number(field, "value"),
          optional_number(field, "expected"),
          optional_number(field, "percent"),
          optional_number(field, "mads")};
}

Diagnosis read_diagnosis(const Field& field) {
  Diagnosis d;
  field["causes"].each([&](const Field& cause) {
    d.causes.push_back(
        named(cause, {Cause::slow_gpu, Cause::slow_link, Cause::slow_node, Cause::late_rank, Cause::wrong_data,
                      Cause::configuration, Cause::power_or_heat, Cause::slow_silicon}));
  });
  if (d.causes.empty()) field["causes"].refuse("a culprit without a cause");
  d.fails = field["fails"].boolean();
  field["places"].each([&](const Field& place) { d.places.push_back(read_culprit(place)); });
  d.place_count = field["place_count"].unsigned_integer();
  d.percent = optional_number(field, "percent");
  d.mads = optional_number(field, "mads");
  field["evidence"].each([&](const Field& evidence) { d.evidence.push_back(read_evidence(evidence)); });
  d.evidence_count = field["evidence_count"].unsigned_integer();
  d.detail = field["detail"].text();
  d.telemetry = field["telemetry"].text();
  d.next = field["next"].text();
  return d;
}

Finding read_finding(const Field& field) {
  Finding f;
  f.key = field["key"].text();
  f.metric = field["metric"].text();
  f.judgement = read_judgement(field);
  f.status = named(field["status"], {Status::pass, Status::fail, Status::missing, Status::waived, Status::invalid,
                                     Status::inconclusive, Status::no_reference});
  f.severity = named(field["severity"], {Severity::fail, Severity::warn, Severity::info});
  f.value = optional_number(field, "value");
  f.limit = optional_number(field, "limit");
  f.limit_name = field["limit_name"].text();
  f.unit = field["unit"].text();
  if (const auto worst = field.find("worst")) f.worst = read_culprit(*worst);
  f.offender_count = field["offender_count"].unsigned_integer();
  field["offenders"].each([&](const Field& offender) { f.offenders.push_back(read_culprit(offender)); });
  f.detail = field["detail"].text();
  f.source = field["source"].text();
  f.rule_at = field["rule"].text();
  f.next = field["next"].text();
  return f;
}

Verdict read_fields(const Field& root) {
  if (const int schema = root["schema"].integer(); schema != verdict_schema) {
    root["schema"].refuse("is " + std::to_string(schema) + ", this program reads " + std::to_string(verdict_schema));
  }
  Verdict v;
  v.state = named(root["verdict"], {State::pass, State::fail, State::inconclusive, State::no_reference,
                                    State::incomplete, State::host_only});
  v.exit_code = root["exit_code"].integer();
  v.passed = root["passed"].unsigned_integer();
  v.total = root["total"].unsigned_integer();
  v.profile = root["profile"].text();
  v.backend = root["backend"].text();
  v.devices = texts(root["devices"]);
  v.ranks = root["ranks"].integer();
  v.hosts = root["hosts"].integer();
  if (const auto families = root.find("families")) v.families = families->unsigned_integer();
  if (const auto judged = root.find("judged_families")) v.judged_families = judged->unsigned_integer();
  v.run_ids = texts(root["run_ids"]);
  v.notes = texts(root["notes"]);
  root["findings"].each([&](const Field& finding) { v.findings.push_back(read_finding(finding)); });
  if (const auto culprits = root.find("culprits")) {
    culprits->each([&](const Field& culprit) { v.culprits.push_back(read_diagnosis(culprit)); });
  }
  if (const auto judgements = root.find("judgements")) {
    judgements->each([&](const Field& spoken) { v.spoken.push_back({read_judgement(spoken), spoken["text"].text()}); });
  }
  if (const auto nodes = root.find("nodes")) {
    nodes->each([&](const Field& node) { v.nodes.push_back({node["host"].text(), node["ranks"].integer()}); });
  }
  root["unjudged"].each([&](const Field& point) {
    v.unjudged.push_back(
        {point["key"].text(), point["metric"].text(), optional_number(point, "value"), point["detail"].text()});
  });
  return v;
}

}  // namespace

Verdict read_verdict(const std::filesystem::path& file) {
  const auto document = read_json(file);
  return read_fields(Field(file, "", document));
}

std::string verdict_json(const Verdict& verdict) {
  ordered_json document = {{"schema", verdict_schema},
                           {"verdict", lower(name(verdict.state))},
                           {"exit_code", verdict.exit_code},
                           {"passed", verdict.passed},
                           {"total", verdict.total},
                           {"profile", verdict.profile},
                           {"backend", verdict.backend},
                           {"devices", verdict.devices},
                           {"ranks", verdict.ranks},
                           {"hosts", verdict.hosts},
                           {"families", verdict.families},
                           {"judged_families", verdict.judged_families},
                           {"run_ids", verdict.run_ids},
                           {"notes", verdict.notes},
                           {"culprits", list_of(verdict.culprits)},
                           {"judgements", list_of(verdict.spoken)},
                           {"nodes", list_of(verdict.nodes)},
                           {"findings", ordered_json::array()},
                           {"unjudged", ordered_json::array()}};
  for (const Finding& finding : verdict.findings) document["findings"].push_back(to_json(finding));
  for (const Unjudged& point : verdict.unjudged) {
    document["unjudged"].push_back(
        {{"key", point.key}, {"metric", point.metric}, {"value", number(point.value)}, {"detail", point.detail}});
  }
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace shakedown
