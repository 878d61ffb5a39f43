// Chooses how programs are started on all ranks, at run time. Pure.
#pragma once

#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "node/inventory.hpp"

namespace shakedown {

/// Nothing could be measured, which says nothing about the machine. Exit code 3.
struct CannotRun : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The input of the choice.
struct LaunchSite {
  Environment environment;
  std::string host;                      // name of this host
  std::optional<std::string> host_file;  // content of the file that host_file_of names; nullopt: unreadable
  std::string srun_plugins;              // output of srun --mpi=list; empty without srun
  int gpus = 0;                          // visible GPUs of this host
  bool mpirun = true;                    // mpirun is installed
  bool ssh = true;                       // or rsh
  bool root = false;
  std::vector<std::string> absent = {};  // hosts to leave out
};

struct Launch {
  std::vector<std::string> prefix;     // prefix of a command for all ranks; empty: one process without a prefix
  std::vector<std::string> discovery;  // prefix of a command that runs once per host; empty: only this host is measured
  std::vector<std::string> alone;      // prefix of a command for one host, whose name follows; empty: unknown
  std::vector<std::string> wrapper;    // for a user's mpirun prefix: what starts the command on a host
  std::vector<std::pair<std::string, std::string>> variables;  // environment for the launcher
  std::vector<std::string> hosts;                              // expected hosts
  int host_count = 1;                                          // expected ranks; 0: a user's prefix defines them
  std::optional<int> ranks;                                    // expected number of hosts
  std::optional<int> rank;                                     // rank of this process, if another program started it
  std::string note;                                            // message for the user
  std::vector<std::pair<std::string, std::string>> pods;  // for hosts that are pods: pod names with their node names
  std::vector<std::string> named;                         // hosts that a user's mpirun prefix lists
  std::vector<std::string> present, absent;               // as discovered; empty: no discovery
  std::map<std::string, std::string> reasons;             // by absent host: the launcher's message
  std::vector<std::string> hung_drivers;                  // absent hosts that answered although their driver did not
  std::vector<std::string> lost;   // absent hosts that were present when the measurement began
  std::optional<double> ends;      // end of the job by the scheduler, in seconds since 1970
  std::vector<std::string> boots;  // "host boot-id" of each host that answered

  /// Returns the value of --expect for benchmark programs; empty without an expectation.
  std::string expected() const;
};

/// Returns the host file that a variable names: that of Open MPI or of an operator, else that of another scheduler. For
/// a user's mpirun prefix, returns the host file of that prefix.
std::optional<std::string> host_file_of(const Environment&);

/// Returns the rank of this process if another program started the ranks (see below); nullopt if this process starts
/// them.
std::optional<int> rank_of(const Environment&);

/// Returns the launch. SHAKEDOWN_LAUNCH, if set, is the complete prefix. RANK, WORLD_SIZE above 1, MASTER_ADDR and
/// MASTER_PORT make this process that rank, as under torchrun. Slurm jobs of several nodes, of more tasks than this
/// host has ranks, or on another host (salloc on a login node) use srun, or mpirun without srun. One task of a step on
/// one node uses all GPUs that srun gave it. A host file means mpirun on all its hosts. Otherwise all GPUs of this host
/// are used: SHAKEDOWN_RANKS ranks, else one per GPU, else 2; one process without mpirun. Refuses a launch that omits a
/// part of the allocation, because the omission would not be noticed. Errors: CannotRun; InputError for an invalid list
/// of nodes.
Launch choose_launch(const LaunchSite&);

}  // namespace shakedown
