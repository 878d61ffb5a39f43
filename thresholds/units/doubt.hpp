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

/// The keys of rows that were measured once and have a value in doubt, the largest shortfall first:
/// - a GPU or link that falls short of its peers by more than doubtful_shortfall, and by more than in the other rows of
///   the class;
/// - a host that takes 10 % longer than the others for a collective of its own;
/// - a collective that takes longer than one with more data, or has a lower bandwidth than one with less.
/// `measured` has the repetitions of each key. Shortfalls up to `at_least` are ignored.
std::vector<std::string> rows_in_doubt(const std::map<std::string, std::vector<RankData>>& measured, double at_least);

}  // namespace shakedown
