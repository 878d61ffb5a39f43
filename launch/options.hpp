// The flags of accept and measure: what to measure, and how to judge it (report/arguments.hpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "node/inventory.hpp"
#include "report/arguments.hpp"

namespace shakedown {

struct AcceptOptions {
  Tier tier = Tier::quick;
  std::string backend = "auto", chip;  // of the programs; chip: of the virtual backend
  bool is_tier_given = false;
  std::optional<std::string> again;   // --again: the run whose failures are repeated; empty: the last one
  std::vector<std::string> families;  // empty: all
  bool despite_preflight = false, plan = false, retune = false;
  std::optional<std::filesystem::path> results;  // parent of the run folders
  std::optional<std::filesystem::path> folder;   // folder of this run; empty: a new one
  std::string run_id;                            // empty: generated
  int keep = 20;
  int planned_ranks = 0;                    // --ranks: with --plan, the assumed number of ranks; 0: the real number
  std::optional<double> soak_s;             // --for: duration of the soak
  std::optional<std::uint64_t> seed;        // order of a soak
  std::optional<std::vector<int>> scaling;  // --scaling: also on these numbers of nodes; empty: 1, 2, 4, ...
  bool resume = false, stop_on_fail = false;
  double timeout = 300, startup_timeout = 120;  // of a benchmark; of the start of a job
  std::string shared_folder;                    // for pre-flight; empty: none
  std::string checkpoint_dir;                   // folder for checkpoints; empty: TMPDIR
  int dcgm = 0;                                 // level of dcgmi diag in pre-flight; 0: none
  std::string interface;                        // network interface of ranks; empty: any
  std::string nccl;                             // NCCL library for the ranks; empty: their default
  std::string expected;                         // --expect from the user
  std::vector<std::string> flags;               // words that a resumed soak needs again
  Arguments judge;
};

/// Returns the folder of the shipped profiles.
std::filesystem::path shipped_profiles();

/// Parses the environment (SHAKEDOWN_TIER, ...) and the words of accept or measure. Errors: InputError.
AcceptOptions parse_accept_options(const std::vector<std::string>& words, const Environment&,
                                   const std::string& verb = "accept");

}  // namespace shakedown
