// Doubtful values: a value that differs from its peers, from other rows of its class or from other sizes may be an
// accident (another process, a paused guest) or a fault. It counts only if it repeats. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown {

/// The number of repetitions whose median is reliable.
inline constexpr std::size_t enough_repetitions = 3;

/// The shortfall from which a value without confirmation makes a verdict INCONCLUSIVE. A smaller one is only a warning.
inline constexpr double open_shortfall = 0.15;

/// False for long loads, which a short accident does not change. `name`: of a class.
bool is_brief(const Key& name, const std::string& metric);

/// The shortfall among peers from which a value without confirmation by another row is doubtful.
double doubtful_shortfall(const Key&, const PeerClass&);

/// The keys of rows that were measured once and have a value in doubt, the largest shortfall first:
/// - a GPU or link that falls short of its peers by more than doubtful_shortfall, and by more than in the other rows of
///   the class;
/// - a host that takes 10 % longer than the others for a collective of its own;
/// - a collective that takes longer than one with more data, or has a lower bandwidth than one with less.
/// `measured` has the repetitions of each key. Shortfalls up to `at_least` are ignored.
std::vector<std::string> rows_in_doubt(const std::map<std::string, std::vector<RankData>>& measured, double at_least);

}  // namespace shakedown
