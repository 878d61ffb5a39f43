// The cores on which ranks run, and conflicts between ranks.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "node/fact.hpp"

namespace shakedown {

/// The CPUs of this process.
struct Cpus {
  std::string list;         // logical CPUs that it may run on, "0-3,8"
  int cores = 1;            // physical cores among them
  std::optional<int> numa;  // the NUMA node that contains all of them, if there is one
};
Cpus own_cpus(const std::filesystem::path& root = "/");

/// Returns the physical cores of a list of logical CPUs ("0-3,8"), each by the number of its first CPU. If sysfs does
/// not show which CPUs share a core, every CPU counts as one.
std::set<int> cores_of(const std::filesystem::path& root, const std::string& cpu_list);

/// Returns the number of ranks of a host per core that rank `own` may use, from the cores of all ranks. A number above
/// 1 has an explanation such as "4 ranks share core 0". Ranks bound to all cores do not share any as long as there are
/// enough cores.
Fact ranks_per_core(const std::vector<std::set<int>>& cores, std::size_t own);

}  // namespace shakedown
