// Limits of machines: one YAML profile per kind of machine. The strict loader, and the table of physical ceilings.
// Pure but for reading the files.
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

enum class Every { run, rank, host };  // judge the value of the run, every rank's own, or every host's

constexpr auto words(Every) { return names("run", "rank", "host"); }

/// Closed interval of a condition.
struct Range {
  int low = 1;
  int high = std::numeric_limits<int>::max();
  bool contains(int n) const { return low <= n && n <= high; }
  bool overlaps(const Range& other) const { return low <= other.high && other.low <= high; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// When a rule applies; what it does not say holds anywhere.
struct Conditions {
  Range ranks, hosts;
  std::optional<bool> nvls;
  std::optional<std::string> tier;
  int since = 1;  // the first plan that has the row (Context::plan): runs of earlier ones are not asked for it
};

struct Limits {
  std::optional<double> min, max, equals, spread_max, cv_max;
  std::vector<std::string> equals_text = {};           // of facts that are texts: one of these
  std::optional<std::string> at_least = std::nullopt;  // of facts that are versions: "535.129"
  bool same = false;                                   // all have the value that most have; the odd one out is named
  std::optional<int> samples_min = std::nullopt;       // a value of fewer is no measurement
  std::optional<double> reference = std::nullopt;      // what min or max was made of
};

/// One limit on one metric of one benchmark. `benchmark` is a key or, with wildcards, stands for local ranks, whatever
/// the number of hosts: "src:*/dst:*" for every ordered pair of them, with "dir:both" for every pair once, src < dst;
/// "shift:*" for every step but 0; "active:one/rank:*" for every one.
/// Where the absence of a rule's row is no gap. In quick: only a closer look measures it there. Anywhere: only some
/// sites have what it is about, a scheduler for example.
enum class Optional { never, quick, anywhere };
constexpr auto words(Optional) { return names("never", "quick", "anywhere"); }

/// If a rule is optional in quick (`optional: quick`), the absence of its row is a gap in the full tier only.
/// A limit is written as min or max, or as the `reference` that the source names and the `margin` that a healthy
/// machine may be below it.
struct Rule {
  Key benchmark;
  std::string metric;
  Every every = Every::run;
  Limits limits;
  Conditions conditions;
  bool may_waive = false;
  Optional optional = Optional::never;
  Severity severity = Severity::fail;
  std::optional<Severity> severity_with_fabric = std::nullopt;  // instead, where a site file names the NICs
  std::optional<Seen> seen = std::nullopt;  // marks the figure of its family, which a report of a good run shows
  std::string where;  // another fact: the rule holds where it is known and not 0; empty: everywhere
  std::string source;
  std::string at;        // "thresholds/h200-sxm.yaml:12"
  std::string replaces;  // place and source of the rule that a site's own rule replaces; empty: none

  bool wildcard() const {
    return std::ranges::any_of(benchmark.parts(), [](const Key::Part& p) { return p.second == "*"; });
  }
};

/// Which machines a profile is for. No device list = any device of that backend.
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
  std::vector<Rule> rules;                          // those of the included parts first
  std::optional<int> gpus_per_host = std::nullopt;  // of this kind of machine
  // For every row that was timed, with or without a rule: fewer samples, or more scattered ones, are no
  // measurement.
  std::optional<int> samples_min = std::nullopt;
  std::map<std::string, double> cv_max = {};  // by family
  std::vector<std::string> excused = {};      // families that the site needs no judgement of
};

/// Reads one profile, or every profile of a folder, sorted by name. Members that several profiles share are in a part,
/// a file in the same folder (`part: nvidia-preflight` instead of profile, match and peak), which they name under
/// `include`: rules, `unjudged` and `repeatability`. Errors: InputError "file:line:column: what; what to do".
std::vector<Profile> load_profiles(const std::filesystem::path& file_or_folder);

class Yaml;
/// Adds a site's own rules to the profile. Each replaces the rules of the profile on the same benchmark and metric
/// under the same conditions, whatever their severity. Errors: as above.
void add_site_rules(const Yaml&, Profile&);

}  // namespace shakedown
