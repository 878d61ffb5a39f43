// The output files. Each has a flag, and a pure function that makes its text. A new format is one row in the tables of
// outputs.cpp.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "report/history.hpp"
#include "report/judged.hpp"
#include "thresholds/history/regression.hpp"
#include "thresholds/ledger/fleet.hpp"

namespace shakedown {

/// A format of the files about a judged run, a comparison with a baseline, a fleet, or the history in a ledger.
template <class Subject>
struct Output {
  const char* flag;  // such as "--markdown"
  const char* help;
  std::string (*text)(const Subject&);
};

template <class Subject>
const std::vector<Output<Subject>>& outputs();
template <>
const std::vector<Output<Judged>>& outputs();
template <>
const std::vector<Output<Regression>>& outputs();
template <>
const std::vector<Output<Fleet>>& outputs();
template <>
const std::vector<Output<History>>& outputs();

/// Returns the flags of all these files.
const std::set<std::string>& output_flags();

/// The path of each output file, by its flag.
using OutputFiles = std::map<std::string, std::filesystem::path>;

/// Returns the flag of an output file that the words also name as an input: results, baselines, site, roster or
/// profile. Empty if there is none.
std::string output_over_input(const std::vector<std::string>& words);

/// Throws InputError if a file with results of a run has the path of an output file.
void refuse_outputs_over_results(const OutputFiles&);

/// Writes every file; a file that cannot be written completely keeps its old content. Errors: InputError with the file
/// name.
template <class Subject>
void write_outputs(const OutputFiles& files, const Subject& subject) {
  for (const auto& output : outputs<Subject>()) {
    if (const auto found = files.find(output.flag); found != files.end()) {
      replace_file(found->second, output.text(subject));
    }
  }
}

/// Writes the files after a measurement; an error of one file does not prevent the other files. Returns `code`, the
/// exit code of the verdict, or 3 instead of 0 if a file cannot be written.
int write_all_outputs(const OutputFiles&, const Judged&, const char* program, int code);

/// Replaces the output files of a subject that could not be judged, so that no old report remains. Reads the unparsed
/// command line, because the error may be in the flags. Reports write errors on stderr. `keep` is a flag that names an
/// input file.
template <class Subject>
void replace_outputs(const std::vector<std::string>& words, const Subject&, const char* program,
                     const std::string& keep = "");

/// Returns the words without the paths of results. For use when these paths do not respond, so that outputs cannot be
/// compared with them.
std::vector<std::string> without_results(std::vector<std::string> words);

/// Returns the final exit code of a program: `code`, or 3 with a line on stderr if its standard output could not be
/// written.
int after_output(int code, const char* program);

}  // namespace shakedown
