// Everything that judges a run or shows a verdict, one after the other.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/outputs.hpp"
#include "tests/mutation/runs.hpp"

namespace shakedown::mutation {

class Judging {
 public:
  /// `scratch`: a folder for files of this process.
  Judging(std::vector<Profile> profiles, std::filesystem::path scratch);

  /// The verdict of files as they are.
  Verdict verdict(const std::vector<Results>& files) const;

  /// The same, after it went through nodes, the explanation of `key`, the report for people, and by turns (`turn`)
  /// through one of the other reports and through --baseline, regress, baseline and floors, or scaling, whose
  /// InputErrors are answers. Errors: InputError for files that cannot be judged; std::runtime_error for a verdict that
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
