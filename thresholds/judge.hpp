// The judgement: a pure function of results, profiles and options. Whatever was not measured, verified and judged is
// not a pass.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/verdict.hpp"

namespace shakedown {

/// One line of a roster: a host that must report and, if said, with how many ranks.
struct RosterEntry {
  std::string host;
  std::optional<int> ranks;
};

/// Lines "host", "host 8" or "host slots=8"; # starts a comment. Errors: InputError "file:line:1: what; what to do".
std::vector<RosterEntry> read_roster(const std::filesystem::path& file);

struct JudgeOptions {
  std::optional<std::string> family;  // judge this family only
  Expected expected;
  std::optional<std::string> run_id;  // the only run whose files are judged
  std::vector<RosterEntry> roster;
  bool mixed_runs = false;
  bool allow_faults = false;
};

/// Errors: InputError for no results at all, or for a file with an injected fault that options do not allow.
Verdict judge(const std::vector<Results>&, const std::vector<Profile>&, const JudgeOptions&);

/// Adds findings to a verdict that stands, and works out its state, exit code and counts again.
void add_findings(Verdict&, std::vector<Finding>);

/// Works out the culprits again, with the findings that were added since.
void name_culprits(Verdict&, const std::vector<Results>&, const JudgeOptions&);

/// How the findings of one key came about: the rules that name it, whether they apply and why not, what was measured.
/// Errors: InputError if the key was neither measured nor named by a rule.
std::string explain(const std::vector<Results>&, const std::vector<Profile>&, const JudgeOptions&,
                    const std::string& key);

}  // namespace shakedown
