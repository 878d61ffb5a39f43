// A user's command line of mpirun (Open MPI's), taken apart.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace shakedown {

struct MpirunPrefix {
  std::vector<std::string> others, shape;  // options that place ranks, and all others
  std::vector<std::string> wrapper;  // the program that starts ours, and its arguments: "numactl --interleave=all"
  std::optional<std::string> hosts, host_file;
  std::optional<std::string> ranks;
};

/// nullopt if the prefix is another launcher's.
std::optional<MpirunPrefix> mpirun_prefix(const std::vector<std::string>& prefix);

/// Returns whether a command is Open MPI's mpirun, by its name. `mpiexec` may be another MPI's.
bool is_mpirun(const std::vector<std::string>& command);

}  // namespace shakedown
