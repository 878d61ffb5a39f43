// What an acceptance would find in a cluster of a given size: simulated clusters with known faults are judged as real
// ones are, and the answers are counted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "report/arguments.hpp"
#include "thresholds/rehearsal/machine.hpp"

namespace shakedown {

struct RehearsalPlan {
  rehearsal::Shape shape;
  rehearsal::Noise noise;
  int clusters = 0;  // number of simulated clusters with each fault, and of those without one
  std::uint64_t seed = 1;
};

/// How often the first part that the verdict names was the planted one, in `of` simulated clusters.
struct Found {
  std::string fault;  // "memory of one GPU"
  double part = 0;    // the fraction of the rate that is lost
  int named = 0, of = 0;
};

struct Rehearsal {
  std::vector<Found> found;  // faults in the order of their kinds; of each kind, the smallest loss first
  int accused = 0;           // number of clusters with a fault in which a healthy part is named
  int failed = 0;            // number of healthy clusters that do not pass
};

/// Returns the plan for the hosts of the site's roster and its leaf switches, or for the number of hosts that the flags
/// give. Errors: InputError if neither says how many hosts there are, or if the noise is unknown.
RehearsalPlan rehearsal_plan(const Arguments&, const std::filesystem::path& noise_folder);

/// Simulates and judges the clusters, on all cores of this host.
Rehearsal rehearse(const RehearsalPlan&, const std::vector<Profile>&);

/// Returns the probabilities with their 95 % intervals, and clauses for a contract.
std::string rehearsal_text(const RehearsalPlan&, const Rehearsal&);

/// shakedown rehearse: prints the text above. Returns 0. Errors: InputError.
int rehearse(const Arguments&, const std::filesystem::path& noise_folder);

}  // namespace shakedown
