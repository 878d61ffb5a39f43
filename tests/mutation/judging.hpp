// Calls everything that judges a run or displays a verdict.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/outputs.hpp"
#include "tests/mutation/runs.hpp"

namespace shakedown::mutation {

class Judging {
 public:
  /// `scratch` is a folder for the files of this process.
  Judging(std::vector<Profile> profiles, std::filesystem::path scratch);

  /// Returns the verdict of unchanged files.
  Verdict verdict(const std::vector<Results>& files) const;

  /// Returns the verdict after passing it through nodes, the explanation of `key` and the report for people. `turn`
  /// selects one other report, and one of --baseline, regress, baseline and floors, or scaling; an InputError of these
  /// is a valid answer. Errors: InputError for files that cannot be judged; std::runtime_error for a verdict that
  /// cannot be read again.
  Verdict verdict(const Run& run, std::vector<Results> files, const std::string& key, std::size_t turn) const;

  const std::vector<Profile>& profiles() const { return profiles_; }

 private:
  void show(const Judged&, const std::string& key, std::size_t turn) const;
  void compare(const Run& run, const Measured&, std::size_t turn) const;

  std::vector<Profile> profiles_;
  std::filesystem::path scratch_;
};

}  // namespace shakedown::mutation
