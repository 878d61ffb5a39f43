// A site file: what a cluster is made of, where a profile says what a kind of machine is. The strict loader, and a
// profile for the machines of a site. Pure but for reading the file.
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
  std::map<std::string, double> storage;        // floors by metric, of the shared folder that pre-flight tries
  std::string storage_source;
  std::vector<Rule> order;            // one rule for each number that was ordered
  std::vector<std::string> unjudged;  // families that are measured here and need no judgement
};

/// Errors: InputError "file:line:column: what; what to do". Own limits are looked at when a profile gets them.
Site read_site(const std::filesystem::path& file);

/// Returns the profile for this run: with the limits and peaks of the site; on several hosts the limits of one host
/// hold inside each (scope:node), and what is between hosts is expected from the network. `site`: null for none; the
/// rate of the NICs is then what pre-flight read, if it did. Errors: as read_site, for own limits that cannot be.
Profile on_site(const Profile&, const Site* site, const Measured&);

/// The profiles that are to be chosen from: the one that the site includes, or all. Errors: InputError if there is none
/// of that name.
std::vector<Profile> profiles_of(const Site*, std::vector<Profile>);

}  // namespace shakedown
