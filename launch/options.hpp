// The flags of accept and measure: how to measure, and how to judge that (report/arguments.hpp).
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
  std::string tier = "quick";
  bool is_tier_given = false;
  std::optional<std::string> again;   // --again: the run whose failures are repeated; empty: the last one
  std::vector<std::string> families;  // empty: all
  bool despite_preflight = false, plan = false, retune = false;
  std::optional<std::filesystem::path> results;  // the folder of run folders
  std::optional<std::filesystem::path> folder;   // this one, instead of a new one
  std::string run_id;                            // empty: is made up
  int keep = 20;
  std::optional<double> soak_s;             // --for: rounds until this time has been watched
  std::optional<std::uint64_t> seed;        // of the order of a soak
  std::optional<std::vector<int>> scaling;  // --scaling: also on these numbers of nodes; empty: 1, 2, 4, ...
  bool resume = false, stop_on_fail = false;
  double timeout = 300, startup_timeout = 120;  // of a benchmark; of the start of a job
  std::string shared_folder;                    // for pre-flight; empty: none
  std::string checkpoint_dir;                   // into which checkpoints are written; empty: TMPDIR
  int dcgm = 0;                                 // level of dcgmi diag in pre-flight; 0: none
  std::string interface;                        // over which hosts talk; empty: any
  std::string nccl;                             // the library that ranks shall use; empty: the one they find
  std::string expected;                         // --expect of a user
  std::vector<std::string> flags;               // those that a soak which goes on needs again
  Arguments judge;
};

/// The folder of the profiles that come with the program.
std::filesystem::path shipped_profiles();

/// Parses what the environment says (SHAKEDOWN_TIER, ...) and the words of accept or measure. Errors: InputError.
AcceptOptions parse_accept_options(const std::vector<std::string>& words, const Environment&,
                                   const std::string& verb = "accept");

}  // namespace shakedown
