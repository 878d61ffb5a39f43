// The common part of Works on a shared folder: a temporary folder for all ranks, which is removed at the end, and
// errors of the file system that all ranks agree on.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <system_error>

#include "kernels/device.hpp"
#include "kernels/own_folder.hpp"
#include "kernels/storage/spec.hpp"

namespace shakedown::storage {

/// Throws InputError "FILE: cannot be opened: No space left on device; ...".
[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what, std::error_code);
/// Throws the error of the last system call if `succeeded` is false.
void require(bool succeeded, const std::filesystem::path& file, const std::string& what);

class StorageWork : public Work {
 public:
  explicit StorageWork(Spec spec) : spec_(std::move(spec)) {}
  ~StorageWork() override;

  /// Makes the folder and prepares the files. Errors: Unsupported on all ranks, which becomes a failed row.
  void connect(Group&) final;
  void stage(int repeats) final;
  void enqueue() final;
  void reset() final {
    announced_ = done_ = 0;
    clear();
  }
  Check verify() final;
  /// Returns the first error of any rank. Collective over all ranks.
  std::string obstacle() const final;

  Cost cost() const override { return storage::cost(spec_, group_ == nullptr ? 1 : group_->on_host().size()); }
  std::size_t bytes() const override { return 0; }
  bool collective() const override { return true; }
  bool on_processor() const override { return true; }

 protected:
  /// Local parts of connect, stage and reset. Errors of the file system: InputError.
  virtual void prepare_files() {}
  virtual void before_sample() {}
  virtual void clear() {}
  /// The operation. Its steps on files are attempts, and all ranks make the same calls of the group.
  virtual void run() = 0;
  /// Checks what the operations have left. Errors of the file system: InputError. All ranks make the same calls of the
  /// group.
  virtual Check check() = 0;
  /// Removes this rank's files. Local.
  virtual void remove_files() noexcept = 0;

  const Spec& spec() const { return spec_; }
  Group& group() const { return *group_; }
  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path file_of(int rank) const { return folder_ / ("rank" + std::to_string(rank)); }
  /// Runs a local step, unless an earlier step failed, and keeps its error for obstacle().
  void attempt(const std::function<void()>& step);

 private:
  std::string agreed(const std::string& mine) const;

  Spec spec_;
  Group* group_ = nullptr;
  std::unique_ptr<OwnFolder> own_folder_;  // made by rank 0
  std::filesystem::path folder_;
  std::string error_;  // of this rank
  int announced_ = 0, done_ = 0;
};

std::unique_ptr<Work> make_streams(const Spec&);
std::unique_ptr<Work> make_metadata(const Spec&);
std::unique_ptr<Work> make_visible(const Spec&);
std::unique_ptr<Work> make_lock(const Spec&);

}  // namespace shakedown::storage
