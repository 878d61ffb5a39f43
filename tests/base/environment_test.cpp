// The table of variables, and what users are told about others.
#include "base/environment.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/files.hpp"

namespace shakedown::environment_test {
namespace {

namespace fs = std::filesystem;

const fs::path source = SHAKEDOWN_SOURCE_DIR;

/// Returns the names of variables that a text reads, without "SHAKEDOWN_": those after a quote in code, and those after
/// '$' or "${" in scripts.
std::set<std::string> read_in(const std::string& text, bool is_code) {
  constexpr std::string_view start = "SHAKEDOWN_";
  std::set<std::string> names;
  for (auto at = text.find(start); at != std::string::npos; at = text.find(start, at + 1)) {
    const auto before = text.substr(at < 2 ? 0 : at - 2, std::min<std::size_t>(at, 2));
    if (is_code ? !before.ends_with('"') : !before.ends_with('$') && before != "${") continue;
    const auto begin = at + start.size();
    const auto end = text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", begin);
    names.insert(text.substr(begin, end - begin));
  }
  names.erase("");
  return names;
}

/// Returns the names of variables that programs, scripts and tests read. Those of CMake's files are CMake's own.
std::set<std::string> read_by_all() {
  std::set<std::string> names;
  for (const char* const folder :
       {"base", "node", "kernels", "thresholds", "fixtures", "report", "bench", "launch", "ci", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(source / folder)) {
      const auto kind = entry.path().extension();
      const bool is_other = kind == ".json" || kind == ".cmake" || entry.path().filename() == "CMakeLists.txt";
      if (is_other || !entry.is_regular_file() || entry.path().filename() == "environment_test.cpp") continue;
      names.merge(read_in(read_file(entry.path()), kind == ".cpp" || kind == ".hpp" || kind == ".cu" || kind == ".py"));
    }
  }
  return names;
}

TEST(Variables, AreInOneTableIfAndOnlyIfSomethingReadsThem) {
  std::set<std::string> known;
  for (const auto& variable : known_variables()) known.emplace(variable.name);
  EXPECT_EQ(known.size(), known_variables().size()) << "each is there once";
  EXPECT_EQ(read_by_all(), known);
}

TEST(Variables, ThatUsersSetAreInTheManual) {
  const auto manual = read_file(source / "docs/measuring.md");
  for (const auto& variable : known_variables()) {
    if (variable.use == Variable::internal) continue;
    EXPECT_NE(manual.find("`SHAKEDOWN_" + std::string(variable.name) + "`"), std::string::npos) << variable.name;
  }
}

TEST(Variables, ThatNothingReadsAreNamedWithTheNearestOne) {
  const auto before = warnings_of_unknown_variables().size();
  setenv("SHAKEDOWN_TIER", "full", 1);
  EXPECT_EQ(warnings_of_unknown_variables().size(), before);
  setenv("SHAKEDOWN_TIRE", "full", 1);
  setenv("SHAKEDOWN_SOMETHING_ELSE", "", 1);
  const auto warnings = warnings_of_unknown_variables();
  for (const char* const name : {"SHAKEDOWN_TIER", "SHAKEDOWN_TIRE", "SHAKEDOWN_SOMETHING_ELSE"}) unsetenv(name);
  const auto has = [&](const std::string& line) {
    return std::find(warnings.begin(), warnings.end(), line) != warnings.end();
  };
  EXPECT_EQ(warnings.size(), before + 2);
  EXPECT_TRUE(has("warning: SHAKEDOWN_TIRE has no effect, because no program reads it (did you mean SHAKEDOWN_TIER?)"));
  EXPECT_TRUE(has("warning: SHAKEDOWN_SOMETHING_ELSE has no effect, because no program reads it; unset it"));
}

}  // namespace
}  // namespace shakedown::environment_test
