// Creates, looks at, renames and removes many files in one folder. Each rank looks at the files of another host.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

#include "base/descriptor.hpp"
#include "base/files.hpp"
#include "base/timed_call.hpp"
#include "kernels/storage/storage_work.hpp"

namespace shakedown::storage {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

enum class Phase { create, stat, rename, remove };
constexpr auto words(Phase) { return names("create", "stat", "rename", "remove"); }
constexpr std::array phases{Phase::create, Phase::stat, Phase::rename, Phase::remove};

class Metadata final : public StorageWork {
 public:
  using StorageWork::StorageWork;
  ~Metadata() override { remove_files(); }

  Metrics metrics() override {
    Metrics found;
    for (const auto phase : phases) {
      const double seconds = seconds_[static_cast<std::size_t>(phase)];
      if (seconds <= 0) continue;
      found.emplace_back(fmt::format("{}_files_per_s", name(phase)), samples_ * spec().files / seconds);
    }
    return found;
  }

 protected:
  void prepare_files() override {
    if (group().rank() == 0) require(::mkdir(shared().c_str(), 0700) == 0, shared(), "cannot be made");
  }

  void run() override {
    for (const auto phase : phases) {
      const auto begin = Clock::now();
      attempt([&] { do_all(phase); });
      group().barrier();  // the next phase needs the files of other ranks
      seconds_[static_cast<std::size_t>(phase)] += std::chrono::duration<double>(Clock::now() - begin).count();
    }
    ++samples_;
  }

  void clear() override {
    seconds_ = {};
    samples_ = 0;
  }

  /// Creates all files again. The first rank of each host must find each of them in the list of the folder.
  Check check() override {
    auto why = input_error_of([&] { do_all(Phase::create); });
    group().barrier();
    Check found{1, 0, ""};
    if (group().on_host().rank() == 0 && why.empty()) {
      const auto seen = listed();
      found.compared = static_cast<std::size_t>(spec().files);
      found.mismatched = seen > found.compared ? seen - found.compared : found.compared - seen;
      if (found.mismatched > 0)
        found.first = fmt::format("{} lists {} of {} files", shared().string(), seen, spec().files);
    }
    group().barrier();
    for (const auto phase : {Phase::rename, Phase::remove}) {
      if (why.empty()) why = input_error_of([&] { do_all(phase); });
    }
    if (!why.empty()) throw InputError(why);
    return found;
  }

  void remove_files() noexcept override {
    if (folder().empty()) return;
    std::error_code error;
    for (int i = 0; i < files_of(group().rank()) && is_visible(shared()); ++i) {
      for (const bool renamed : {false, true}) fs::remove(file(group().rank(), i, renamed), error);
    }
    fs::remove(shared(), error);  // the last rank succeeds
  }

 private:
  fs::path shared() const { return folder() / "files"; }
  fs::path file(int rank, int number, bool renamed) const {
    return shared() / fmt::format("{}{}_{}", renamed ? 'b' : 'a', rank, number);
  }
  int files_of(int rank) const {
    return spec().files / group().size() + (rank < spec().files % group().size() ? 1 : 0);
  }

  void do_all(Phase phase) const {
    const int own = group().rank(), rank = phase == Phase::stat ? source_of(group().hosts(), own) : own;
    for (int i = 0; i < files_of(rank); ++i) do_one(phase, file(rank, i, false), file(rank, i, true));
  }

  static void do_one(Phase phase, const fs::path& from, const fs::path& to) {
    const TimedCall call(name(phase).data(), from);
    struct stat status {};
    switch (phase) {
      case Phase::create: {
        const Descriptor made(::open(from.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        return require(made.is_open(), from, "cannot be created");
      }
      case Phase::stat: return require(::stat(from.c_str(), &status) == 0, from, "is not seen");
      case Phase::rename: return require(::rename(from.c_str(), to.c_str()) == 0, from, "cannot be renamed");
      case Phase::remove: return require(::unlink(to.c_str()) == 0, to, "cannot be removed");
    }
  }

  /// Returns how many files the list of the folder has after at most one second, in which all must be visible.
  std::size_t listed() const {
    const auto end = Clock::now() + std::chrono::seconds(1);
    while (true) {
      const TimedCall call("list", shared());
      const auto names = names_in(shared());
      const auto seen = names ? names->size() : 0;
      if (seen == static_cast<std::size_t>(spec().files) || Clock::now() > end) return seen;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  std::array<double, phases.size()> seconds_{};
  double samples_ = 0;
};

}  // namespace

std::unique_ptr<Work> make_metadata(const Spec& spec) { return std::make_unique<Metadata>(spec); }

}  // namespace shakedown::storage
