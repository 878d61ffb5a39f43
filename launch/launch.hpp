// How programs are started on all ranks, and the facts from which this is chosen.
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

}  // namespace shakedown
