// The folder of a run's files, to which no other process writes while the run lives.
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
  /// `<results>/<id>`, new and empty; `<results>/latest` leads to it from now on. `keep` older runs are kept, and
  /// those that live. An empty id: one is made up, in the order of time. Errors: CannotRun, InputError for an id that
  /// is no name.
  static RunFolder create(const std::filesystem::path& results, const std::string& id, int keep);

  /// `folder` itself, emptied; of no concern to `latest`. Errors: CannotRun.
  static RunFolder take(const std::filesystem::path& folder, const std::string& id);

  /// A folder of a run that goes on: its files stay. Errors: CannotRun if another process uses it.
  static RunFolder resume(const std::filesystem::path& folder, const std::string& id);

  /// For calls of this process and its forks: leads here whatever becomes of the folder's name.
  const std::filesystem::path& path() const { return folder_.path(); }
  /// For people and other programs.
  std::filesystem::path shown_path() const { return shown(path()); }
  const std::string& id() const { return id_; }

  /// Marks the run as complete: from now on the folder is not that of a run which broke off.
  void finish();
  /// Keeps the reason why the run was not completed: the folder is INCOMPLETE for it wherever it is judged.
  void break_off(const std::string& why);

 private:
  RunFolder(HeldFolder folder, std::string id, bool emptied);

  HeldFolder folder_;
  std::string id_;
  Descriptor lock_;  // frees the lock
};

/// CTest starts a process for each step of a run: the folder is that of ctest's process, for as long as it lives.
namespace ctest {
/// Empties the folder for `owner`, writes run_id, and leads `latest` next to the folder to it. Errors: CannotRun,
/// naming the run, if another live process owns it.
void begin(const std::filesystem::path& folder, const Owner& owner, const std::string& id);
/// The run's id. Errors: CannotRun if the folder is not the owner's.
std::string check(const std::filesystem::path& folder, const Owner& owner);
}  // namespace ctest

/// Where runs go: SHAKEDOWN_RESULTS, else the build tree's results/, else, where that cannot be written or the program
/// is installed, results/ of the working folder.
std::filesystem::path usual_results();

}  // namespace shakedown
