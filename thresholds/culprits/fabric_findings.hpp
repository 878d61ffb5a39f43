// Makes the findings of the judgement of a network. The functions are pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/culprits/pair_rounds.hpp"
#include "thresholds/findings/attribution.hpp"
#include "thresholds/findings/diagnosis.hpp"

namespace shakedown {

/// Returns the name of a rail, such as "rail 3".
std::string rail_text(std::size_t rail);

/// Returns the part that is at fault if these NICs are slow. If the topology is unknown, leaves, uplinks and paths have
/// no name.
Part part_of_places(const PairRounds&, Cause, const std::vector<PairRounds::Place>&);

/// Returns a finding about all pairs together.
Finding pairs_finding(Status, std::string detail);

/// Returns the finding for a suspect between hosts.
Finding finding_of(const Diagnosis&);

/// Returns attributions for collectives and steps that miss a limit, but would meet it without a NIC of `suspects` that
/// does not fail, because a healthy NIC may be that slow. They are then inconclusive.
std::vector<Attribution> attribute_waiting(const std::vector<Finding>&, const std::vector<Diagnosis>& suspects);

/// Returns a finding about wrong data in a row of pairs.
Finding wrong_data_between_hosts(const PairRounds&, const Row&);

/// Returns a finding about NICs for which no round can be read, so that their state is unknown. nullopt if there are
/// none.
std::optional<Finding> unseen_nics(const PairRounds&);

}  // namespace shakedown
