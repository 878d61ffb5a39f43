// Changes after which a run may pass. Each follows from a rule of the profile or from the catalogue. docs/verdict.md
// lists the rows by name with the reason.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/mutation/change.hpp"
#include "thresholds/judge/verdict.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown::mutation {

/// Rows that a passing run does not need.
struct Listed {
  std::string rows;  // a key, in which * matches any text
  std::string reason;
};

/// Returns the table below "Rows that a verdict may ignore" of a Markdown file.
std::vector<Listed> read_listed(const std::filesystem::path& document);

class Exemptions {
 public:
  Exemptions(const std::vector<Profile>& profiles, std::vector<Listed> listed);

  /// Returns why a run that was `healthy` may pass after a change of a row; nullopt if it must not.
  std::optional<std::string> reason(const Verdict& healthy, const std::string& key, const std::string& metric,
                                    Kind kind) const;

 private:
  const Rule* rule_of(const Finding&) const;

  std::vector<const Rule*> rules_;
  std::vector<Listed> listed_;
};

}  // namespace shakedown::mutation
