// The output files of a verdict. Each has a flag and a pure function from the judged results to text. A new format is
// one line in the table of outputs.cpp.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "report/judged.hpp"
#include "thresholds/history/regression.hpp"

namespace shakedown {

struct Output {
  const char* flag;  // "--markdown"
  const char* help;
  std::string (*text)(const Judged&);
};

const std::vector<Output>& outputs();

/// The same for a comparison with a baseline.
struct RegressionOutput {
  const char* flag;
  const char* help;
  std::string (*text)(const Regression&);
};

const std::vector<RegressionOutput>& regression_outputs();

/// flag -> file
using OutputFiles = std::map<std::string, std::filesystem::path>;

/// Returns the flag of an output file that other words name as input: results, baselines, site, roster or profile.
/// Empty if there is none.
std::string output_over_input(const std::vector<std::string>& words);

/// Writes every file, each completely or not at all. Errors: InputError with the file name; the old file is kept.
void write_outputs(const OutputFiles&, const Judged&);
void write_outputs(const OutputFiles&, const Regression&);

/// Writes each file independently after a measurement. Returns `code`, the code of the verdict, or 3 instead of 0 if a
/// file cannot be written.
int write_all_outputs(const OutputFiles&, const Judged&, const char* program, int code);

/// Replaces the output files of a run that could not be judged, so that no old report remains. Reads the raw words of
/// the command line, because the error may be there. Reports write errors on stderr. `keep` is a flag that names input.
void replace_outputs(const std::vector<std::string>& words, const Judged&, const char* program,
                     const std::string& keep = "");

/// The same for a comparison that could not be made.
void replace_outputs(const std::vector<std::string>& words, const Regression&, const char* program);

/// Returns the words without the paths of results. If these do not answer, no output can be compared with them.
std::vector<std::string> without_results(std::vector<std::string> words);

/// Returns the exit code of a program at its end: `code`, or 3 with a line on stderr if its standard output was lost.
int after_output(int code, const char* program);

}  // namespace shakedown
