// The result files of a run: which files of a folder are results, and whose runs they are.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/shown_path.hpp"
#include "base/threads.hpp"
#include "base/timed_call.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

/// Finds the files to which paths with links lead. Follows the links of a folder once for all its files.
class LinkFollower {
 public:
  fs::path target(const fs::path& file) {
    const TimedCall call("stat", file);
    std::error_code error;
    if (fs::is_symlink(file, error) || !file.has_filename()) return fs::weakly_canonical(file);
    const auto [folder, fresh] = folders_.try_emplace(file.parent_path().native());
    if (fresh) folder->second = fs::weakly_canonical(folder->first.empty() ? fs::path(".") : fs::path(folder->first));
    return folder->second / file.filename();
  }

 private:
  std::map<std::string, fs::path> folders_;
};

}  // namespace

std::vector<fs::path> result_files(const fs::path& folder) {
  std::vector<fs::path> files;
  const TimedCall call("list", folder);
  std::error_code error;
  const fs::directory_iterator entries(folder, error);
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory) {
    refuse_to_read(folder, error);
  }
  for (const auto& entry : entries) {
    const std::string_view path = entry.path().native(), name = path.substr(path.rfind('/') + 1), end = ".json";
    const bool is_json = name.size() > end.size() && name.ends_with(end);
    if (is_json && name != "verdict.json" && name != "baseline.json") files.push_back(entry.path());
  }
  std::ranges::sort(files, {}, [](const fs::path& file) -> const std::string& { return file.native(); });
  return files;
}

namespace {

/// True if the folder contains folders of nodes with runs in them, as ci/slurm/array.sbatch makes it.
bool has_runs_of_nodes(const fs::path& folder) {
  std::error_code error;
  for (const auto& node : fs::directory_iterator(folder, error)) {
    if (!node.is_directory(error)) continue;
    for (const auto& run : fs::directory_iterator(node.path(), error)) {
      if (run.is_directory(error) && !result_files(run.path()).empty()) return true;
    }
  }
  return false;
}

/// Returns the order in which threads read files: the largest first, so that no thread begins a large file last.
std::vector<std::size_t> by_size(const std::vector<fs::path>& files) {
  std::vector<std::pair<std::uintmax_t, std::size_t>> sizes;
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::error_code error;
    const TimedCall call("stat", files[i]);
    const auto size = fs::file_size(files[i], error);
    sizes.emplace_back(error ? 0 : size, i);
  }
  std::ranges::stable_sort(sizes, std::greater{}, &std::pair<std::uintmax_t, std::size_t>::first);
  std::vector<std::size_t> order;
  for (const auto& [size, i] : sizes) order.push_back(i);
  return order;
}

/// Reads files with several threads. Errors: that of the first file that has one.
std::vector<Results> read_at_once(const std::vector<fs::path>& files) {
  // The largest file of a run has two fifths of the bytes, so more threads gain nothing. Each needs the memory of a
  // context and a row.
  constexpr std::size_t max_threads = 3;
  std::vector<Results> all(files.size());
  in_threads(
      by_size(files), [&](std::size_t i) { all[i] = read_results(files[i]); }, max_threads);
  return all;
}

}  // namespace

std::vector<Results> read_results(const std::vector<fs::path>& files_or_folders) {
  std::vector<fs::path> files;
  for (const fs::path& path : files_or_folders) {
    std::error_code error;
    if (!is_folder(path)) {
      files.push_back(path);
      continue;
    }
    const TimedCall call("list", path);
    std::vector<fs::path> inside = result_files(path);
    if (inside.empty()) {
      for (const auto& entry : fs::directory_iterator(path)) {
        // Stored tuning choices are JSON files in a folder next to the runs.
        if (!entry.is_directory(error) || entry.path().filename() == "choices") continue;
        const auto below = result_files(entry.path());
        inside.insert(inside.end(), below.begin(), below.end());
      }
      std::sort(inside.begin(), inside.end());
    }
    if (inside.empty() && fs::is_regular_file(path / soak_file, error)) {
      throw InputError(shown(path).string() +
                       ": a soak, whose rounds were judged as they were measured; its verdict is " +
                       (path / "verdict.json").string() + " (--verdict), and rounds/ has the last");
    }
    if (inside.empty() && has_runs_of_nodes(path)) {
      throw InputError(
          shown(path).string() +
          ": has runs of several nodes; judge them together with shakedown fleet --results=" + shown(path).string());
    }
    if (inside.empty())
      throw InputError(shown(path).string() + ": no result files (*.json) in this folder; run the benchmarks");
    files.insert(files.end(), inside.begin(), inside.end());
  }
  LinkFollower links;
  std::set<std::string> seen;  // a file that is named twice is read once
  std::erase_if(files, [&](const fs::path& file) { return !seen.insert(links.target(file).native()).second; });
  return read_at_once(files);
}

}  // namespace shakedown
