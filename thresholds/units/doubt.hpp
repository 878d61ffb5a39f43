// Doubtful values. A value that differs from its peers, from other rows of its class or from other sizes may be an
// accident (another process, a paused virtual machine) or a fault. Such a value is a fault only if it repeats. The
// functions are pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/site.hpp"

namespace shakedown {

/// If a value has at least this shortfall and nothing confirms it, the verdict is INCONCLUSIVE. A smaller shortfall is
/// only a warning.
inline constexpr double open_shortfall = 0.15;

/// True for sustained loads and training steps, which take seconds. `name` is the key of a row or of a class.
bool is_long_load(const Key& name);

/// Returns the number of measurements of a row that confirm a value if they agree: three, and two of a long load.
std::size_t confirming_repetitions(const Key&);

/// Returns the shortfall among peers from which a value is doubtful, if no other row confirms it.
double doubtful_shortfall(const Key&, const PeerClass&);

/// A row to measure again, and how far its value falls short.
struct Doubt {
  std::string key;
  double shortfall = 0;

  friend bool operator==(const Doubt&, const Doubt&) = default;
};

/// Returns the rows that were measured once and have a value in doubt, the largest shortfall first:
/// - a GPU or link that falls short of its peers by more than doubtful_shortfall, and by more than in the other rows of
///   the class;
/// - a host that takes 10 % longer than the others for a collective of its own;
/// - a collective that takes longer than one with more data, or has a lower bandwidth than one with less.
/// `measured` has the repetitions of each key. Shortfalls up to `at_least` are ignored.
std::vector<Doubt> rows_in_doubt(const std::map<std::string, std::vector<RankData>>& measured, double at_least);

/// Returns the collectives that were measured once and miss a limit by which they can fail, the largest shortfall
/// first. The limits are those of the judge: of the profile for this machine, with the site (null if there is none).
/// Limits between hosts need the results of pre-flight, which has the rates of the NICs.
std::vector<Doubt> collectives_in_doubt(const Measured&, const std::vector<Profile>&, const Site*);

/// Returns each row once, with its largest shortfall, the largest first.
std::vector<Doubt> worst_first(const std::vector<Doubt>&);

}  // namespace shakedown
