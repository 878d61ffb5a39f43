// The cores on which ranks run, and the cores that several ranks share.
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
  std::string list;         // logical CPUs on which it may run, such as "0-3,8"
  int cores = 1;            // number of physical cores among them
  std::optional<int> numa;  // the NUMA node of all these CPUs; nullopt if they are in several nodes
};
Cpus own_cpus(const std::filesystem::path& root = "/");

/// Returns the physical cores of a list of logical CPUs ("0-3,8"). The number of a core is that of its first CPU. If
/// sysfs does not show which CPUs share a core, each CPU counts as a core.
std::set<int> cores_of(const std::filesystem::path& root, const std::string& cpu_list);

/// Returns how many ranks of a host use each core of rank `own`. `cores` are the cores of all ranks. If the number is
/// above 1, a text explains it, such as "4 ranks share core 0". Ranks that may use all cores do not share any if there
/// are enough cores for all ranks.
Fact ranks_per_core(const std::vector<std::set<int>>& cores, std::size_t own);

/// Returns the IPC and process namespaces of this process ("ipc:[4026531839] pid:[4026531836]"); empty if unknown.
std::string own_namespaces(const std::filesystem::path& root = "/");

/// Returns the number of ranks of a host whose namespaces are not those of rank `own`, from those of all ranks. CUDA
/// cannot share GPU memory between processes of different namespaces. A number above 0 has an explanation such as
/// "local ranks 1, 2 are in other containers". Unknown if the namespaces of rank `own` are unknown.
Fact ranks_apart(const std::vector<std::string>& namespaces, std::size_t own);

}  // namespace shakedown
