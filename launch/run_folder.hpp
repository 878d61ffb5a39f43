// The folder of a run. A lock prevents other processes from writing to it during the run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/descriptor.hpp"
#include "base/held_folder.hpp"
#include "base/run_lock.hpp"
#include "base/shown_path.hpp"

namespace shakedown {

class RunFolder {
 public:
  /// Creates `<results>/<id>` and makes `<results>/latest` a link to it. Removes older runs, except the last `keep` and
  /// those whose process still runs. If `id` is empty, makes one that sorts by time. Errors: CannotRun; InputError for
  /// an invalid id.
  static RunFolder create(const std::filesystem::path& results, const std::string& id, int keep);

  /// Empties `folder` and uses it for the run. Does not change `latest`. Errors: CannotRun.
  static RunFolder take(const std::filesystem::path& folder, const std::string& id);

  /// Opens the folder of a run that continues, and keeps its files. Errors: CannotRun if another process uses it.
  static RunFolder resume(const std::filesystem::path& folder, const std::string& id);

  /// Returns a path that stays valid if the folder is renamed. Only this process and its forks can use it.
  const std::filesystem::path& path() const { return folder_.path(); }
  /// Returns the path of the folder for users and for other programs.
  std::filesystem::path shown_path() const { return shown(path()); }
  const std::string& id() const { return id_; }

  /// Marks the run as complete. A run without this mark counts as aborted.
  void finish();
  /// Stores why the run was not completed. Each verdict on the folder is then INCOMPLETE.
  void break_off(const std::string& why);

 private:
  RunFolder(HeldFolder folder, std::string id, bool emptied);

  HeldFolder folder_;
  std::string id_;
  Descriptor lock_;  // its destructor releases the lock
};

/// The folder of a run that CTest makes in several processes. The process of ctest is its owner.
namespace ctest {
/// Empties the folder for `owner`, writes run_id, and makes `latest` next to the folder a link to it. Errors: CannotRun
/// with the name of the run if another process owns the folder and still runs.
void begin(const std::filesystem::path& folder, const Owner& owner, const std::string& id);
/// Returns the id of the run. Errors: CannotRun if the folder belongs to another owner.
std::string check(const std::filesystem::path& folder, const Owner& owner);
}  // namespace ctest

/// Returns the default folder of runs: that of SHAKEDOWN_RESULTS, else results/ of the build tree. If the build tree is
/// not writable or the program is installed, returns results/ of the working folder.
std::filesystem::path usual_results();

}  // namespace shakedown
