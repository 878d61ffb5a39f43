// Parses a user's command line of mpirun (Open MPI).
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace shakedown {

struct MpirunPrefix {
  std::vector<std::string> others, shape;  // options that place ranks, and other options
  std::vector<std::string> wrapper;  // a wrapper program with its arguments: "numactl --interleave=all"
  std::optional<std::string> hosts, host_file;
  std::optional<std::string> ranks;
};

/// Returns the parsed prefix; nullopt for another launcher.
std::optional<MpirunPrefix> mpirun_prefix(const std::vector<std::string>& prefix);

/// True if a command is mpirun of Open MPI, by its name. `mpiexec` may belong to another MPI.
bool is_mpirun(const std::vector<std::string>& command);

}  // namespace shakedown
