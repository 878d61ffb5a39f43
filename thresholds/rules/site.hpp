// A site file describes a cluster; a profile describes a kind of machine. The strict loader, and the profile for the
// machines of a site. Pure except for reading the file.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/results/measured.hpp"
#include "thresholds/rules/profile.hpp"
#include "thresholds/rules/site_fabric.hpp"

namespace shakedown {

struct Site {
  std::string name;
  std::filesystem::path file;
  std::optional<std::string> include;  // name of the profile
  std::vector<std::string> roster;     // hosts that must report
  std::optional<SiteFabric> fabric;
  std::vector<std::string> rails;               // ports that carry data between hosts, "mlx5_3/1", sorted
  std::map<std::string, std::string> topology;  // host -> leaf switch
  std::map<std::string, std::string> racks;     // host -> rack
  std::map<std::string, double> storage;        // floors by metric for the shared folder that pre-flight tests
  std::string storage_source;
  std::optional<std::filesystem::path> ledger;  // folder of events (thresholds/ledger)
  std::vector<Rule> order;            // one rule for each ordered number
  std::vector<std::string> unjudged;  // families that are measured here but need no judgement
};

/// Reads a site file. Errors: InputError "file:line:column: what; what to do". Its rules are checked when a profile
/// receives them.
Site read_site(const std::filesystem::path& file);

/// Returns the profile for this run with the limits and peaks of the site. On several hosts, the limits of one host
/// apply inside each (scope:node), and limits between hosts follow from the network. `site` is null without a site
/// file; the rate of the NICs is then that of pre-flight, if known. Errors: as for read_site, for impossible rules.
Profile on_site(const Profile&, const Site* site, const Measured&);

/// Returns the profiles to choose from: the one that the site includes, or all. Errors: InputError if there is none of
/// that name.
std::vector<Profile> profiles_of(const Site*, std::vector<Profile>);

}  // namespace shakedown
