// The files that a verdict is written to: one flag and one pure function from what was judged to text for each. A
// further form is a line in the table of outputs.cpp.
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

/// The same of a comparison with a baseline.
struct RegressionOutput {
  const char* flag;
  const char* help;
  std::string (*text)(const Regression&);
};

const std::vector<RegressionOutput>& regression_outputs();

/// flag -> file
using OutputFiles = std::map<std::string, std::filesystem::path>;

/// Returns the flag of an output that is one of the files that the other words name as input: results, baselines, site,
/// roster, profile; empty if there is none.
std::string output_over_input(const std::vector<std::string>& words);

/// Writes every file, each as a whole or not at all. Errors: InputError naming the file; what stood there stays.
void write_outputs(const OutputFiles&, const Judged&);
void write_outputs(const OutputFiles&, const Regression&);

/// Writes each by itself, after a measurement. Returns `code`, the verdict's, or 3 in place of 0 if one of them cannot
/// be written.
int write_all_outputs(const OutputFiles&, const Judged&, const char* program, int code);

/// The same for a run that could not be judged, from the words of the command line as they are, since they may be what
/// is wrong: an old report must not outlive it. Says on stderr what cannot be written. `keep` is a flag that names
/// input.
void replace_outputs(const std::vector<std::string>& words, const Judged&, const char* program,
                     const std::string& keep = "");

/// The same for a comparison that could not be made.
void replace_outputs(const std::vector<std::string>& words, const Regression&, const char* program);

/// The exit code of a program at its end: `code`, or 3, with a line on stderr, if its standard output was lost.
int after_output(int code, const char* program);

}  // namespace shakedown
