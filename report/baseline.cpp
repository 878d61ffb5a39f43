#include "report/baseline.hpp"

#include <cstdio>

#include "base/temporary_folder.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

std::string propose_floors(const Baseline& baseline, const std::vector<Profile>& profiles, const Arguments& arguments) {
  const fs::path& file = *arguments.floors;
  if (file.extension() != ".yaml") throw InputError("--floors: name a file that ends in .yaml, as in h200-sxm.yaml");
  const std::string known = baseline_folder(baseline, profiles).parent_path();
  const Profile* reference = nullptr;
  for (const Profile& profile : profiles) {
    if (profile.name == known) reference = &profile;
  }
  const std::string text = floors_yaml(baseline, file.stem(), reference, arguments.floor_options);
  // Loads the proposed profile from a temporary file first, so that no profile is written that the loader would reject.
  const TemporaryFolder scratch;
  const fs::path draft = scratch.path() / file.filename();
  replace_file(draft, text);
  const auto loaded = load_profiles(draft);
  replace_file(file, text);
  return file.string() + ": " + std::to_string(loaded.front().rules.size()) + " limits proposed\n";
}

void store(const Baseline& baseline, const std::vector<Profile>& profiles, const Arguments& arguments) {
  std::string done;
  if (arguments.out) {
    const fs::path file = *arguments.out / baseline_folder(baseline, profiles) / "baseline.json";
    store_baseline(file, baseline);
    done = file.string() + ": stored\n";
  }
  if (arguments.floors) done += propose_floors(baseline, profiles, arguments);
  std::fputs((terminal_text(baseline, style_of(arguments)) + done).c_str(), stdout);
}

}  // namespace

int baseline(const std::string& action, const Arguments& arguments) {
  const auto needs = [&](bool given, const char* flag) {
    if (!given) throw InputError("baseline " + action + " needs " + flag + "; see --help");
  };
  const auto profiles = load_profiles(arguments.thresholds);
  if (action == "create") {
    needs(!arguments.results.empty(), "--results");
    needs(arguments.out || arguments.floors, "--out or --floors");
    auto baselines = baselines_of(read_results(arguments.results));
    if (arguments.floors && baselines.size() > 1) {
      throw InputError("--floors: the files are of several kinds of machine or numbers of ranks; give those of one");
    }
    for (Baseline& one : baselines) {
      leave_out_outliers(one);
      store(one, profiles, arguments);
    }
  } else if (action == "merge") {
    needs(arguments.baseline.size() > 1, "two or more --baseline=F,F");
    needs(arguments.out || arguments.floors, "--out or --floors");
    std::vector<Baseline> parts;
    for (const auto& path : arguments.baseline) parts.push_back(read_baseline({path}));
    Baseline merged = merge(parts);
    leave_out_outliers(merged);
    store(merged, profiles, arguments);
  } else if (action == "show") {
    needs(!arguments.baseline.empty(), "--baseline");
    if (arguments.out) throw InputError("baseline show stores nothing; use create or merge for --out");
    store(read_baseline(arguments.baseline), profiles, arguments);
  } else {
    throw InputError("unknown action \"" + action + "\"; write baseline create, merge or show");
  }
  return 0;
}

}  // namespace shakedown
