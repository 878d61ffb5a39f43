// The parts and findings that the judgement of a network names. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/culprits/pair_rounds.hpp"
#include "thresholds/findings/diagnosis.hpp"

namespace shakedown {

/// "rail 3"
std::string rail_text(std::size_t rail);

/// The part that is slow if these NICs are. Without leaves on record a leaf, an uplink and a path have no name.
Part part_of_places(const PairRounds&, Cause, const std::vector<PairRounds::Place>&);

/// A finding about pairs as a whole.
Finding pairs_finding(Status, std::string detail);

/// The finding about a suspect between hosts.
Finding finding_of(const Diagnosis&);

/// Wrong data of a row of pairs.
Finding wrong_data_between_hosts(const PairRounds&, const Row&);

/// NICs that had a partner in no round, of which nothing is known; nullopt if there are none.
std::optional<Finding> unseen_nics(const PairRounds&);

}  // namespace shakedown
