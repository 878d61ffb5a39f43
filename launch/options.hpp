// The flags of accept and measure: what to measure, and how to judge it (see also report/arguments.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "node/inventory.hpp"
#include "report/arguments.hpp"

namespace shakedown {

/// --gate: a run with a time limit.
struct GateLimit {
  using Clock = std::chrono::steady_clock;

  double seconds;
  Clock::time_point began = Clock::now();

  double spent() const { return std::chrono::duration<double>(Clock::now() - began).count(); }
  /// Returns the seconds until the ranks must end, so that there is still time for a verdict.
  double left() const {
    constexpr double for_verdict = 1;
    return seconds - for_verdict - spent();
  }
};

struct AcceptOptions {
  Tier tier = Tier::quick;
  std::string backend = "auto", chip;  // backend of the programs; `chip`: GPU model of the virtual backend
  bool is_tier_given = false;
  std::optional<std::string> again;   // --again: the run whose failures are repeated; empty: the last one
  std::vector<std::string> families;  // empty: all families
  bool despite_preflight = false, plan = false, retune = false;
  bool profile = false;                          // --profile: divides the time of training steps by class
  std::optional<std::filesystem::path> results;  // parent of the run folders
  std::optional<std::filesystem::path> folder;   // folder of this run; empty: the program makes a new one
  std::string run_id;                            // empty: the program makes one
  int keep = 20;
  /// --ranks, only with --plan: the assumed number of ranks; 0: the real number.
  int planned_ranks = 0;
  std::optional<double> soak_s;             // --for: duration of the soak
  std::optional<GateLimit> gate;            // --gate
  std::optional<std::vector<int>> waiting;  // --waiting: processes of a job that wait during the gate
  std::optional<std::uint64_t> seed;        // random seed of the order of a soak
  std::optional<std::vector<int>> scaling;  // --scaling: numbers of nodes for additional launches; empty: 1, 2, 4, ...
  bool resume = false, stop_on_fail = false;
  double timeout = 300, startup_timeout = 120;  // in seconds: for one benchmark, and for the start of a job
  std::string shared_folder;                    // folder that pre-flight checks on all hosts; empty: none
  std::string storage_dir;                      // folder of the family storage; empty: it is not measured
  std::string checkpoint_dir;                   // folder for checkpoints; empty: that of TMPDIR
  int dcgm = 0;                                 // level at which pre-flight runs dcgmi diag; 0: it does not run
  std::string interface;                        // network interface of the ranks; empty: any
  std::string nccl;                             // NCCL library for the ranks; empty: the default of the system
  std::string expected;                         // the user's --expect
  std::vector<std::pair<std::string, std::string>> variables;  // more variables of the ranks: name and value
  std::vector<std::string> flags;                              // words that a resumed soak uses again
  Arguments judge;
};

/// True for the families that --profile divides.
inline bool has_training_steps(const std::string& family) { return family == "train_step" || family == "lora_step"; }

/// Returns the folder of the shipped profiles.
std::filesystem::path shipped_profiles();

/// Parses the environment (SHAKEDOWN_TIER, ...) and the words of accept or measure. Errors: InputError.
AcceptOptions parse_accept_options(const std::vector<std::string>& words, const Environment&,
                                   const std::string& verb = "accept");

}  // namespace shakedown
