// The folder of a run. No other process writes to it during the run.
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
  /// Creates `<results>/<id>` and links `<results>/latest` to it. Keeps `keep` older runs and those that still run. An
  /// empty id is replaced by a generated one, which sorts by time. Errors: CannotRun; InputError for an invalid id.
  static RunFolder create(const std::filesystem::path& results, const std::string& id, int keep);

  /// Empties `folder` and uses it; does not change `latest`. Errors: CannotRun.
  static RunFolder take(const std::filesystem::path& folder, const std::string& id);

  /// Reopens the folder of a run that continues, with its files. Errors: CannotRun if another process uses it.
  static RunFolder resume(const std::filesystem::path& folder, const std::string& id);

  /// Returns a path for this process and its forks that stays valid if the folder is renamed.
  const std::filesystem::path& path() const { return folder_.path(); }
  /// Returns the path for people and other programs.
  std::filesystem::path shown_path() const { return shown(path()); }
  const std::string& id() const { return id_; }

  /// Marks the run as complete. Without this, the run counts as aborted.
  void finish();
  /// Stores why the run was not completed. Every judgement of the folder is then INCOMPLETE.
  void break_off(const std::string& why);

 private:
  RunFolder(HeldFolder folder, std::string id, bool emptied);

  HeldFolder folder_;
  std::string id_;
  Descriptor lock_;  // releases the lock
};

/// The folder of a run that CTest makes in several processes. The process of ctest owns it.
namespace ctest {
/// Empties the folder for `owner`, writes run_id, and links `latest` next to the folder to it. Errors: CannotRun with
/// the name of the run if another live process owns it.
void begin(const std::filesystem::path& folder, const Owner& owner, const std::string& id);
/// Returns the id of the run. Errors: CannotRun if the folder is not the owner's.
std::string check(const std::filesystem::path& folder, const Owner& owner);
}  // namespace ctest

/// Returns the folder of runs: SHAKEDOWN_RESULTS, else results/ of the build tree, else, if that is not writable or the
/// program is installed, results/ of the working folder.
std::filesystem::path usual_results();

}  // namespace shakedown
