// A site file describes a cluster, and a profile describes a kind of machine. This file has the strict loader of site
// files, and the function that applies a site file to a profile. The functions are pure, except for reading the file.
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
  std::optional<std::string> include;  // name of a profile
  std::vector<std::string> roster;     // hosts that must report
  std::optional<SiteFabric> fabric;
  std::vector<std::string> rails;               // ports that carry data between hosts, such as "mlx5_3/1", sorted
  std::map<std::string, std::string> topology;  // by host: leaf switch
  std::map<std::string, std::string> racks;     // by host: rack
  std::map<std::string, double> storage;        // by metric: floor for a host in the shared folder
  std::string storage_source;
  std::optional<std::filesystem::path> ledger;  // folder of events (thresholds/ledger)
  std::vector<Rule> order;                      // one rule for each number of the order
  std::vector<std::string> unjudged;            // families that are measured here but need no judgement
};

/// Reads a site file. Errors: InputError "file:line:column: what is wrong; how to fix it". The rules of the site file
/// are checked later, when they are added to a profile.
Site read_site(const std::filesystem::path& file);

/// Returns the profile for this run, with the limits and peaks of the site. If there are several hosts, the limits of
/// one host apply inside each (scope:node), and limits between hosts are computed from the network. `site` is null if
/// there is no site file; the rate of the NICs is then the one that pre-flight has read, if any. Errors: those of
/// read_site, and InputError for rules that are impossible.
Profile on_site(const Profile&, const Site* site, const Measured&);

/// Returns the profiles from which to choose: the one that the site includes, or all. Errors: InputError if no profile
/// has the included name.
std::vector<Profile> profiles_of(const Site*, std::vector<Profile>);

}  // namespace shakedown
