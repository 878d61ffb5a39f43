#include "thresholds/rules/read_rule.hpp"

#include <algorithm>
#include <cctype>

#include "base/text.hpp"
#include "thresholds/catalogue/preflight_facts.hpp"

namespace shakedown {
namespace {

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

}  // namespace

bool is_family(std::string_view word) {
  return !word.empty() && word != "machine" && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_';
  });
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
    members.at("same").refuse("`same` limits only facts of pre-flight; for a measured value write spread_max");
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

}  // namespace shakedown
