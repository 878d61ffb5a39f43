// Validates profiles. A rule that can never fail or never pass, or has no source, is rejected with file, line and
// column.
#include "thresholds/rules/profile.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/text.hpp"
#include "base/timed_call.hpp"
#include "thresholds/catalogue/families.hpp"
#include "thresholds/catalogue/preflight_facts.hpp"
#include "thresholds/rules/strict_yaml.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;
using Members = std::map<std::string, Yaml>;

// Families that are not in the catalogue may use any metric whose name ends in a unit.
bool is_known_metric(const std::string& family, const std::string& metric) {
  return find_metric(Key(family), metric) != nullptr || (!is_catalogued(family) && !unit_of(metric).empty());
}

std::string metrics_text(const std::string& family) {
  if (!is_catalogued(family)) return "a name that ends in a unit, such as latency_us";
  std::vector<std::string> names;
  for (const Metric& metric : metrics()) {
    if (metric.is_of(family) && std::find(names.begin(), names.end(), metric.name) == names.end()) {
      names.emplace_back(metric.name);
    }
  }
  return joined(names);
}

bool is_key_part(std::string_view part) {
  const auto colon = part.find(':');
  if (colon == 0 || colon == std::string_view::npos || colon + 1 == part.size()) return false;
  return std::all_of(part.begin(), part.end(), [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_' || c == ':' || c == '*' || c == '.';
  });
}

bool is_family(std::string_view word) {
  return !word.empty() && word != "machine" && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_';
  });
}

Key read_benchmark(const Yaml& yaml) {
  const std::string text = yaml.text();
  const Key key(text);
  if (!is_family(key.family())) yaml.refuse("\"" + text + "\" is not a key; write family/name:value/...");
  for (std::string_view rest = std::string_view(text).substr(key.family().size()); !rest.empty();) {
    rest.remove_prefix(1);
    const auto slash = std::min(rest.find('/'), rest.size());
    if (!is_key_part(rest.substr(0, slash))) yaml.refuse("\"" + text + "\" is not a key; write family/name:value/...");
    rest.remove_prefix(slash);
  }
  if (key_of(text) != text) yaml.refuse("\"" + text + "\" has a suffix of Google Benchmark; write " + key_of(text));
  const auto stars = std::count(text.begin(), text.end(), '*');
  const auto any = [&](const char* part) { return key.part(part) == "*"; };
  const bool of_p2p = key.family() == "p2p";
  const bool pairs = of_p2p && stars == 2 && any("src") && any("dst");
  const bool one_by_one = stars == 1 && ((of_p2p && any("shift")) || (any("rank") && key.part("active") == "one"));
  if (stars > 0 && !pairs && !one_by_one) {
    yaml.refuse(
        "a wildcard is possible only as src:*/dst:* or shift:* of p2p, or as active:one/rank:*; write the key out");
  }
  return key;
}

Range read_range(const Yaml& yaml) {
  Range range;
  if (yaml.is_list()) {
    const auto items = yaml.items();
    if (items.size() != 2) yaml.refuse("expected n or [low, high]; give two numbers");
    range = {items[0].integer(), items[1].integer()};
  } else {
    range.low = range.high = yaml.integer();
  }
  if (range.low < 1 || range.low > range.high) yaml.refuse("an impossible interval; write 1 <= low <= high");
  return range;
}

Conditions read_conditions(const Members& rule) {
  Conditions conditions;
  const auto member = [&](const char* name) {
    const auto found = rule.find(name);
    return found == rule.end() ? nullptr : &found->second;
  };
  if (const Yaml* ranks = member("ranks")) conditions.ranks = read_range(*ranks);
  if (const Yaml* hosts = member("hosts")) conditions.hosts = read_range(*hosts);
  if (const Yaml* nvls = member("nvls")) conditions.nvls = nvls->choice({"on", "off"}) == "on";
  if (const Yaml* tier = member("tier")) conditions.tier = tier->value_of<Tier>();
  if (const Yaml* since = member("since")) conditions.since = since->integer();
  return conditions;
}

// Reads the reference of the source and the permitted shortfall, which is `margin` as a fraction or `within` in
// percent.
void read_reference(const Members& rule, const std::string& metric, Limits& limits) {
  const char* const word = rule.contains("within") ? "within" : "margin";
  if (!rule.contains("reference")) {
    if (rule.contains(word)) rule.at(word).refuse(std::string(word) + " without \"reference\"; add the reference");
    return;
  }
  const double reference = rule.at("reference").number();
  if (reference <= 0) rule.at("reference").refuse("a reference must be above 0; correct it");
  if (!rule.contains(word)) rule.at("reference").refuse("reference without \"margin\"; add one, as in margin: 0.10");
  if (rule.contains("within") && rule.contains("margin"))
    rule.at("margin").refuse("margin and within; keep one of them");
  for (const char* other : {"min", "max", "equals"}) {
    if (rule.contains(other))
      rule.at(other).refuse(std::string(other) + " with reference and margin; keep one of them");
  }
  const double margin = rule.at(word).number() / (rule.contains("within") ? 100 : 1);
  const bool lower = lower_is_better(metric);
  if (margin <= 0) rule.at(word).refuse("a margin must be above 0; correct it");
  if (margin >= 1 && !lower)
    rule.at(word).refuse("no value is below that floor; write 0 < margin < 1, or 0 < within < 100");
  limits.reference = reference;
  // Rounds as a verdict prints, so that a value that looks equal to the limit meets it.
  (lower ? limits.max : limits.min) = std::stod(number_text(reference * (1 + (lower ? margin : -margin))));
}

Limits read_limits(const Members& rule, const Yaml& yaml, const std::string& metric, bool of_text) {
  Limits limits;
  if (rule.contains("same")) {
    limits.same = rule.at("same").boolean();
    if (!limits.same) rule.at("same").refuse("same: false has no effect; remove it");
    for (const char* other :
         {"min", "max", "equals", "at_least", "spread_max", "cv_max", "samples_min", "reference", "margin", "within"}) {
      if (rule.contains(other)) rule.at(other).refuse(std::string(other) + " with same; keep one of them");
    }
    return limits;
  }
  if (of_text) {
    for (const char* other : {"min", "max", "spread_max", "cv_max", "samples_min", "reference", "margin", "within"}) {
      if (rule.contains(other)) rule.at(other).refuse("a text has no " + std::string(other) + "; write equals or same");
    }
    if (!rule.contains("equals") && !rule.contains("at_least"))
      yaml.refuse("a rule without a limit; add equals, at_least or same");
    if (rule.contains("at_least")) limits.at_least = rule.at("at_least").text();
    if (!rule.contains("equals")) return limits;
    const Yaml& equals = rule.at("equals");
    for (const Yaml& text : equals.is_list() ? equals.items() : std::vector{equals}) {
      limits.equals_text.push_back(text.text());
    }
    if (limits.equals_text.empty()) equals.refuse("an empty list; name a text");
    return limits;
  }
  if (rule.contains("at_least")) rule.at("at_least").refuse("at_least is for facts that are texts; write min");
  const auto read = [&](const char* name, std::optional<double>& limit) {
    const auto found = rule.find(name);
    if (found == rule.end()) return;
    limit = found->second.number();
    if (*limit < 0) found->second.refuse(std::string(name) + " is negative, but no metric can be");
  };
  read("min", limits.min);
  if (limits.min == 0) rule.at("min").refuse("min: 0 cannot fail; write the value of a healthy machine");
  read("max", limits.max);
  read("equals", limits.equals);
  read("spread_max", limits.spread_max);
  read("cv_max", limits.cv_max);
  read_reference(rule, metric, limits);
  if (rule.contains("samples_min")) {
    limits.samples_min = rule.at("samples_min").integer();
    if (*limits.samples_min < 1) rule.at("samples_min").refuse("samples_min must be at least 1; correct it");
  }
  if (!limits.min && !limits.max && !limits.equals && !limits.spread_max) {
    yaml.refuse(limits.cv_max ? "cv_max alone cannot fail; add min, max, equals, spread_max or reference"
                              : "a rule without a limit; add min, max, equals, spread_max or reference");
  }
  if (limits.min && limits.max && *limits.min > *limits.max) {
    rule.at("min").refuse("min " + number_text(*limits.min) + " is above max " + number_text(*limits.max) +
                          "; no value can pass");
  }
  if (limits.equals && (limits.min || limits.max)) {
    rule.at("equals").refuse("equals with min or max; keep one of them");
  }
  return limits;
}

const Yaml& required(const Members& members, const char* name, const Yaml& parent, const std::string& what) {
  const auto found = members.find(name);
  if (found == members.end()) parent.refuse(what + " without \"" + name + "\"; add it");
  return found->second;
}

// A floor must be possible wherever the rule applies. Ceilings increase with the number of ranks and decrease with the
// number of hosts.
void refuse_floor_above_ceiling(const Rule& rule, const Profile& profile, const Yaml& place) {
  const auto floor = rule.limits.equals ? rule.limits.equals : rule.limits.min;
  if (!floor) return;
  const auto& [ranks, hosts, nvls, tier, since] = rule.conditions;
  for (const int m : {hosts.low, hosts.high}) {
    const int n = std::max({ranks.low, 2, std::min(m, ranks.high)});
    const auto bound = ceiling(profile.peak, rule.benchmark, rule.metric, {n, m, nvls.value_or(true)});
    if (bound && *floor > *bound) {
      const bool depends = is_collective(rule.benchmark.family());
      place.refuse("floor " + number_text(*floor) + " is above the physical ceiling " + number_text(*bound) + " " +
                   unit_of(rule.metric) + (depends ? " at " + std::to_string(n) + " ranks" : std::string()) +
                   "; lower it, narrow ranks and hosts, or correct peak");
    }
  }
}

// A rule of pre-flight must be about a fact of ranks or of hosts.
void require_fact(const Rule& rule, const Members& members) {
  if (rule.benchmark.part("of").empty() || known_facts(rule.benchmark) == known_facts("")) {
    members.at("benchmark").refuse("unknown part of pre-flight; known are " + known_facts(""));
  }
  if (!fact_kind(rule.benchmark, rule.metric)) {
    members.at("metric").refuse("unknown fact \"" + rule.metric + "\" of " + rule.benchmark.text() + "; known are " +
                                known_facts(rule.benchmark));
  }
  const Every right = is_of_host(rule.benchmark) ? Every::host : Every::rank;
  if (rule.every != right) {
    members.at("every").refuse("facts of " + rule.benchmark.text() + " are those of a " + std::string(name(right)) +
                               "; write every: " + std::string(name(right)));
  }
}

// If a stored machine misses the limit, it is not healthy or the limit is wrong.
Seen read_seen(const Yaml& yaml, const Limits& limits) {
  const Members members = yaml.members({"low", "high", "gpus"});
  const auto number = [&](const char* name) { return required(members, name, yaml, "seen").number(); };
  const Seen seen{number("low"), number("high"), required(members, "gpus", yaml, "seen").integer()};
  if (seen.low > seen.high || seen.gpus < 1) yaml.refuse("no GPU can have this; write low <= high and gpus >= 1");
  if (seen.low < limits.min.value_or(seen.low) || seen.high > limits.max.value_or(seen.high)) {
    yaml.refuse("a stored run is beyond the limit of the rule; correct one of them");
  }
  return seen;
}

Rule read_rule(const Yaml& yaml, const Profile& profile) {
  const Members members = yaml.members(
      {"benchmark", "metric",      "every",     "min",    "max",      "equals",    "same",     "spread_max",
       "cv_max",    "samples_min", "reference", "margin", "at_least", "where",     "source",   "ranks",
       "hosts",     "nvls",        "tier",      "since",  "optional", "may_waive", "severity", "severity_with_fabric",
       "seen",      "within"});
  Rule rule;
  rule.at = yaml.at();
  rule.benchmark = read_benchmark(required(members, "benchmark", yaml, "a rule"));
  const std::string& family = rule.benchmark.family();
  const Yaml& metric = required(members, "metric", yaml, "a rule");
  rule.metric = metric.text();
  const bool is_fact = family == "preflight";
  if (!is_fact && !is_known_metric(family, rule.metric)) {
    metric.refuse("unknown metric \"" + rule.metric + "\" of " + family + "; known are " + metrics_text(family));
  }
  const Yaml& every = required(members, "every", yaml, "a rule");
  rule.every = every.value_of<Every>();
  if (is_fact) require_fact(rule, members);
  if (!is_fact && rule.every == Every::host) every.refuse("every: host is for facts of pre-flight; write run or rank");
  if (rule.every == Every::rank && is_collective(family)) {
    every.refuse("ranks of a collective wait for each other, so none has a value of its own; write every: run");
  }
  rule.limits =
      read_limits(members, yaml, rule.metric, is_fact && fact_kind(rule.benchmark, rule.metric) == FactKind::text);
  if (!is_fact && rule.limits.same) {
    members.at("same").refuse("only facts of pre-flight can be the same; write spread_max");
  }
  if (rule.limits.spread_max && rule.every == Every::run) {
    members.at("spread_max").refuse("spread_max compares ranks; write every: rank");
  }
  if (members.contains("where")) {
    const Yaml& where = members.at("where");
    rule.where = where.text();
    if (!is_fact || !fact_kind(rule.benchmark, rule.where)) {
      where.refuse("unknown fact \"" + rule.where + "\" of " + rule.benchmark.text() + "; known are " +
                   known_facts(rule.benchmark));
    }
  }
  rule.source = required(members, "source", yaml, "a rule").text();
  if (members.contains("seen")) rule.seen = read_seen(members.at("seen"), rule.limits);
  rule.conditions = read_conditions(members);
  if (members.contains("optional")) rule.optional = members.at("optional").value_of<Optional>();
  if (members.contains("may_waive")) rule.may_waive = members.at("may_waive").boolean();
  if (members.contains("severity")) {
    rule.severity = members.at("severity").value_of<Severity>();
  }
  if (members.contains("severity_with_fabric")) {
    rule.severity_with_fabric = members.at("severity_with_fabric").value_of<Severity>();
  }
  refuse_floor_above_ceiling(rule, profile,
                             members.contains("min")         ? members.at("min")
                             : members.contains("reference") ? members.at("reference")
                                                             : yaml);
  return rule;
}

// True if two rules judge the same value, which is not permitted. There are two exceptions: a warning before a failure,
// and `same` in addition to another limit, because equal values may all be wrong.
bool overlap(const Rule& a, const Rule& b) {
  const auto compatible = [](const auto& x, const auto& y) { return !x || !y || *x == *y; };
  return a.benchmark == b.benchmark && a.metric == b.metric && a.every == b.every && a.severity == b.severity &&
         a.limits.same == b.limits.same && a.conditions.ranks.overlaps(b.conditions.ranks) &&
         a.conditions.hosts.overlaps(b.conditions.hosts) && compatible(a.conditions.nvls, b.conditions.nvls) &&
         compatible(a.conditions.tier, b.conditions.tier);
}

bool have_same_subject(const Rule& a, const Rule& b) {
  const Conditions &x = a.conditions, &y = b.conditions;
  return a.benchmark == b.benchmark && a.metric == b.metric && a.every == b.every && a.limits.same == b.limits.same &&
         x.ranks == y.ranks && x.hosts == y.hosts && x.nvls == y.nvls && x.tier == y.tier;
}

void refuse_overlap(const Rule& rule, const Rule& earlier, const Yaml& place, const char* advice) {
  if (overlap(rule, earlier)) place.refuse("judges the same value as the rule at " + earlier.at + "; " + advice);
}

/// Adds the rules of a list at the end of the profile.
void read_rules(const Yaml& yaml, Profile& profile) {
  const auto items = yaml.items();
  if (items.empty()) yaml.refuse("no rules: the profile would pass everything; add rules");
  for (const Yaml& item : items) {
    Rule rule = read_rule(item, profile);
    for (const Rule& earlier : profile.rules) {
      refuse_overlap(rule, earlier, item, "remove one, or keep their ranks, hosts, nvls or tier apart");
    }
    profile.rules.push_back(std::move(rule));
  }
}

Match read_match(const Yaml& yaml) {
  const Members members = yaml.members({"backend", "device"});
  Match match;
  const Yaml& backend = required(members, "backend", yaml, "match");
  match.backend = backend.value_of<Backend>();
  if (match.backend == Backend::virtual_gpu) backend.refuse("virtual GPUs have the profile of cuda; write cuda");
  if (const auto device = members.find("device"); device == members.end()) {
    if (match.backend == Backend::cuda)
      yaml.refuse("match without \"device\"; name the GPU, as in device: \"NVIDIA H200\"");
  } else if (device->second.is_list()) {
    for (const Yaml& item : device->second.items()) match.devices.push_back(item.text());
    if (match.devices.empty()) device->second.refuse("an empty list matches nothing; name a device");
  } else if (device->second.text() != "any") {
    match.devices.push_back(device->second.text());
  }
  return match;
}

std::map<std::string, double> read_peak(const Yaml& yaml) {
  std::map<std::string, double> peak;
  const Members members =
      yaml.members({"f64_tflops", "f32_tflops", "tf32_tflops", "f16_tflops", "bf16_tflops", "fp8_e4m3_tflops",
                    "int8_tflops", "nvfp4_tflops", "mxfp8_tflops", "tensor_mhz", "hbm_gb_per_s", "nvlink_gb_per_s",
                    "nvlink_flits", "c2c_gb_per_s", "nics", "nic_gbit", "source"});
  required(members, "source", yaml, "peak").text();
  for (const auto& [name, value] : members) {
    if (name == "source") continue;
    peak[name] = value.number();
    if (peak[name] <= 0) value.refuse(name + " must be above 0; correct it or leave it out");
  }
  return peak;
}

// Reads {samples_min: 10, cv_max: {gemm: 0.2, ...}, source: "..."}.
void read_repeatability(const Yaml& yaml, Profile& profile) {
  const Members members = yaml.members({"samples_min", "cv_max", "source"});
  required(members, "source", yaml, "repeatability").text();
  const Yaml& samples = required(members, "samples_min", yaml, "repeatability");
  profile.samples_min = samples.integer();
  profile.cv_max.clear();  // drops the limits of an earlier part
  if (*profile.samples_min < 1) samples.refuse("samples_min must be at least 1; correct it");
  if (!members.contains("cv_max")) return;
  for (const auto& [family, limit] : members.at("cv_max").members()) {
    if (!is_catalogued(family) || family.empty()) limit.refuse("unknown family \"" + family + "\"; correct it");
    if (!(limit.number() > 0)) limit.refuse("cv_max must be above 0; correct it");
    profile.cv_max[family] = limit.number();
  }
}

void require_schema(const Members& members, const Yaml& yaml) {
  const Yaml& schema = required(members, "schema", yaml, "a profile");
  if (schema.integer() == thresholds_schema) return;
  schema.refuse("schema " + std::to_string(schema.integer()) + ", this program reads " +
                std::to_string(thresholds_schema) + ", in which a rule without ranks or hosts applies everywhere; " +
                "use the matching release, or add hosts: 1 to rules for one host");
}

void require_name(const Members& members, const char* key, const Yaml& yaml, const fs::path& file) {
  const Yaml& name = required(members, key, yaml, std::string("a ") + key);
  if (name.text() == file.stem()) return;
  name.refuse(std::string(key) + " \"" + name.text() + "\" in a file named " + file.filename().string() +
              "; give both the same name");
}

// Reads each part once, although several profiles include it.
class Files {
 public:
  const Yaml& operator[](const fs::path& file) {
    auto& [path, yaml] = *parsed_.try_emplace(file).first;
    if (!yaml) yaml = Yaml::load(path);
    return *yaml;
  }

 private:
  std::map<fs::path, std::optional<Yaml>> parsed_;
};

bool is_file(const fs::path& path) {
  const TimedCall call("stat", path);
  return fs::is_regular_file(path);
}

// Reads the families that need no rule. "families.yaml" stands for all families that this table leaves unjudged on the
// backend of the profile.
void read_unjudged(const Yaml& yaml, Profile& profile) {
  const auto add = [&](std::string_view family) {  // adds a family once, although a part may also list it
    auto& all = profile.unjudged;
    if (std::find(all.begin(), all.end(), family) == all.end()) all.emplace_back(family);
  };
  for (const Yaml& item : yaml.items()) {
    const std::string word = item.text();
    if (word == "families.yaml") {
      for (const FamilyRow& row : family_rows()) {
        if (row.on(profile.match.backend) == Need::unjudged) add(row.name);
      }
    } else {
      if (!is_family(word)) item.refuse("not a family; write the first word of its keys");
      add(word);
    }
  }
}

// Reads the members that both parts and profiles can have. Repeatability replaces that of an earlier part.
void read_shared(const Members& members, Profile& profile) {
  if (const auto part = members.find("repeatability"); part != members.end()) read_repeatability(part->second, profile);
  if (const auto part = members.find("unjudged"); part != members.end()) read_unjudged(part->second, profile);
}

// Adds an included part, as if its rules were at the beginning of this profile.
void include_part(const Yaml& name, Profile& profile, Files& files) {
  const fs::path file = profile.file.parent_path() / name.text();
  if (fs::path(name.text()).filename() != name.text() || !is_file(file)) {
    name.refuse("\"" + name.text() +
                "\" is not a file next to this one; name a part as in include: nvidia-preflight.yaml");
  }
  const Yaml& yaml = files[file];
  const Members members = yaml.members({"schema", "part", "repeatability", "unjudged", "rules"});
  require_schema(members, yaml);
  require_name(members, "part", yaml, file);
  read_shared(members, profile);
  read_rules(required(members, "rules", yaml, "a part"), profile);
}

Profile load_profile(const fs::path& file, Files& files) {
  const Yaml& yaml = files[file];
  const Members members = yaml.members(
      {"schema", "profile", "match", "gpus_per_host", "peak", "repeatability", "unjudged", "include", "rules"});
  require_schema(members, yaml);
  require_name(members, "profile", yaml, file);
  Profile profile;
  profile.file = file;
  profile.name = file.stem();
  profile.match = read_match(required(members, "match", yaml, "a profile"));
  if (const auto count = members.find("gpus_per_host"); count != members.end()) {
    profile.gpus_per_host = count->second.integer();
    if (*profile.gpus_per_host < 1) count->second.refuse("gpus_per_host must be at least 1; correct it");
  }
  if (members.contains("peak")) profile.peak = read_peak(members.at("peak"));
  if (const auto part = members.find("include"); part != members.end()) {
    for (const Yaml& name : part->second.is_list() ? part->second.items() : std::vector{part->second}) {
      include_part(name, profile, files);
    }
  }
  read_shared(members, profile);
  read_rules(required(members, "rules", yaml, "a profile"), profile);
  return profile;
}

}  // namespace

void add_site_rules(const Yaml& yaml, Profile& profile) {
  std::vector<Rule> rules = std::exchange(profile.rules, {});
  read_rules(yaml, profile);
  const auto items = yaml.items();
  std::erase_if(rules, [&](const Rule& shipped) {
    bool replaced = false;
    for (std::size_t i = 0; i < items.size(); ++i) {
      Rule& own = profile.rules[i];
      if (have_same_subject(own, shipped)) {
        own.replaces += (own.replaces.empty() ? "" : "; ") + shipped.at + ": " + shipped.source;
        replaced = true;
      } else {
        refuse_overlap(own, shipped, items[i],
                       "to replace that rule, give this one the same ranks, hosts, nvls and tier");
      }
    }
    return replaced;
  });
  profile.rules.insert(profile.rules.begin(), rules.begin(), rules.end());
}

std::vector<Profile> load_profiles(const fs::path& file_or_folder) {
  std::error_code error;
  Files parsed;
  if (!is_folder(file_or_folder)) return {load_profile(file_or_folder, parsed)};
  std::vector<fs::path> files;
  const TimedCall call("list", file_or_folder);
  const fs::directory_iterator entries(file_or_folder, error);
  if (error) refuse_to_read(file_or_folder, error);
  for (const auto& entry : entries) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  if (files.empty()) throw InputError(file_or_folder.string() + ":1:1: no *.yaml in this folder; check --thresholds");
  std::sort(files.begin(), files.end());
  std::vector<Profile> profiles;
  for (const fs::path& file : files) {
    if (!parsed[file].members().contains("part")) profiles.push_back(load_profile(file, parsed));
  }
  if (profiles.empty())
    throw InputError(file_or_folder.string() + ":1:1: no profile in this folder; check --thresholds");
  return profiles;
}

}  // namespace shakedown
