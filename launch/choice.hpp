// How programs are started on all ranks: decided now, not when they were built. Pure.
#pragma once

#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "node/inventory.hpp"

namespace shakedown {

/// Nothing could be measured: not the machine's failure, and not its pass. Exit code 3.
struct CannotRun : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The input of the choice.
struct LaunchSite {
  Environment environment;
  std::string host;                      // this one's name
  std::optional<std::string> host_file;  // the text of the one that host_file_of names; nothing: it cannot be read
  std::string srun_plugins;              // what srun --mpi=list prints; empty where there is no srun
  int gpus = 0;                          // of one host, that may be used
  bool mpirun = true;                    // is there
  bool ssh = true;                       // or rsh
  bool root = false;
  std::vector<std::string> absent = {};  // hosts to leave out
};

struct Launch {
  std::vector<std::string> prefix;     // of a command that all ranks shall run; empty: the command alone, one process
  std::vector<std::string> discovery;  // of one that each host shall run once; empty: this host alone is measured
  std::vector<std::string> alone;      // of one that a host shall run by itself, whose name follows; empty: unknown
  std::vector<std::string> wrapper;    // of a user's prefix of mpirun: what starts the command on a host
  std::vector<std::pair<std::string, std::string>> variables;  // for the launcher
  std::vector<std::string> hosts;                              // that were promised, by name
  int host_count = 1;                                          // that were promised; 0: the prefix of a user knows
  std::optional<int> ranks;                                    // that were promised
  std::optional<int> rank;                                     // of this process, if another program started it
  std::string note;                                            // for a person
  std::vector<std::pair<std::string, std::string>> pods;  // of hosts that are pods the names, and those of their nodes
  std::vector<std::string> named;                         // hosts that a user's prefix of mpirun lists
  std::vector<std::string> present, absent;               // as the discovery found them; empty: there was none
  std::map<std::string, std::string> reasons;             // of those absent, by name: the launcher's word
  std::vector<std::string> hung_drivers;                  // of those absent: they answered, and their driver did not
  std::vector<std::string> lost;   // of those absent, the ones that were there when measuring began
  std::optional<double> ends;      // when the scheduler ends the job, in seconds since 1970
  std::vector<std::string> boots;  // "host boot-id" of those that answered

  /// As --expect= of the benchmarks takes it; empty: nothing was promised.
  std::string expected() const;
};

/// The file of hosts that a variable names: of Open MPI, or of an operator that sets it; else of another scheduler. Of
/// a user's prefix of mpirun the one that it names.
std::optional<std::string> host_file_of(const Environment&);

/// Returns the rank as which another program has started this process (see below); nullopt if this one starts the
/// ranks.
std::optional<int> rank_of(const Environment&);

/// SHAKEDOWN_LAUNCH, where it is set, is the whole prefix. RANK, WORLD_SIZE of more than one, MASTER_ADDR and
/// MASTER_PORT make this process that rank, as torchrun starts it: the program that started this one starts the others.
/// A Slurm job of several nodes, of more tasks than would be started here, or of one node that is not this host (salloc
/// on a login node) is started by srun where there is one, else by mpirun. One task of a step on one node uses all GPUs
/// that srun gave it. A host file means mpirun on all of it. Else all GPUs of this host are used: SHAKEDOWN_RANKS
/// ranks, else one per GPU, else 2; where there is no mpirun, one process. A launch that leaves a part of the
/// allocation out is refused, because it would not be noticed that it was not measured. Errors: CannotRun; InputError
/// for a list of nodes that is none.
Launch choose_launch(const LaunchSite&);

}  // namespace shakedown
