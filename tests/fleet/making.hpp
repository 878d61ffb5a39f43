// How a row is made: as a stored one for all ranks, then with figures of their own, then with what follows from these.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/fleet/world.hpp"

namespace shakedown::fleet {

/// How much faster than the fastest stored value a made-up one may be: what a wire limits, not at all; what software or
/// a wait limits, a little. GEMM per clock: 1.02 keeps all types below what the silicon can do.
inline constexpr ByKind<double> headroom{1, 1.02, 1.002, 1.005, 1.0005, 1.005, 1.001, 1.2, 1.01, 1.3, 1.3, 1.2};

/// Which rank of the template a local rank is like in a row.
using Like = std::function<int(int local)>;
inline int as_local(int local) { return local % 4; }

/// A row as the template's, for all ranks, each like one of the template's.
Row copied(const World&, const std::string& key, const Json& like, const Like&);

/// Whether GPUs were at their power limit in this row of the template.
bool capped(const Json& like);

/// Clock, heat, power and what the driver says of them; `clocks` where the row's work hangs on them.
void add_telemetry(const World&, Row&, const Json& like, const std::vector<Clock>* clocks);

/// Of a member of a row; new ones have nothing to say of any rank.
Values& column(const World&, std::map<std::string, Values>& columns, const std::string& name);

/// The run's own figures: those of the rank that took longest. Every headline keeps the template's distance from the
/// slowest rank's own, which is the median of maxima against the maximum of medians.
void finish(const World&, Row&, const Json& like, const std::string& headline, bool time, bool collective);

/// Where the plan has no telemetry.
void forget_telemetry(const World&, Row&);

}  // namespace shakedown::fleet
