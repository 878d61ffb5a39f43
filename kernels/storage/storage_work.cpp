#include "kernels/storage/storage_work.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <map>

#include "base/archive.hpp"
#include "base/files.hpp"
#include "base/timed_call.hpp"

namespace shakedown::storage {

namespace fs = std::filesystem;

void refuse(const fs::path& file, const std::string& what, std::error_code error) {
  const bool full = error == std::errc::no_space_on_device || error.value() == EDQUOT;
  throw InputError(fmt::format(
      "{}: {}: {}; {} (--storage-dir)", file.string(), what, error.message(),
      full ? "free space, or choose another folder" : "check the mount of this folder, or choose another one"));
}

void require(bool succeeded, const fs::path& file, const std::string& what) {
  if (!succeeded) refuse(file, what, {errno, std::generic_category()});
}

int source_of(const std::vector<std::string>& hosts, int rank) {
  std::vector<std::vector<int>> ranks_of_host;
  std::map<std::string, std::size_t> index;
  std::size_t own_host = 0, own_index = 0;
  for (int r = 0; r < static_cast<int>(hosts.size()); ++r) {
    const auto [found, fresh] = index.emplace(hosts[static_cast<std::size_t>(r)], ranks_of_host.size());
    if (fresh) ranks_of_host.emplace_back();
    auto& ranks = ranks_of_host[found->second];
    if (r == rank) own_host = found->second, own_index = ranks.size();
    ranks.push_back(r);
  }
  const bool alone = ranks_of_host.size() == 1;
  const auto& others = ranks_of_host[(own_host + 1) % ranks_of_host.size()];
  return others[(own_index + (alone ? 1 : 0)) % others.size()];
}

StorageWork::~StorageWork() {
  own_folder_.reset();
  if (!folder_.empty()) remove_if_done(folder_);  // the last rank finds only the lock file
}

void StorageWork::connect(Group& group) {
  group_ = &group;
  if (group.rank() == 0) {
    attempt([&] {
      const TimedCall call("make a folder in", spec_.folder);
      own_folder_ = std::make_unique<OwnFolder>(spec_.folder, "storage");
      const auto& path = own_folder_->path();
      if (!is_visible(path)) require(::mkdir(path.c_str(), 0700) == 0, spec_.folder, "no folder can be made in it");
    });
  }
  folder_ = broadcast(group, own_folder_ ? own_folder_->path().string() : "");
  auto why = agreed(error_);
  if (why.empty()) {
    attempt([&] {
      const TimedCall call("look at", folder_);
      if (!is_visible(folder_)) refuse(folder_, "is not seen here", {ENOENT, std::generic_category()});
    });
    attempt([&] { prepare_files(); });
    why = agreed(error_);  // also a barrier: the files of all ranks are now complete
  }
  if (why.empty()) return;
  remove_files();
  throw Unsupported(why, true);
}

void StorageWork::stage(int repeats) {
  announced_ += repeats;
  attempt([&] { before_sample(); });
}

void StorageWork::enqueue() {
  run();
  ++done_;
}

Check StorageWork::verify() {
  if (announced_ == 0) return {};
  Check found;
  const auto why = input_error_of([&] { found = check(); });
  if (!why.empty()) return {found.compared + 1, 1, why};
  ++found.compared;
  if (done_ != announced_ && found.mismatched++ == 0)
    found.first = fmt::format("{} of {} operations", done_, announced_);
  return found;
}

std::string StorageWork::obstacle() const { return agreed(error_); }

void StorageWork::attempt(const std::function<void()>& step) {
  if (error_.empty()) error_ = input_error_of(step);
}

/// Returns the first error of any rank with the name of the rank; empty if there is none. Collective.
std::string StorageWork::agreed(const std::string& mine) const {
  const auto all = group_->gather(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    const auto& hosts = group_->hosts();
    return fmt::format("rank {} ({}): {}", rank, rank < hosts.size() ? hosts[rank] : "", all[rank]);
  }
  return "";
}

std::unique_ptr<Work> prepare(const Spec& spec) {
  switch (spec.op) {
    case Op::write:
    case Op::read: return make_streams(spec);
    case Op::metadata: return make_metadata(spec);
    case Op::visible: return make_visible(spec);
    case Op::lock: return make_lock(spec);
  }
  throw std::logic_error("an operation on storage without a Work");
}

}  // namespace shakedown::storage
