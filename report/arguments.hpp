// The command line of the programs that judge: acceptance_test and shakedown.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/flags.hpp"
#include "report/outputs.hpp"
#include "report/terminal.hpp"
#include "thresholds/history/baseline.hpp"
#include "thresholds/history/regression.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/rules/site.hpp"

namespace shakedown {

/// The folder of scaling launches inside the folder of a run (`accept --scaling`). It has one folder for each launch:
/// "1node", "2nodes", and so on. The file "lost" in one of them names the nodes that ended this launch.
inline constexpr const char* scaling_folder = "scaling";

struct Arguments {
  std::vector<std::filesystem::path> results, baseline;
  std::filesystem::path thresholds;
  OutputFiles outputs;
  std::optional<std::filesystem::path> nodes;  // folder for good_nodes, bad_nodes and nodes.json
  std::vector<std::filesystem::path> scaling;  // results with other numbers of ranks or nodes
  std::optional<std::filesystem::path> site;
  std::optional<std::string> explain;
  std::string fault = "slow-hbm";                    // of demo
  std::vector<std::filesystem::path> operands;       // words that are not flags: the runs of compare
  std::optional<std::filesystem::path> out, floors;  // of shakedown baseline
  std::optional<std::filesystem::path> store;        // of regress: a folder of baselines
  FloorOptions floor_options;
  double tolerance = default_tolerance;
  RegressionOptions regression;
  JudgeOptions judge;
  std::optional<bool> color;
  std::optional<std::size_t> width;
  bool scontrol = false, kubectl = false;  // for nodes: print commands for the scheduler
  bool partial_ok = false;                 // exit code 0 for a PARTIAL verdict
  bool skip_unmeasured = false;            // for acceptance_test: exit code 77 if the family has no measurement
  bool all = false, help = false, version = false;
};

/// The table of flags, with those of output files.
const FlagTable& all_flags();

/// Parses the words of `taker` (base/flags.hpp) and reads the roster. `thresholds` is the default folder if neither the
/// flag nor SHAKEDOWN_THRESHOLDS names one, and the folder in which a profile is found by name. Errors: InputError.
Arguments parse_arguments(const std::string& taker, const std::vector<std::string>& words,
                          const std::filesystem::path& thresholds);

/// The same without --results, --families and --scaling, which have another meaning for verbs that measure.
Arguments arguments_of(const GivenFlags&, const std::vector<std::string>& words,
                       const std::filesystem::path& thresholds);

/// True if a stored verdict is shown: --verdict names it, and there are no results to judge.
bool is_stored(const Arguments&);

/// The references that all runs of a command share.
struct GivenReferences {
  std::optional<Site> site;
  std::vector<Profile> profiles;
  std::optional<Baseline> baseline;

  const Site* site_or_null() const { return site ? &*site : nullptr; }
  /// Returns the profiles for this run. The profile of its GPUs has the rules of the site.
  std::vector<Profile> profiles_for(const Measured&) const;
};

/// Reads profiles, site and baseline. Errors: InputError.
GivenReferences read_references(const Arguments&);

/// Reads the results and references and judges them. Errors: InputError.
Judged judge(const Arguments&);

/// Returns the exit code of the verdict, or 0 for a PARTIAL verdict if --partial-ok is set.
int exit_code(const Verdict&, const Arguments&);

/// Returns the style that the flags request, else that of standard output (base/console.hpp); 120 columns without a
/// terminal.
TerminalStyle style_of(const Arguments&);

}  // namespace shakedown
