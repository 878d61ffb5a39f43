// The files that a verdict is written to: one flag and one pure function from what was judged to text for each. A
// further form is a line in the table of outputs.cpp.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "thresholds/judge/verdict.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/profile.hpp"
#include "thresholds/soak/watch.hpp"

namespace shakedown {

/// What was read, each file once, and what it comes to.
struct Judged {
  std::unique_ptr<const Measured> measured;  // null: the verdict was stored, and its figures are elsewhere
  std::vector<Profile> profiles;
  Verdict verdict;
  const Watch* watch = nullptr;  // of which it is the verdict, and how each GPU went in it; null: of one run
  const WatchJudgement* course = nullptr;
  std::function<Judged()> last_round = {};  // of a watch: judges the round whose figures exports hold
};

struct Output {
  const char* flag;  // "--markdown"
  const char* help;
  std::string (*text)(const Judged&);
};

const std::vector<Output>& outputs();

/// flag -> file
using OutputFiles = std::map<std::string, std::filesystem::path>;

/// Returns the flag of an output that is one of the files that the other words name as input: results, baselines, site,
/// roster, profile; empty if there is none.
std::string output_over_input(const std::vector<std::string>& words);

/// Writes every file, each as a whole or not at all. Errors: InputError naming the file; what stood there stays.
void write_outputs(const OutputFiles&, const Judged&);

/// Writes each by itself, after a measurement. Returns `code`, the verdict's, or 3 in place of 0 if one of them cannot
/// be written.
int write_all_outputs(const OutputFiles&, const Judged&, const char* program, int code);

/// The same for a run that could not be judged, from the words of the command line as they are, since they may be what
/// is wrong: an old report must not outlive it. Says on stderr what cannot be written. `keep` is a flag that names
/// input.
void replace_outputs(const std::vector<std::string>& words, const Judged&, const char* program,
                     const std::string& keep = "");

/// The exit code of a program at its end: `code`, or 3, with a line on stderr, if its standard output was lost.
int after_output(int code, const char* program);

}  // namespace shakedown
