// Chooses at run time how programs are started on all ranks. The functions are pure.
#pragma once

#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "node/inventory.hpp"

namespace shakedown {

/// Thrown if nothing could be measured, so that there is no result about the machine. Exit code 3.
struct CannotRun : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The facts from which choose_launch chooses.
struct LaunchSite {
  Environment environment;
  std::string host;                      // name of this host
  std::string program = "shakedown";     // file of this program
  std::optional<std::string> host_file;  // content of the file that host_file_of names; nullopt if it is unreadable
  std::string srun_plugins;              // output of srun --mpi=list; empty if there is no srun
  int gpus = 0;                          // visible GPUs of a host
  bool has_gpus = false;                 // true if this host has GPUs
  std::map<std::string, int> gpus_by_host = {};  // visible GPUs of each host that has answered
  bool mpirun = true;                            // true if mpirun is installed
  bool other_mpi = false;                        // true if mpirun is not that of Open MPI
  bool agent = true;                             // true if the agent of the scheduler is installed (schedulers.hpp)
  bool ssh = true;                               // true if ssh or rsh is installed
  bool root = false;
  std::vector<std::string> absent = {};  // hosts to leave out
};

struct Launch {
  /// Prefix of a command on all ranks; empty: the command runs as one process without a prefix.
  std::vector<std::string> prefix;
  /// Prefix of a command that runs once on each host; empty: only this host is measured.
  std::vector<std::string> discovery;
  /// Prefix of a command on one host, followed by the name of the host; empty if unknown.
  std::vector<std::string> alone;
  /// If the user's prefix is mpirun: the command inside it that starts the program on a host.
  std::vector<std::string> wrapper;
  std::vector<std::pair<std::string, std::string>> variables;  // environment of the launcher
  std::vector<std::string> hosts;                              // expected hosts
  int host_count = 1;                                          // number of expected hosts
  /// Number of expected ranks; nullopt if the user's prefix decides it.
  std::optional<int> ranks;
  std::optional<int> rank;                                // rank of this process if another program started it
  std::string note;                                       // message for the user
  std::vector<std::pair<std::string, std::string>> pods;  // pod names with their node names, if the hosts are pods
  std::vector<std::string> named;                         // hosts that the user's mpirun prefix lists
  /// Hosts by the discovery; both are empty if there was no discovery.
  std::vector<std::string> present, absent;
  std::map<std::string, std::string> reasons;  // by absent host: the message of the launcher
  std::vector<std::string> hung_drivers;       // absent hosts that answered although their driver did not
  std::map<std::string, int> lost_bytes;       // by absent host: size of the packets that it does not receive
  std::vector<std::string> lost;               // hosts that were present when the measurement began, but are absent now
  std::optional<double> ends;                  // time at which the scheduler ends the job, in seconds since 1970
  std::vector<std::string> boots;              // "host boot-id" of each host that answered

  /// Returns the hosts that must answer: the expected ones, or those of the user's mpirun prefix.
  const std::vector<std::string>& promised() const { return hosts.empty() ? named : hosts; }

  /// Returns the value of --expect for benchmark programs. Empty if nothing is expected.
  std::string expected() const;
};

/// Returns the name of the host file that a variable gives: the one of Open MPI or of an operator, else the one of
/// another scheduler. If the user's prefix is mpirun with a host file, returns that file.
std::optional<std::string> host_file_of(const Environment&);

/// Returns the rank of this process if another program started the ranks (see choose_launch); nullopt if this process
/// starts them.
std::optional<int> rank_of(const Environment&);

/// Chooses the launch. The first of these cases decides:
/// - SHAKEDOWN_LAUNCH is the complete prefix.
/// - RANK, WORLD_SIZE above 1, MASTER_ADDR and MASTER_PORT make this process one rank, as under torchrun.
/// - The variables of torchrun in a pod that starts this program once (pods.hpp): this process starts the ranks of its
///   GPUs, and other pods start the others.
/// - A heterogeneous Slurm job uses srun on all its components.
/// - A Slurm job of several nodes, with more tasks than this host has ranks, or on another host (salloc on a login
///   node) uses srun, or mpirun if there is no srun. One task of a step on one node uses all GPUs that srun gave it.
/// - The host file of Open MPI's variable means mpirun on all its hosts. The hosts that LSF or an operator of MPICH or
///   Intel MPI lists mean mpirun, which starts its daemons with the agent of that scheduler, such as blaunch.
/// - Otherwise the GPUs of this host are used with mpirun: SHAKEDOWN_RANKS ranks, else one for each GPU, else 2.
///   Without mpirun there is one process. More than 128 ranks start without mpirun (local_ranks.hpp).
/// Throws if the launch would not measure a part of the allocation, because the gap would not be noticed. Errors:
/// CannotRun; InputError for an invalid list of nodes.
Launch choose_launch(const LaunchSite&);

}  // namespace shakedown
