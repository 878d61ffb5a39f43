#include "base/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/nearest_word.hpp"
#include "base/text.hpp"

namespace shakedown {

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

const std::vector<Variable>& known_variables() {
  static const std::vector<Variable> rows{
      {"BUILD"},
      {"CHECKPOINT_DIR"},
      {"CHOICES"},
      {"CMAKE_ARGS"},
      {"CUDA_LIBRARIES"},
      {"DCGM"},
      {"DESPITE_PREFLIGHT"},
      {"EXPECT"},
      {"HOME"},
      {"INTERFACE"},
      {"LAUNCH"},
      {"LEDGER"},
      {"NCCL"},
      {"NODE"},
      {"PROGRAM"},
      {"RANKS"},
      {"RESULTS"},
      {"ROSTER"},
      {"RUN_ID"},
      {"SECRET"},
      {"SECRET_FILE"},
      {"SHARED_FOLDER"},
      {"SLURM_NODE"},
      {"SNIFF"},
      {"STORAGE_DIR"},
      {"THRESHOLDS"},
      {"TIER"},
      {"TIMEOUT"},
      // Variables that `shakedown` sets for its ranks, and variables that simulate machines and faults.
      {"EVENTS", Variable::internal},
      {"FAULT", Variable::internal},
      {"GPU", Variable::internal},
      {"HOST", Variable::internal},
      {"LIMITS_SCALE", Variable::internal},
      {"NVML", Variable::internal},
      {"ROOT", Variable::internal},
      {"SYSFS", Variable::internal},
      // Variables that only tests set.
      {"FAKE_NVML", Variable::internal},
      {"FUZZED_LINES", Variable::internal},
      {"LIE", Variable::internal},
      {"NIGHTLY", Variable::internal},
      {"PAGES", Variable::internal},
      {"PLANTED_GPUS", Variable::internal},
      {"TEST_NAMESPACE", Variable::internal},
  };
  return rows;
}

std::vector<std::string> warnings_of_unknown_variables() {
  const std::string start = "SHAKEDOWN_";
  std::vector<std::string> known, warnings;
  for (const auto& variable : known_variables()) known.emplace_back(variable.name);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('='));
    if (!name.starts_with(start)) continue;
    const auto word = name.substr(start.size());
    if (std::find(known.begin(), known.end(), word) != known.end()) continue;
    const auto meant = nearest_word(word, known);
    warnings.push_back("warning: " + one_line(name) + " has no effect, because no program reads it" +
                       (meant ? " (did you mean " + start + *meant + "?)" : "; unset it"));
  }
  std::sort(warnings.begin(), warnings.end());
  return warnings;
}

}  // namespace shakedown
