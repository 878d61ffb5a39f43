// Validates site files, and computes what a network should reach.
#include "thresholds/rules/site.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "base/host_list.hpp"
#include "base/text.hpp"
#include "thresholds/catalogue/preflight_facts.hpp"
#include "thresholds/rules/fabric_rates.hpp"
#include "thresholds/rules/storage_rules.hpp"
#include "thresholds/rules/strict_yaml.hpp"

namespace shakedown {
namespace {

int positive(const Yaml& yaml, const char* name) {
  const int value = yaml.integer();
  if (value < 1) yaml.refuse(std::string(name) + " must be at least 1; correct it");
  return value;
}

double above_zero(const Yaml& yaml, const std::string& name) {
  const double value = yaml.number();
  if (value <= 0) yaml.refuse(name + " must be above 0; correct it");
  return value;
}

SiteFabric read_fabric(const Yaml& yaml) {
  const Members members = yaml.members({"nics", "nic_gbit", "nvlink_domain", "source"});
  SiteFabric fabric;
  fabric.nics = positive(required(members, "nics", yaml, "fabric"), "nics");
  const Yaml& rate = required(members, "nic_gbit", yaml, "fabric");
  fabric.nic_gbit = above_zero(rate, "nic_gbit");
  // The slowest and the fastest ports on the market have 1 and 800 Gb/s. A value such as 50 or 50000 is a rate in GB/s
  // or Mb/s.
  if (fabric.nic_gbit < 1 || fabric.nic_gbit > 3200) {
    rate.refuse("nic_gbit is the rate of one NIC in Gb/s, such as 400; correct it");
  }
  if (const auto domain = members.find("nvlink_domain"); domain != members.end()) {
    fabric.nvlink_domain = positive(domain->second, "nvlink_domain");
  }
  fabric.source = required(members, "source", yaml, "fabric").text();
  return fabric;
}

/// How an item of an order is compared with its fact of pre-flight.
enum class Ordered { least, version, text };
struct Item {
  const char *name, *part, *fact;
  Ordered kind;
};
constexpr std::array items{
    Item{"gpus", "host", "gpus_pci", Ordered::least},
    Item{"gpu_memory_gb", "gpu", "memory_gb", Ordered::least},
    Item{"power_limit_w", "gpu", "power_limit_w", Ordered::least},
    Item{"vbios", "gpu", "vbios", Ordered::text},
    Item{"nvlinks", "nvlink", "nvlinks_up", Ordered::least},
    Item{"host_memory_gb", "host", "memory_gb", Ordered::least},
    Item{"cores", "host", "cores", Ordered::least},
    Item{"driver", "host", "driver", Ordered::version},
    Item{"nic_firmware", "host", "ib_firmware", Ordered::text},
    Item{"kernel", "host", "kernel", Ordered::text},
};

Rule rule_of_site(const char* part, const char* fact, const std::string& source, const std::string& at) {
  Rule rule;
  rule.benchmark = Key(std::string("preflight/of:") + part);
  rule.metric = fact;
  rule.every = is_of_host(rule.benchmark) ? Every::host : Every::rank;
  rule.source = source;
  rule.at = at;
  return rule;
}

void read_order(const Yaml& yaml, Site& site) {
  std::vector<std::string_view> known{"source"};
  for (const Item& item : items) known.emplace_back(item.name);
  const Members members = yaml.members(known);
  const std::string source = "ordered: " + required(members, "source", yaml, "order").text();
  for (const Item& item : items) {
    const auto found = members.find(item.name);
    if (found == members.end()) continue;
    Rule rule = rule_of_site(item.part, item.fact, source, site.file.string());
    switch (item.kind) {
      case Ordered::least: rule.limits.min = above_zero(found->second, item.name); break;
      case Ordered::version: rule.limits.at_least = found->second.text(); break;
      case Ordered::text: rule.limits.equals_text = {found->second.text()}; break;
    }
    site.order.push_back(std::move(rule));
  }
  if (site.order.empty()) yaml.refuse("order without an item; add one, such as gpus: 8");
}

void read_storage(const Yaml& yaml, Site& site) {
  const Members members = yaml.members({"read_gb_per_s", "write_gb_per_s", "source"});
  site.storage_source = required(members, "source", yaml, "storage").text();
  for (const auto& [name, value] : members) {
    if (name != "source") site.storage[name] = above_zero(value, name);
  }
  if (site.storage.empty()) yaml.refuse("storage without a floor; add read_gb_per_s or write_gb_per_s");
}

std::vector<std::string> read_words(const Yaml& yaml, const char* what) {
  std::vector<std::string> words;
  for (const Yaml& item : yaml.items()) {
    const auto word = item.text();
    if (std::find(words.begin(), words.end(), word) != words.end()) {
      item.refuse(std::string(what) + " \"" + word + "\" is listed twice; remove one");
    }
    words.push_back(word);
  }
  if (words.empty()) yaml.refuse(std::string("no ") + what + "; leave the list out, or fill it");
  return words;
}

// Expands host lists, in which "node[1-3]" is three hosts.
std::vector<std::string> read_hosts(const Yaml& yaml) {
  std::vector<std::string> hosts;
  std::set<std::string> seen;
  for (const std::string& word : read_words(yaml, "host")) {
    for (std::string& host : expand_hosts(word)) {
      if (!seen.insert(lower(host)).second) yaml.refuse("host \"" + host + "\" is listed twice; remove one");
      hosts.push_back(std::move(host));
    }
  }
  return hosts;
}

// Returns the names of ports. "mlx5_[0-3]" is four of them. A name without a number is the first port of the device.
std::vector<std::string> read_rails(const Yaml& yaml) {
  std::set<std::string> rails;
  for (const std::string& word : read_words(yaml, "rail")) {
    for (const std::string& name : expand_hosts(word)) {
      const auto rail = name.find('/') == std::string::npos ? name + "/1" : name;
      if (!rails.insert(rail).second) yaml.refuse("rail \"" + rail + "\" is listed twice; remove one");
    }
  }
  return {rails.begin(), rails.end()};
}

Rule rule_of_rails(const Site& site) {
  Rule rule = rule_of_site("host", "rail_names", "rails of the site file", site.file.string());
  rule.limits.equals_text = {joined(site.rails)};
  return rule;
}

// Returns the place of every host of the roster.
std::map<std::string, std::string> read_places(const Members& members, const char* name, const char* place,
                                               const std::vector<std::string>& roster) {
  std::map<std::string, std::string> places;
  if (!members.contains(name)) return places;
  const std::set<std::string> known(roster.begin(), roster.end());
  for (const auto& [host, where] : members.at(name).members()) {
    if (!known.empty() && !known.contains(host)) {
      where.refuse("host \"" + host + "\" is not in the roster; correct one of them");
    }
    places[host] = where.text();
  }
  for (const auto& host : roster) {
    if (!places.contains(host)) {
      members.at(name).refuse("host \"" + host + "\" of the roster has no " + place + "; add it");
    }
  }
  return places;
}

Members members_of(const Yaml& yaml) {
  return yaml.members({"schema", "site", "include", "roster", "order", "fabric", "rails", "topology", "racks",
                       "storage", "ledger", "unjudged", "contract", "rules"});
}

/// Adds the figures that a contract promises. Each has the percentage by which a machine may be below it.
void add_contract(const Yaml& yaml, Profile& profile) {
  const auto items = yaml.items();
  for (const Yaml& item : items) {
    if (!item.members().contains("within"))
      item.refuse("a contract without \"within\"; add the percent, as in within: 5");
  }
  add_site_rules(yaml, profile);
  for (auto rule = profile.rules.end() - static_cast<std::ptrdiff_t>(items.size()); rule != profile.rules.end();
       ++rule) {
    rule->source = "contract: " + rule->source;
  }
}

/// Returns rules for the NICs of the order. These rules are needed because a comparison of hosts shows nothing if all
/// NICs run at half rate, or if one is missing on every host.
std::vector<Rule> rules_of_nics(const SiteFabric& fabric, const std::string& at, const Measured& measured) {
  const auto least = [&](const char* fact, double limit, const char* where) {
    Rule rule = rule_of_site("host", fact, "fabric: " + fabric.source, at);
    rule.limits.min = limit;
    rule.where = where;
    return rule;
  };
  std::vector<Rule> rules{least("nics", fabric.nics, "")};
  // Results of earlier releases do not have the number of rails. The run then passes with a warning.
  const auto host = measured.benchmarks.find(rules.front().benchmark);
  if (host != measured.benchmarks.end() && rank_texts(host->second, "rail_ports").empty())
    rules.front().severity = Severity::warn;
  for (const std::string layer : {"ib", "roce", "efa"}) {
    rules.push_back(least((layer + "_rate_gbit").c_str(), fabric.nic_gbit, (layer + "_ports").c_str()));
  }
  return rules;
}

}  // namespace

Site read_site(const std::filesystem::path& file) {
  const Yaml yaml = Yaml::load(file);
  const Members members = members_of(yaml);
  if (const Yaml& schema = required(members, "schema", yaml, "a site"); schema.integer() != thresholds_schema) {
    schema.refuse("schema " + std::to_string(schema.integer()) + ", this program reads " +
                  std::to_string(thresholds_schema));
  }
  Site site;
  site.file = file;
  site.name = required(members, "site", yaml, "a site").text();
  if (members.contains("include")) site.include = members.at("include").text();
  if (members.contains("roster")) site.roster = read_hosts(members.at("roster"));
  if (members.contains("order")) read_order(members.at("order"), site);
  if (members.contains("fabric")) site.fabric = read_fabric(members.at("fabric"));
  if (members.contains("rails")) site.rails = read_rails(members.at("rails"));
  const auto count = static_cast<int>(site.rails.size());
  if (site.fabric && count > 0 && count != site.fabric->nics) {
    members.at("rails").refuse(fmt::format("{}, and fabric has {} nics; correct one of them",
                                           plural(site.rails.size(), "rail"), site.fabric->nics));
  }
  site.topology = read_places(members, "topology", "leaf", site.roster);
  site.racks = read_places(members, "racks", "rack", site.roster);
  if (members.contains("storage")) read_storage(members.at("storage"), site);
  if (members.contains("ledger")) site.ledger = file.parent_path() / members.at("ledger").text();
  if (members.contains("unjudged")) site.unjudged = read_words(members.at("unjudged"), "family");
  return site;
}

Profile on_site(const Profile& profile, const Site* site, const Measured& measured) {
  Profile extended = profile;
  if (site != nullptr) {
    extended.name = profile.name + ", site " + site->name;
    extended.excused = site->unjudged;
    if (site->fabric) {
      extended.peak["nics"] = site->fabric->nics;
      extended.peak["nic_gbit"] = site->fabric->nic_gbit;
      for (Rule& shipped : extended.rules) shipped.severity = shipped.severity_with_fabric.value_or(shipped.severity);
    }
    std::vector<Rule> ordered = site->order;
    if (!site->rails.empty()) ordered.push_back(rule_of_rails(*site));
    if (site->fabric)
      std::ranges::copy(rules_of_nics(*site->fabric, site->file.string(), measured), std::back_inserter(ordered));
    for (Rule& rule : ordered) {
      if (measured.benchmarks.contains(rule.benchmark)) extended.rules.push_back(std::move(rule));
    }
    for (const auto& [metric, floor] : site->storage) {
      Rule rule = rule_of_site("folder", metric.c_str(), site->storage_source, site->file.string());
      rule.limits.min = floor;
      rule.may_waive = true;  // pre-flight was given no folder (--shared-folder)
      extended.rules.push_back(std::move(rule));
    }
    const Yaml yaml = Yaml::load(site->file);
    const Members members = members_of(yaml);
    if (members.contains("contract")) add_contract(members.at("contract"), extended);
    if (members.contains("rules")) add_site_rules(members.at("rules"), extended);
  }
  const auto floors =
      site == nullptr ? StorageFloors() : StorageFloors{site->storage, site->storage_source, site->file.string()};
  for (Rule& rule : rules_of_storage(floors, measured)) extended.rules.push_back(std::move(rule));
  const auto said = site != nullptr && site->fabric ? site->fabric : fabric_as_read(measured);
  for (Rule& rule : rules_between_hosts(extended, said, measured)) extended.rules.push_back(std::move(rule));
  return extended;
}

std::vector<Profile> profiles_of(const Site* site, std::vector<Profile> profiles) {
  if (site == nullptr || !site->include) return profiles;
  std::erase_if(profiles, [&](const Profile& profile) { return profile.name != *site->include; });
  if (profiles.empty()) {
    throw InputError(site->file.string() + ": include: there is no profile \"" + *site->include +
                     "\"; name one of the folder of profiles (--thresholds)");
  }
  return profiles;
}

}  // namespace shakedown
