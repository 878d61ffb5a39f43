#include "thresholds/rules/profile_named.hpp"

#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/nearest_word.hpp"
#include "base/text.hpp"

namespace shakedown {

std::filesystem::path profile_named(const std::filesystem::path& named, const std::filesystem::path& folder) {
  if (path_exists(named)) return named;
  const bool is_name = named.native().find('/') == std::string::npos;
  if (const auto shipped = folder / (named.native() + ".yaml"); is_name && path_exists(shipped)) return shipped;
  std::vector<std::string> profiles;
  for (const std::filesystem::path name : names_in(folder).value_or(std::vector<std::string>{})) {
    if (name.extension() == ".yaml") profiles.push_back(name.stem());
  }
  const auto meant = did_you_mean(named.stem().native(), profiles);
  throw InputError("--thresholds: " + named.string() + ": no such file" +
                   (meant.empty() ? "; name one of " + joined(profiles) : meant));
}

}  // namespace shakedown
