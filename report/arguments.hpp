// The command line of the programs that judge: acceptance_test and shakedown.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "report/outputs.hpp"
#include "report/terminal.hpp"
#include "thresholds/history/baseline.hpp"
#include "thresholds/history/regression.hpp"
#include "thresholds/judge/judge.hpp"

namespace shakedown {

/// In the folder of a run that `accept --scaling` made: launches of fewer nodes, "1node", "2nodes", ... in folders of
/// their own, with the names of nodes that ended one in its file "lost".
inline constexpr const char* scaling_folder = "scaling";

struct Arguments {
  std::vector<std::filesystem::path> results, baseline;
  std::filesystem::path thresholds;
  OutputFiles outputs;
  std::optional<std::filesystem::path> nodes;  // folder for good_nodes, bad_nodes and nodes.json
  std::vector<std::filesystem::path> scaling;  // results with other numbers of ranks or nodes
  std::optional<std::filesystem::path> site;
  std::optional<std::string> explain;
  std::optional<std::filesystem::path> out, floors;  // of shakedown baseline
  std::optional<std::filesystem::path> store;        // of regress: a folder of baselines that grow
  FloorOptions floor_options;
  double tolerance = default_tolerance;
  RegressionOptions regression;
  JudgeOptions judge;
  std::optional<bool> color;
  std::size_t width = TerminalStyle{}.width;
  bool scontrol = false, kubectl = false;  // of nodes: print commands for the scheduler
  bool partial_ok = false;                 // a PARTIAL verdict ends with exit code 0
  bool skip_unmeasured = false;            // of acceptance_test: 77 where nothing of the family was measured
  bool all = false, help = false, version = false;
};

/// `thresholds` is the folder to use when neither the flag nor SHAKEDOWN_THRESHOLDS names one. The roster is read here.
/// Errors: InputError for an unknown or malformed flag, or a roster that cannot be read.
Arguments parse_arguments(const std::vector<std::string>& words, const std::filesystem::path& thresholds);

/// Errors: InputError for a flag that stands there twice: one of the two would be lost.
void refuse_repeated(const std::vector<std::string>& words);

/// Errors: InputError for a flag above that `program` would ignore: a verb of shakedown ("baseline create"),
/// "acceptance_test", or "stored" for a verdict that is shown as it stands in a file.
void refuse_ignored(const std::string& program, const std::vector<std::string>& words);

/// Reads profiles, site and baseline as judge() will: who measures first learns before it what is wrong there. Errors:
/// InputError.
void check_references(const Arguments&);

/// The flags above, one per line, for --help.
std::string arguments_help();

/// Loads and judges. Errors: InputError.
Judged judge(const Arguments&);

/// The exit code of the verdict, or 0 for a PARTIAL one where --partial-ok allows it.
int exit_code(const Verdict&, const Arguments&);

/// Whether NO_COLOR has any value but the empty one (https://no-color.org).
bool no_color();

/// Colour where --color says so; without it only where CLICOLOR_FORCE is set and NO_COLOR is not. Never by asking
/// whether the output is a terminal: under mpirun that is not known.
TerminalStyle style_of(const Arguments&);

}  // namespace shakedown
