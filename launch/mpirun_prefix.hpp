// Parses a user's command line of mpirun (Open MPI).
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace shakedown {

struct MpirunPrefix {
  std::vector<std::string> others, shape;  // `shape` has the options that place ranks, `others` has all other options
  std::vector<std::string> wrapper;  // a wrapper program with its arguments: "numactl --interleave=all"
  std::optional<std::string> hosts, host_file;
  std::optional<std::string> ranks;
};

/// Parses a prefix. nullopt if the launcher is not mpirun.
std::optional<MpirunPrefix> mpirun_prefix(const std::vector<std::string>& prefix);

/// True if the command is Open MPI's mpirun, judged by its name. `mpiexec` is not accepted because it may belong to
/// another MPI.
bool is_mpirun(const std::vector<std::string>& command);

}  // namespace shakedown
