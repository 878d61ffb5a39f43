// Limits of machines: one YAML profile per kind of machine. The strict loader, and the physical ceilings. Pure except
// for reading the files.
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

namespace shakedown {

inline constexpr int thresholds_schema = 2;

enum class Every { run, rank, host };  // judges the value of the run, of every rank, or of every host

constexpr auto words(Every) { return names("run", "rank", "host"); }

/// Closed interval of a condition.
struct Range {
  int low = 1;
  int high = std::numeric_limits<int>::max();
  bool contains(int n) const { return low <= n && n <= high; }
  bool overlaps(const Range& other) const { return low <= other.high && other.low <= high; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// The conditions of a rule. A missing condition always holds.
struct Conditions {
  Range ranks, hosts;
  std::optional<bool> nvls;
  std::optional<Tier> tier;
  int since = 1;  // the first plan with the row (Context::plan): earlier runs do not need it
};

struct Limits {
  std::optional<double> min, max, equals, spread_max, cv_max;
  std::vector<std::string> equals_text = {};           // for facts that are texts: permitted values
  std::optional<std::string> at_least = std::nullopt;  // for facts that are versions: "535.129"
  bool same = false;                                   // all must have the majority's value; others are named
  std::optional<int> samples_min = std::nullopt;       // the minimum number of samples
  std::optional<double> reference = std::nullopt;      // the origin of min or max
};

/// One limit on one metric of one benchmark. `benchmark` is a key or, with wildcards, stands for local ranks, whatever
/// the number of hosts: "src:*/dst:*" for every ordered pair of them, with "dir:both" for every pair once, src < dst;
/// "shift:*" for every step but 0; "active:one/rank:*" for every one.
/// Where the absence of a rule's row is no gap. In quick: only a closer look measures it there. Anywhere: only some
/// sites have what it is about, a scheduler for example.
enum class Optional { never, quick, anywhere };
constexpr auto words(Optional) { return names("never", "quick", "anywhere"); }

/// The absence of a row of a rule with `optional: quick` is a gap in the full tier only. A limit is min or max, or the
/// `reference` of the source and the `margin` of a healthy machine below it.
struct Rule {
  Key benchmark;
  std::string metric;
  Every every = Every::run;
  Limits limits;
  Conditions conditions;
  bool may_waive = false;
  Optional optional = Optional::never;
  Severity severity = Severity::fail;
  std::optional<Severity> severity_with_fabric = std::nullopt;  // instead, if a site file names the NICs
  std::optional<Seen> seen = std::nullopt;  // marks the figure of its family in the report of a good run
  std::string where;  // another fact: the rule applies if it is known and not 0; empty: always
  std::string source;
  std::string at;        // "thresholds/h200-sxm.yaml:12"
  std::string replaces;  // place and source of the rule that a site's rule replaces; empty: none

  bool wildcard() const {
    return std::ranges::any_of(benchmark.parts(), [](const Key::Part& p) { return p.second == "*"; });
  }
};

/// The machines of a profile. No device list = any device of that backend.
struct Match {
  Backend backend = Backend::cuda;
  std::vector<std::string> devices;
};

struct Profile {
  std::string name;
  std::filesystem::path file;
  Match match;
  Peaks peak;
  std::vector<std::string> unjudged;                // families without rules; a comment in the file says why
  std::vector<Rule> rules;                          // first those of the included parts
  std::optional<int> gpus_per_host = std::nullopt;  // of this kind of machine
  // For every timed row, with or without a rule: fewer samples, or a larger cv, make it inconclusive.
  std::optional<int> samples_min = std::nullopt;
  std::map<std::string, double> cv_max = {};  // by family
  std::vector<std::string> excused = {};      // families that need no judgement at this site
};

/// Reads one profile, or every profile of a folder, sorted by name. Members that several profiles share are in a part
/// in the same folder (`part: nvidia-preflight` instead of profile, match and peak), listed under `include`: rules,
/// `unjudged` and `repeatability`. Errors: InputError "file:line:column: what; what to do".
std::vector<Profile> load_profiles(const std::filesystem::path& file_or_folder);

class Yaml;
/// Adds a site's rules to the profile. Each replaces the profile's rules for the same benchmark and metric under the
/// same conditions, whatever their severity. Errors: as above.
void add_site_rules(const Yaml&, Profile&);

}  // namespace shakedown
