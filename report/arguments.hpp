// The command line of the programs that judge results: acceptance_test and shakedown.
#pragma once

#include <cstdint>
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
#include "thresholds/ledger/event.hpp"
#include "thresholds/rules/site.hpp"

namespace shakedown {

/// The folder inside a run's folder in which `accept --scaling` writes one folder for each launch: "1node", "2nodes",
/// and so on. The file "lost" in a launch's folder names the nodes whose loss ended that launch.
inline constexpr const char* scaling_folder = "scaling";

struct GivenReferences;

/// The cluster that rehearse simulates.
struct RehearsalFlags {
  std::optional<int> hosts, clusters;  // nullopt: those of the site's roster; a number that depends on the size
  int gpus = 8;                        // GPUs of each host
  std::string noise = "mixed";         // name of a file of thresholds/rehearsal/noise
  std::uint32_t seed = 1;
};

struct Arguments {
  std::vector<std::filesystem::path> results, baseline;
  std::filesystem::path thresholds;
  OutputFiles outputs;
  std::optional<std::filesystem::path> nodes;  // folder for good_nodes, bad_nodes and nodes.json
  std::vector<std::filesystem::path> scaling;  // results of launches on other numbers of ranks or nodes
  std::optional<std::filesystem::path> site;
  std::optional<std::string> explain;
  std::string fault = "slow-hbm";                    // for demo: the planted fault
  std::vector<std::filesystem::path> operands;       // words that are not flags: the two runs that compare reads
  std::optional<std::filesystem::path> out, floors;  // for baseline: the files to write
  std::optional<std::filesystem::path> store;        // for regress: the folder in which it stores baselines
  std::optional<std::filesystem::path> ledger;       // a folder of events
  EventKind event = EventKind::run;                  // for ledger add, with its node and its reason
  std::string node, reason;
  std::filesystem::path key;                     // for certify: the key that signs
  std::optional<std::filesystem::path> signers;  // for verify: the allowed signers
  std::optional<double> due;                     // for history: days since the last whole run
  RehearsalFlags rehearsal;                      // for rehearse
  std::vector<double> prices;                    // of a GPU for an hour: one, or for compare those of A and B
  FloorOptions floor_options;
  double tolerance = default_tolerance;
  RegressionOptions regression;
  JudgeOptions judge;
  std::shared_ptr<const GivenReferences> references;  // read once for several judgements; null: judge reads them
  std::optional<bool> color;
  std::optional<std::size_t> width;
  bool scontrol = false, kubectl = false;  // for nodes: print commands for the scheduler
  bool partial_ok = false;                 // exit code 0 for a PARTIAL verdict
  bool skip_unmeasured = false;            // for acceptance_test: exit code 77 if the family has no measurement
  bool all = false, help = false, version = false;
};

/// Returns the table of all flags, including the flags of output files.
const FlagTable& all_flags();

/// Parses the words of the program `taker` (base/flags.hpp) and reads the roster. `thresholds` is the folder in which a
/// profile is found by its name, and the default if neither the flag nor SHAKEDOWN_THRESHOLDS names a folder. Errors:
/// InputError.
Arguments parse_arguments(const std::string& taker, const std::vector<std::string>& words,
                          const std::filesystem::path& thresholds);

/// Like parse_arguments, but ignores --results, --families and --scaling, because these have another meaning for the
/// verbs that measure.
Arguments arguments_of(const GivenFlags&, const std::vector<std::string>& words,
                       const std::filesystem::path& thresholds);

/// True if --verdict names a stored verdict to show, so that there are no results to judge.
bool is_stored(const Arguments&);

/// The references that all runs of a command share.
struct GivenReferences {
  std::optional<Site> site;
  std::vector<Profile> profiles;
  std::optional<Baseline> baseline;
  std::optional<std::vector<LedgerEvent>> own_runs;  // for a gate: earlier accepted runs of this node

  const Site* site_or_null() const { return site ? &*site : nullptr; }
  /// Returns the profiles for this run. The profile of its GPUs has the rules of the site.
  std::vector<Profile> profiles_for(const Measured&) const;
};

/// Reads profiles, site and baseline. Errors: InputError.
GivenReferences read_references(const Arguments&);

/// Reads the results, and the references if the arguments do not have them, and judges. Errors: InputError.
Judged judge(const Arguments&);

/// Returns the exit code of the verdict, or 0 for a PARTIAL verdict if --partial-ok is set.
int exit_code(const Verdict&, const Arguments&);

/// Returns the style that the flags request, else the style for standard output (base/console.hpp). Text for a file or
/// pipe has 120 columns.
TerminalStyle style_of(const Arguments&);

}  // namespace shakedown
