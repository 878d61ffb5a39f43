// Limits of machines: one YAML profile for each kind of machine, its strict loader, and the physical ceilings. The
// functions are pure, except for reading files.
#pragma once

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/findings/seen.hpp"
#include "thresholds/findings/severity.hpp"
#include "thresholds/results/results.hpp"
#include "thresholds/rules/reference_gpus.hpp"

namespace shakedown {

inline constexpr int thresholds_schema = 2;

enum class Every { run, rank, host };  // what the rule judges: the value of the run, of every rank, or of every host

constexpr auto words(Every) { return names("run", "rank", "host"); }

/// A closed interval, used in a condition.
struct Range {
  int low = 1;
  int high = std::numeric_limits<int>::max();
  bool contains(int n) const { return low <= n && n <= high; }
  bool overlaps(const Range& other) const { return low <= other.high && other.low <= high; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// The conditions under which a rule applies. A condition that is not set is always met.
struct Conditions {
  Range ranks, hosts;
  std::optional<bool> nvls;
  std::optional<Tier> tier;
  int since = 1;  // the first plan that has the row (Context::plan); earlier runs need not have it
};

struct Limits {
  std::optional<double> min, max, equals, spread_max, cv_max;
  std::vector<std::string> equals_text = {};  // for facts that are texts: the permitted values
  /// For facts that are versions: the lowest permitted one, such as "535.129".
  std::optional<std::string> at_least = std::nullopt;
  /// True: all must have the value of the majority; those with another value are named.
  bool same = false;
  std::optional<int> samples_min = std::nullopt;   // the minimum number of samples
  std::optional<double> reference = std::nullopt;  // the reference from which min or max is computed
};

/// Where a missing row of a rule is not a fault. quick: in the quick tier, which measures the row only for a closer
/// look. anywhere: in all tiers, because only some sites have the subject of the rule, such as a scheduler.
enum class Optional { never, quick, anywhere };
constexpr auto words(Optional) { return names("never", "quick", "anywhere"); }

/// One limit on one metric of one benchmark. `benchmark` is a key, or has wildcards for local ranks, whatever the
/// number of hosts: "src:*/dst:*" for every ordered pair of ranks, with "dir:both" for every pair once (src < dst),
/// "shift:*" for every step except 0, "active:one/rank:*" for every rank. A limit is min or max, or the `reference` of
/// the source and the `margin` by which a healthy machine may be below it.
struct Rule {
  Key benchmark;
  std::string metric;
  Every every = Every::run;
  Limits limits;
  Conditions conditions;
  bool may_waive = false;
  Optional optional = Optional::never;
  Severity severity = Severity::fail;
  std::optional<Severity> severity_with_fabric = std::nullopt;  // severity if a site file names the NICs
  std::optional<Seen> seen = std::nullopt;  // set for the figure of its family that the report of a good run shows
  std::string where;  // another fact; the rule applies if that fact is known and not 0; empty: the rule always applies
  std::string source;
  std::string at;        // place of the rule: "thresholds/h200-sxm.yaml:12"
  std::string replaces;  // for a rule of a site: place and source of the rule that it replaces; empty: none

  bool wildcard() const {
    return std::ranges::any_of(benchmark.parts(), [](const Key::Part& p) { return p.second == "*"; });
  }
};

/// The machines to which a profile applies. Without a list of devices, it applies to any device of that backend.
struct Match {
  Backend backend = Backend::cuda;
  std::vector<std::string> devices;
};

struct Profile {
  std::string name;
  std::filesystem::path file;
  std::vector<std::filesystem::path> parts;  // the files that it includes
  Match match;
  Peaks peak;
  /// Families that need no rules; a comment in the file gives the reason.
  std::vector<std::string> unjudged;
  std::vector<Rule> rules;                          // the rules of included parts are first
  std::optional<int> gpus_per_host = std::nullopt;  // number of GPUs in each host of this kind of machine
  // For every timed row, with or without a rule: a row with fewer samples, or with a larger cv, is inconclusive.
  std::optional<int> samples_min = std::nullopt;
  std::map<std::string, double> cv_max = {};         // by family
  std::vector<std::string> excused = {};             // families that need no judgement at this site
  std::optional<ReferenceGpus> reference_gpus = {};  // stored GPUs of this model
};

/// Reads one profile, or all profiles of a folder, sorted by name. Members that several profiles have in common are in
/// a part in the same folder (`part: nvidia-preflight` instead of profile, match and peak), which profiles list under
/// `include`. A part can have rules, `unjudged` and `repeatability`. Errors: InputError "file:line:column: what is
/// wrong; how to fix it".
std::vector<Profile> load_profiles(const std::filesystem::path& file_or_folder);

class Yaml;
/// Adds the rules of a site to the profile. Each replaces the rules of the profile that have the same benchmark, metric
/// and conditions; their severity does not matter. Errors: those of load_profiles.
void add_site_rules(const Yaml&, Profile&);

}  // namespace shakedown
