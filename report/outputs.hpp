// The output files of a verdict. Each has a flag, and a pure function that makes its text from the judged results. A
// new format is one row in the table of outputs.cpp.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "report/judged.hpp"
#include "thresholds/history/regression.hpp"

namespace shakedown {

struct Output {
  const char* flag;  // such as "--markdown"
  const char* help;
  std::string (*text)(const Judged&);
};

const std::vector<Output>& outputs();

/// An output file of a comparison with a baseline.
struct RegressionOutput {
  const char* flag;
  const char* help;
  std::string (*text)(const Regression&);
};

const std::vector<RegressionOutput>& regression_outputs();

/// by flag: the file
using OutputFiles = std::map<std::string, std::filesystem::path>;

/// Returns the flag of an output file that the words also name as an input: results, baselines, site, roster or
/// profile. Empty if there is none.
std::string output_over_input(const std::vector<std::string>& words);

/// Writes every file; a file that cannot be written completely keeps its old content. Errors: InputError with the file
/// name.
void write_outputs(const OutputFiles&, const Judged&);
void write_outputs(const OutputFiles&, const Regression&);

/// Writes the files after a measurement; an error of one file does not prevent the others. Returns `code`, the exit
/// code of the verdict, or 3 instead of 0 if a file cannot be written.
int write_all_outputs(const OutputFiles&, const Judged&, const char* program, int code);

/// Replaces the output files of a run that could not be judged, so that no old report remains. Reads the unparsed
/// command line, because the error may be in the flags. Reports write errors on stderr. `keep` is a flag that names an
/// input file.
void replace_outputs(const std::vector<std::string>& words, const Judged&, const char* program,
                     const std::string& keep = "");

/// Replaces the output files of a comparison that could not be made.
void replace_outputs(const std::vector<std::string>& words, const Regression&, const char* program);

/// Returns the words without the paths of results. For use when these paths do not respond, so that outputs cannot be
/// compared with them.
std::vector<std::string> without_results(std::vector<std::string> words);

/// Returns the final exit code of a program: `code`, or 3 with a line on stderr if its standard output could not be
/// written.
int after_output(int code, const char* program);

}  // namespace shakedown
