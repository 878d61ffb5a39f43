// On which cores ranks run, and whether they get in each other's way.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "node/fact.hpp"

namespace shakedown {

/// Of this process.
struct Cpus {
  std::string list;         // logical CPUs that it may run on, "0-3,8"
  int cores = 1;            // physical cores among them
  std::optional<int> numa;  // the NUMA node that holds all of them, if one does
};
Cpus own_cpus(const std::filesystem::path& root = "/");

/// Physical cores behind a list of logical CPUs ("0-3,8"), each by the number of its first CPU. Where sysfs does not
/// say which CPUs are one core, every CPU is one.
std::set<int> cores_of(const std::filesystem::path& root, const std::string& cpu_list);

/// How many ranks of a host come on each core that rank `own` may use, from the cores of all of them; more than 1 has
/// the explanation "4 ranks share core 0". Ranks bound to all cores share nothing as long as there are as many cores.
Fact ranks_per_core(const std::vector<std::set<int>>& cores, std::size_t own);

}  // namespace shakedown
