// Selects the profile for a machine, the rules of the profile that apply to a run, and the benchmarks of a rule. The
// functions are pure.
#pragma once

#include <string>
#include <vector>

#include "thresholds/results/results.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {

/// True if the profile names all of these devices. False for the profile for any GPU, which names none.
bool fits(const Profile&, Backend, const std::vector<std::string>& devices);

/// The one profile that matches. If none does, the reason; the profile for any GPU, if it exists, then applies without
/// a reference.
struct Selection {
  const Profile* profile = nullptr;
  std::string reason;
};
Selection select_profile(const std::vector<Results>&, const std::vector<Profile>&);

/// Returns the device names of all ranks, each name once.
std::vector<std::string> devices_of(const std::vector<Results>&);

/// Returns the conditions of a run, on which the ceilings of the catalogue depend.
Scale scale_of(const Context&);

/// unknown_nvls: it depends on the state of NVLS, which the run did not record.
enum class Applies { yes, no, unknown_nvls };

struct Applicability {
  Applies applies = Applies::yes;
  std::string reason;  // why the rule does not apply
};
Applicability applicability(const Conditions&, const Context&);

/// Returns "ranks 8, hosts 1, nvls off". Omits conditions that every run meets.
std::string text(const Conditions&);

/// Returns the keys of a rule on this machine: its own key, or, if it has wildcards, the keys for the ranks of the
/// largest host. If no host has two ranks, there is no pair. The bench then waives src:0/dst:1, and `no_pair` permits
/// that.
struct Expansion {
  std::vector<Key> keys;
  bool no_pair = false;
};
Expansion expand(const Rule&, const Context&);

/// Returns the ranks that must have a value for this key.
std::vector<int> required_ranks(const Key&, const Context&);

}  // namespace shakedown
