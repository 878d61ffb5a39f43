// Selects the profile for a machine, its rules that apply to a run, and the benchmarks of a rule. Pure.
#pragma once

#include <string>
#include <vector>

#include "thresholds/results/results.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {

/// True if the profile names all of these devices. The profile for any GPU names none.
bool fits(const Profile&, Backend, const std::vector<std::string>& devices);

/// Returns the one profile that matches, or why there is none. Then the profile for any GPU, if there is one, applies
/// without a reference.
struct Selection {
  const Profile* profile = nullptr;
  std::string reason;
};
Selection select_profile(const std::vector<Results>&, const std::vector<Profile>&);

/// Returns the device names of all ranks, each once.
std::vector<std::string> devices_of(const std::vector<Results>&);

/// Returns the conditions of a run for the ceilings of the catalogue.
Scale scale_of(const Context&);

enum class Applies { yes, no, unknown_nvls };  // unknown_nvls: depends on a state that the run did not record

struct Applicability {
  Applies applies = Applies::yes;
  std::string reason;  // why it does not apply
};
Applicability applicability(const Conditions&, const Context&);

/// Returns "ranks 8, hosts 1, nvls off", without conditions that every run meets.
std::string text(const Conditions&);

/// Returns the keys of a rule on this machine: its own, or with wildcards those of the ranks of the largest host.
/// Without two ranks on a host there is no pair; the bench then waives src:0/dst:1, and `no_pair` permits that.
struct Expansion {
  std::vector<Key> keys;
  bool no_pair = false;
};
Expansion expand(const Rule&, const Context&);

/// Returns the ranks that must have a value for this key.
std::vector<int> required_ranks(const Key&, const Context&);

}  // namespace shakedown
