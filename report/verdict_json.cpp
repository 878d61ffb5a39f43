// Defines the fields of verdict.json, which report/verdict.schema.json describes.
#include "report/verdict_json.hpp"

#include "base/files.hpp"
#include "base/sha256.hpp"
#include "report/words.hpp"
#include "thresholds/judge/headline.hpp"
#include "thresholds/results/json_field.hpp"

namespace shakedown {

constexpr int verdict_schema = 1;

template <class Archive>
void members(Archive& archive, Culprit& c) {
  archive("rank", c.rank)("host", c.host)("uuid", c.uuid)("pci", c.pci)("value", c.value);
  archive("local_rank", c.local_rank)("serial", c.serial);
}

template <class Archive>
void members(Archive& archive, Evidence& e) {
  archive("key", e.key)("metric", e.metric).younger("judgement", e.by);
  archive("value", e.value)("expected", e.expected)("percent", e.percent)("mads", e.mads);
}

template <class Archive>
void members(Archive& archive, Diagnosis& d) {
  archive("causes", d.causes)("fails", d.fails)("places", d.places)("place_count", d.place_count);
  archive("percent", d.percent)("mads", d.mads)("evidence", d.evidence)("evidence_count", d.evidence_count);
  archive("detail", d.detail)("telemetry", d.telemetry)("next", d.next);
}

template <class Archive>
void members(Archive& archive, Summary& summary) {
  archive("judgement", summary.by)("text", summary.text);
}

template <class Archive>
void members(Archive& archive, Node& node) {
  archive("host", node.host)("ranks", node.ranks);
}

template <class Archive>
void members(Archive& archive, ResultFile& file) {
  archive("file", file.name)("sha256", file.sha256);
}

void write_limit(Writer& writer, const std::optional<Limit>& limit) {
  writer("limit", limit ? std::optional(limit->value) : std::nullopt);
  writer("limit_name", std::string(limit ? name(limit->kind) : ""));
}

void read_limit(Reader& reader, std::optional<Limit>& limit) {
  std::optional<double> value;
  std::string word;
  reader("limit", value)("limit_name", word);
  limit.reset();
  if (!value || word.empty()) return;
  reader("limit_name", limit.emplace().kind);
  limit->value = *value;
}

// Writes "status" as warn or info if the finding does not change the verdict, so that a program that counts failures
// finds none in a PASS.
void write_status(Writer& writer, const Finding& finding) {
  writer("status", status_text(finding));
  if (status_text(finding) != name(finding.status)) writer("status_if_counted", finding.status);
}

void read_status(Reader& reader, Finding& finding) {
  std::string word;
  reader("status", word)("severity", finding.severity);
  const bool is_reduced = finding.severity != Severity::fail && lower(word) == name(finding.severity);
  reader(is_reduced ? "status_if_counted" : "status", finding.status);
}

template <class Archive>
void members(Archive& archive, Part& part) {
  archive("kind", part.kind)("id", part.id)("host", part.host);
}

template <class Archive>
void members(Archive& archive, Remedy& remedy) {
  std::string id(remedy.id ? name(*remedy.id) : "");
  archive.younger("id", id)("action", remedy.action)("means", remedy.means)("command", remedy.command);
  if constexpr (std::same_as<Archive, Reader>) remedy.id = remedy_named(id);
}

// Files of release 0.1.0 do not say which judgement made a finding, because rules made all of them.
template <class Archive>
void members(Archive& archive, Finding& f) {
  archive("key", f.key)("metric", f.metric).younger("judgement", f.judgement);
  archive.younger("code", f.code).younger("part", f.part).younger("sure", f.sure);
  if constexpr (std::same_as<Archive, Writer>) {
    write_status(archive, f);
    archive("severity", f.severity).derived("counted", f.counts())("value", f.value);
    write_limit(archive, f.limit);
  } else {
    read_status(archive, f);
    archive("value", f.value);
    read_limit(archive, f.limit);
  }
  archive("unit", f.unit)("worst", f.worst);
  archive("offender_count", f.offender_count)("offenders", f.offenders);
  archive("detail", f.detail)("source", f.source)("rule", f.rule_at)("next", f.next).younger("remedy", f.remedy);
  archive.unless("culprit", f.culprit).unless("seen", f.seen);
}

template <class Archive>
void members(Archive& archive, Seen& seen) {
  archive("low", seen.low)("high", seen.high)("gpus", seen.gpus);
}

template <class Archive>
void members(Archive& archive, Unjudged& point) {
  archive("key", point.key)("metric", point.metric)("value", point.value)("detail", point.detail);
}

template <class Archive>
void members(Archive& archive, FleetLevel& level) {
  archive("class", level.name)("metric", level.metric)("rows", level.rows)("better", level.better);
  archive("reference", level.reference);
}

template <class Archive>
void members(Archive& archive, FleetLine& line) {
  archive("by", line.by)("group", line.group)("class", line.name)("gpus", line.gpus);
  archive("median", line.median)("p1", line.p1)("p99", line.p99)("faster", line.faster);
  archive("temperature_c", line.temperature_c)("hotter_c", line.hotter_c)("slow", line.slow)("hot", line.hot);
}

template <class Archive>
void members(Archive& archive, ScalingPoint& point) {
  archive("key", point.key)("metric", point.metric)("hosts", point.hosts)("ranks", point.ranks)("value", point.value);
  archive("efficiency", point.efficiency)("limited_by", point.limited_by);
}

template <class Archive>
void members(Archive& archive, GpuComparison& of) {
  archive("gpu", of.gpu)("products", of.products)("tflops", of.tflops)("work", of.work);
  archive("highest_work", of.highest_work)("chip", of.chip)("heat", of.heat)("cause", of.cause);
}

template <class Archive>
void members(Archive& archive, StepTimes& times) {
  archive("key", times.key)("rank", times.rank);
  for (std::size_t i = 0; i < times.class_ms.size(); ++i) {
    archive((std::string(words(PartClass{})[i]) + "_ms").c_str(), times.class_ms[i]);
  }
  archive("fixed_ms", times.fixed_ms)("profiled_ms", times.whole_ms);
  archive("profile_cost_percent", times.cost_percent)("profile_source", times.source);
}

template <class Archive>
void members(Archive& archive, Verdict& v) {
  archive.derived("schema", verdict_schema).in_lower_case("verdict", v.state)("exit_code", v.exit_code);
  if constexpr (std::same_as<Archive, Writer>) archive("headline", text_and_next(headline_of(v)));
  archive("passed", v.passed)("total", v.total)("profile", v.profile);
  auto backend = std::string(v.backend ? name(*v.backend) : "");  // empty if unknown
  archive("backend", backend)("devices", v.devices);
  v.backend = named<Backend>(backend);
  archive("ranks", v.ranks)("hosts", v.hosts).younger("families", v.families);
  auto only = v.asked.names.size() == 1 ? std::optional(v.asked.names.front()) : std::nullopt;
  archive.younger("judged_families", v.judged_families).younger("family", only);
  archive.unless("known_families", v.known_families)
      .unless("asked_families", v.asked.names)
      .unless("filter", v.filter)
      .unless("gate", v.is_gate);
  // Files of earlier releases name one family at most. The verdict is computed again, and if it differs, the file is
  // rejected.
  if (only && v.asked.all()) v.asked.names = {*only}, v.known_families = std::max(v.known_families, v.families + 1);
  archive("run_ids", v.run_ids).unless("results", v.results).younger("started", v.started)("notes", v.notes);
  archive.younger("culprits", v.culprits).younger("judgements", v.summaries).younger("nodes", v.nodes);
  archive("findings", v.findings)("unjudged", v.unjudged);
  archive.younger("fleet_levels", v.fleet.levels).younger("fleet_lines", v.fleet.lines);
  archive.younger("scaling", v.scaling).younger("compared_gpus", v.compared_gpus);
  archive.unless("step_times", v.step_times);
}

namespace {

// True for a finding that passes but misses its own limit or names offenders. For a spread, the compared value is that
// of the worst rank.
bool contradicts_itself(const Finding& f) {
  if (f.status != Status::pass) return false;
  if (f.offender_count > 0 || !f.offenders.empty()) return true;
  const auto compared = f.compared();
  return compared && compared->limit.is_missed_by(compared->value);
}

void refuse_contradictions(const Verdict& verdict, const Field& root) {
  for (const Finding& f : verdict.findings) {
    if (contradicts_itself(f)) {
      root["findings"].refuse("the pass of " + f.key.text() + " " + f.metric +
                              " contradicts its own figures; judge the " + "results again");
    }
    if (f.culprit && *f.culprit >= verdict.culprits.size()) {
      root["findings"].refuse(f.key.text() + " names a culprit that is not in the file; judge the results again");
    }
  }
  for (const Diagnosis& culprit : verdict.culprits) {
    if (culprit.causes.empty()) root["culprits"].refuse("a culprit without a cause");
    if (culprit.fails && verdict.passed == verdict.total) {
      root["culprits"].refuse("a culprit fails but no finding does; judge the results again");
    }
  }
}

// Returns the hash of all other members of the document, sorted by name.
std::string digest_of(nlohmann::json document) {
  document.erase("sha256");
  return sha256(document.dump());
}

void refuse_changed(const nlohmann::json& document, const Field& root) {
  if (const auto& said = document.value("sha256", nlohmann::json()); said != digest_of(document)) {
    root.refuse(said.is_null() ? "has no \"sha256\"; judge the results again"
                               : "was changed after it was written: its \"sha256\" does not match; judge "
                                 "the results again");
  }
}

}  // namespace

namespace {

Verdict verdict_of(const nlohmann::json& document, const std::filesystem::path& file) {
  const Field root(file, "", document);
  if (!root.find("schema")) {
    root.refuse(root.find("context") ? "is a result file, not a verdict; judge it with --results=FILE"
                                     : "is not a verdict: \"schema\" is missing; name a verdict.json");
  }
  if (const int schema = root["schema"].integer(); schema != verdict_schema) {
    root["schema"].refuse("is " + std::to_string(schema) + ", this program reads " + std::to_string(verdict_schema));
  }
  auto verdict = read_as<Verdict>(root);
  const std::string said = verdict_line(verdict);
  const int said_code = verdict.exit_code;
  conclude(verdict);  // concludes again instead of trusting the stored verdict
  if (verdict_line(verdict) != said || verdict.exit_code != said_code) {
    root["verdict"].refuse("its findings give \"" + verdict_line(verdict) + "\" and exit code " +
                           std::to_string(verdict.exit_code) + ", the file says \"" + said + "\" and " +
                           std::to_string(said_code) + "; judge the results again");
  }
  refuse_contradictions(verdict, root);
  refuse_changed(document, root);
  return verdict;
}

}  // namespace

Verdict read_verdict(const std::filesystem::path& file) { return verdict_of(read_json(file), file); }

Verdict verdict_of_text(const std::string& text, const std::string& name) {
  const auto document = document_of_text(text);
  if (document.is_discarded()) throw InputError(name + ": is not JSON; judge the results again");
  return verdict_of(document, name);
}

Verdict read_stored_verdict(const std::filesystem::path& file) {
  Verdict verdict = read_verdict(file);
  std::size_t found = 0;
  for (const ResultFile& result : verdict.results) {
    const auto beside = file.parent_path() / result.name;
    if (!path_exists(beside)) continue;
    ++found;
    if (sha256(read_file(beside)) == result.sha256) continue;
    throw InputError(beside.string() + ": is not the file that " + file.filename().string() +
                     " judged; judge the results again");
  }
  verdict.notes.push_back(found > 0 && found == verdict.results.size()
                              ? "from a stored verdict; the results next to it are those that were judged"
                              : "from a stored verdict; the results were not read");
  return verdict;
}

// JSON has no infinity. A value that is not finite is written as null, the finding as INVALID, and the detail names the
// value.
std::string verdict_json(const Verdict& verdict) {
  std::string text = json_text(verdict, 2);
  const std::string digest = digest_of(nlohmann::json::parse(text));
  text.insert(text.rfind("\n}"), ",\n  \"sha256\": \"" + digest + "\"");
  return text + "\n";
}

}  // namespace shakedown
