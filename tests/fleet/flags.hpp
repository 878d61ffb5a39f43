// The flags that both programs have.
#pragma once

#include <cstdlib>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/fleet/fleet.hpp"

namespace shakedown::fleet {

/// --name=value, each once, but --fault as often as there are faults. Errors: std::runtime_error.
class Flags {
 public:
  Flags(int argc, char** argv, const std::set<std::string>& known) {
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      const auto equals = word.find('=');
      const auto name = word.substr(0, equals);
      if (equals == std::string::npos || !known.contains(name))
        throw std::runtime_error("unknown flag \"" + word + "\"");
      if (name == "--fault") {
        faults_.push_back(parse_fault(word.substr(equals + 1)));
      } else if (!values_.emplace(name, word.substr(equals + 1)).second) {
        throw std::runtime_error(name + " stands twice");
      }
    }
  }

  std::string text(const std::string& name, const std::string& otherwise) const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : found->second;
  }

  std::uint64_t number(const std::string& name, std::uint64_t otherwise) const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : whole(name, found->second);
  }

  static std::uint64_t whole(const std::string& name, const std::string& value) {
    if (value.empty() || value.size() > 15 || value.find_first_not_of("0123456789") != std::string::npos) {
      throw std::runtime_error(name + "=" + value + ": a whole number is expected");
    }
    return std::strtoull(value.c_str(), nullptr, 10);
  }

  /// What both programs make a fleet from.
  Plan plan() const {
    Plan plan;
    const std::string root = SHAKEDOWN_SOURCE_DIR;
    plan.source = text("--template", root + "/ci/baselines/h200-sxm/4ranks/1");
    plan.noise = read_noise(text("--noise", root + "/tests/fleet/noise/calm.yaml"));
    plan.hosts = static_cast<int>(number("--hosts", 1));
    plan.gpus = static_cast<int>(number("--gpus", 8));
    plan.hosts_per_rack = static_cast<int>(number("--hosts-per-rack", 4));
    plan.launch = number("--launch", 1);
    plan.faults = faults_;
    return plan;
  }
  static std::set<std::string> of_plan(std::set<std::string> and_these) {
    and_these.insert({"--template", "--noise", "--hosts", "--gpus", "--hosts-per-rack", "--launch", "--fault"});
    return and_these;
  }

 private:
  std::map<std::string, std::string> values_;
  std::vector<Fault> faults_;
};

}  // namespace shakedown::fleet
