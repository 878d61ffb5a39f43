#include "launch/run_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "base/files.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"
#include "base/utc.hpp"
#include "launch/launch.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

/// Opens and locks `file`. nullopt if another process has the lock. On a file system without locks, it is as if the
/// lock were free.
std::optional<Descriptor> locked(const fs::path& file) {
  const TimedCall call("lock", file);
  Descriptor lock(open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!lock.is_open()) {
    throw CannotRun(shown(file).string() + " cannot be written: " + std::generic_category().message(errno) +
                    "; set SHAKEDOWN_RESULTS to a writable folder");
  }
  if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return lock;
  return std::nullopt;
}

void make_folder(const fs::path& folder) {
  const TimedCall call("create", folder);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw CannotRun(folder.string() + " cannot be made: " + error.message() +
                    "; set SHAKEDOWN_RESULTS to a writable folder");
  }
}

/// Returns the names of the files in a folder that exists already.
std::vector<std::string> names_of(const fs::path& folder) {
  if (auto names = names_in(folder)) return *names;
  throw CannotRun(shown(folder).string() + ": cannot be read; name a readable folder with --results=DIR");
}

/// Throws if the folder has no lock file of this program, so that files of other programs are never deleted. A folder
/// with only an empty lock file belongs to a run that is about to begin.
void refuse_foreign(const fs::path& folder) {
  const TimedCall call("read", folder);
  if (is_run_lock(folder / "lock")) return;
  const auto names = names_of(folder);
  std::error_code error;
  const bool begins = names == std::vector<std::string>{"lock"} && fs::file_size(folder / "lock", error) == 0 && !error;
  if (names.empty() || begins) return;
  throw InputError(shown(folder).string() +
                   " has files that belong to no run; name an empty folder, or the folder of an earlier run");
}

/// Removes all files except the lock. A file that remained would be judged as part of the new run.
void empty(const fs::path& folder) {
  const TimedCall call("empty", folder);
  for (const auto& name : names_of(folder)) {
    if (name != "lock") fs::remove_all(folder / name);
  }
}

/// Makes `latest` in the folder of results a link to the run of this name.
void lead_latest_to(const fs::path& results, const std::string& run) {
  const auto link = results / "latest";
  const TimedCall call("link", link);
  const auto fresh = results / (".latest." + run);  // a process of another host may have the same number
  std::error_code error;
  fs::remove(fresh, error);
  fs::create_symlink(run, fresh, error);
  if (!error) fs::rename(fresh, link, error);
  if (error) throw CannotRun(shown(link).string() + " cannot be made: " + error.message() + "; remove the file there");
}

void remove_older(const fs::path& results, const std::string& own, int keep) {
  const TimedCall phase(CallKind::phase, "removing older runs");
  std::vector<std::pair<fs::file_time_type, fs::path>> runs;
  std::error_code error;
  for (const auto& name : names_in(results).value_or(std::vector<std::string>{})) {
    const auto folder = results / name;
    if (name == "latest" || name == "ctest" || name == own || !is_run_lock(folder / "lock")) continue;
    runs.emplace_back(fs::last_write_time(folder / "lock", error), folder);
  }
  std::sort(runs.begin(), runs.end(), std::greater<>());
  for (std::size_t i = static_cast<std::size_t>(std::max(0, keep - 1)); i < runs.size(); ++i) {
    const auto free = locked(runs[i].second / "lock");
    if (!free) continue;  // the process of that run still runs
    const TimedCall call("remove", runs[i].second);
    fs::remove_all(runs[i].second, error);
  }
}

std::string made_up_id() {
  std::random_device random;
  std::string id;
  for (const char c : utc_now()) {
    if (c != '-' && c != ':') id += c;
  }
  id += '-';
  for (int i = 0; i < 6; ++i) id += "0123456789abcdef"[random() % 16];
  return id;
}

/// Locks a folder and writes the owner into the lock file. If `emptied`, removes all other files. nullopt if another
/// process has the lock.
std::optional<Descriptor> taken(const fs::path& folder, bool emptied) {
  refuse_foreign(folder);
  auto lock = locked(folder / "lock");
  if (!lock) return lock;
  if (emptied) empty(folder);
  write_lock(folder / "lock", owner_of(getpid()));
  return lock;
}

}  // namespace

fs::path usual_results() {
  if (const char* const named = std::getenv("SHAKEDOWN_RESULTS"); named != nullptr && *named != '\0') return named;
  const TimedCall call("find", "the usual results folder");
  const auto build = beside_program("");
  const bool of_build = fs::exists(build / "CMakeCache.txt") && access(build.c_str(), W_OK) == 0;
  return of_build ? build / "results" : fs::current_path() / "results";
}

RunFolder::RunFolder(HeldFolder folder, std::string id, bool emptied) : folder_(std::move(folder)), id_(std::move(id)) {
  auto lock = taken(path(), emptied);
  if (!lock) {
    throw CannotRun(shown_path().string() + " is in use by " + who(path() / "lock") + ": wait for it, or end it");
  }
  lock_ = std::move(*lock);
}

RunFolder RunFolder::create(const fs::path& results, const std::string& wanted, int keep) {
  const auto id = wanted.empty() ? made_up_id() : wanted;
  const bool plain = std::all_of(
      id.begin(), id.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; });
  if (!plain || id.front() == '.' || id == "latest" || id == "ctest") {
    throw InputError("SHAKEDOWN_RUN_ID=" + id +
                     ": the id is also the name of the run's folder: use letters, digits, '.', '_' and '-', but not "
                     "latest or ctest");
  }
  make_folder(results);
  const auto above = HeldFolder::open(results);
  RunFolder run(HeldFolder::create(above, id), id, true);
  lead_latest_to(above.path(), id);
  remove_older(above.path(), id, keep);
  return run;
}

RunFolder RunFolder::take(const fs::path& folder, const std::string& wanted) {
  make_folder(folder);
  auto held = HeldFolder::open(folder);
  held.require_trust();
  return {std::move(held), wanted.empty() ? made_up_id() : wanted, true};
}

RunFolder RunFolder::resume(const fs::path& folder, const std::string& id) {
  auto held = HeldFolder::open(folder);
  held.require_trust();
  return {std::move(held), id, false};
}

void RunFolder::finish() { RunFile(path() / "lock", RunFile::Mode::append).write("ended: " + utc_now() + "\n"); }

void RunFolder::break_off(const std::string& why) {
  RunFile(path() / "lock", RunFile::Mode::append).write("broke off: " + one_line(why) + "\n");
}

namespace ctest {

namespace {
/// Returns the running process that owns the folder; nullopt if no process does.
std::optional<std::string> other_owner(const fs::path& lock, const Owner& owner) {
  const auto known = owner_here(lock);  // the process may be on another host; the run id then identifies its files
  if (!known || *known == owner || !lives(*known)) return std::nullopt;
  return who(lock);
}
}  // namespace

void begin(const fs::path& folder, const Owner& owner, const std::string& id) {
  make_folder(folder);
  const auto held = HeldFolder::open(folder);
  held.require_trust();
  refuse_foreign(held.path());
  const auto lock = locked(held.path() / "lock");
  const auto other = lock ? other_owner(held.path() / "lock", owner) : who(held.path() / "lock");
  if (!other) {
    empty(held.path());
    write_lock(held.path() / "lock", owner);
    RunFile(held.path() / "run_id", RunFile::Mode::replace).write((id.empty() ? made_up_id() : id) + "\n");
    lead_latest_to(HeldFolder::open(folder.parent_path()).path(), folder.filename());
  }
  if (other) throw CannotRun(folder.string() + " is in use by " + *other + ": wait for it, or end it");
}

std::string check(const fs::path& folder, const Owner& owner) {
  if (const auto other = other_owner(folder / "lock", owner)) {
    throw CannotRun(folder.string() + " is in use by " + *other + ": wait for it, or end it");
  }
  const auto id = line_of(folder / "run_id");
  if (!id) throw CannotRun((folder / "run_id").string() + " is missing: run the test bench.begin first (ctest does)");
  return *id;
}

}  // namespace ctest

}  // namespace shakedown
