// Parts and findings of the judgement of a network. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/culprits/pair_rounds.hpp"
#include "thresholds/findings/diagnosis.hpp"

namespace shakedown {

/// Returns "rail 3".
std::string rail_text(std::size_t rail);

/// Returns the part at fault if these NICs are slow. Without a known topology, leaves, uplinks and paths have no name.
Part part_of_places(const PairRounds&, Cause, const std::vector<PairRounds::Place>&);

/// Returns a finding about pairs as a whole.
Finding pairs_finding(Status, std::string detail);

/// Returns the finding about a suspect between hosts.
Finding finding_of(const Diagnosis&);

/// Returns a finding about wrong data in a row of pairs.
Finding wrong_data_between_hosts(const PairRounds&, const Row&);

/// Returns a finding about NICs without a readable round, whose state is unknown; nullopt if there are none.
std::optional<Finding> unseen_nics(const PairRounds&);

}  // namespace shakedown
