// Which profile fits the machine, which of its rules apply to a run, and which benchmarks a rule stands for. Pure.
#pragma once

#include <string>
#include <vector>

#include "thresholds/results/results.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {

/// True if the profile describes all of these devices by name. The profile for any GPU describes none.
bool fits(const Profile&, Backend, const std::vector<std::string>& devices);

/// The one profile that matches, or why there is none: then the profile for any GPU, if there is one, whose rules hold
/// without a reference.
struct Selection {
  const Profile* profile = nullptr;
  std::string reason;
};
Selection select_profile(const std::vector<Results>&, const std::vector<Profile>&);

/// Device names of all ranks, each once.
std::vector<std::string> devices_of(const std::vector<Results>&);

/// Where a run ran, as the catalogue's ceilings want it.
Scale scale_of(const Context&);

enum class Applies { yes, no, unknown_nvls };  // unknown_nvls: would depend on a state that the run did not record

struct Applicability {
  Applies applies = Applies::yes;
  std::string reason;  // why not
};
Applicability applicability(const Conditions&, const Context&);

/// "ranks 8, hosts 1, nvls off"; what every run meets is left out.
std::string text(const Conditions&);

/// The keys that a rule stands for on this machine: itself, or with wildcards those of the ranks of its largest host.
/// Where no host has two ranks there is no pair: then the bench waives src:0/dst:1, and `no_pair` says that this is
/// right.
struct Expansion {
  std::vector<Key> keys;
  bool no_pair = false;
};
Expansion expand(const Rule&, const Context&);

/// The ranks that must have a value of their own for this key.
std::vector<int> required_ranks(const Key&, const Context&);

}  // namespace shakedown
