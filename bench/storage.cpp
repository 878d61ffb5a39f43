// The storage that all hosts share: all ranks write and read files at once, and a rank of another host reads each file
// back. Also files per second in one folder, the time until other hosts see a file, and locks. The folder is the one of
// --storage-dir, and all files in it are removed at the end.
//
//   mpirun -np 4 build/bench/bench_storage --tier=full --storage-dir=/mnt/shared
#include "kernels/storage/spec.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/files.hpp"
#include "base/timed_call.hpp"
#include "fixtures/plan/session.hpp"
#include "kernels/own_folder.hpp"

namespace shakedown {

namespace {

using storage::Op;

/// The rate of a disk varies, so operations are timed one by one.
constexpr OneByOne samples{5};
/// Seconds in addition to --timeout: a slow server needs minutes for the full tier.
constexpr double patience = 600;

/// Checks that the folder has enough space, so that a full disk is reported before the measurement. Errors: InputError.
void require_space(const Session& session, std::size_t bytes) {
  const auto& folder = session.options().storage_dir;
  if (session.rank() != 0) return;
  const TimedCall call("look at", folder);
  remove_left_behind(folder, "storage");
  std::error_code error;
  const auto space = static_cast<double>(std::filesystem::space(folder, error).available);
  const double needed = static_cast<double>(bytes) * session.ranks();
  if (error || space >= needed) return;
  throw InputError(
      fmt::format("{}: has {:.3g} GB free, but the files of {} ranks need {:.3g} GB (--storage-dir); "
                  "choose another folder",
                  folder, space / 1e9, session.ranks(), needed / 1e9));
}

void waive(Session& session, const storage::Spec& spec, const std::string& why) {
  session.add({key(spec), {}, 0, [why](Device&) -> std::unique_ptr<Work> { throw Unsupported(why); }, nullptr});
}

void add(Session& session, const storage::Spec& spec, Figures figures) {
  session.add(Measurement{key(spec), cost(spec, session.ranks_per_host()), 0,
                          [spec](Device&) { return storage::prepare(spec); }, std::move(figures), 0, samples, nullptr,
                          nullptr, patience});
}

}  // namespace

/// Without a folder, the family is one waived row.
void register_storage(Session& session) {
  const bool host = !session.has_gpus(), full = session.full();
  const auto mib = std::size_t{1} << 20;
  const std::size_t bytes = host ? (full ? 1024 : 16) * mib : (full ? 4096 : 512) * mib;
  const int files = full ? 100000 : host ? 200 : 2000;
  const auto& folder = session.options().storage_dir;
  if (folder.empty()) return waive(session, {Op::write, ""}, "no folder was named (--storage-dir=DIR)");
  if (session.backend() == Backend::virtual_gpu) return waive(session, {Op::write, ""}, "a virtual GPU has no storage");
  require_space(session, bytes);
  add(session, {Op::write, folder, bytes}, [](const Cost& cost, double seconds, int) -> Metrics {
    return {{"write_gb_per_s", cost.bytes / seconds / 1e9}};
  });
  add(session, {Op::read, folder, bytes}, [](const Cost& cost, double seconds, int) -> Metrics {
    return {{"read_gb_per_s", cost.bytes / seconds / 1e9}};
  });
  add(session, {Op::metadata, folder, 0, files}, [](const Cost& cost, double seconds, int) -> Metrics {
    return {{"files_per_s", cost.flops / seconds}};
  });
  for (const auto op : {Op::visible, Op::lock}) {
    if (session.ranks() == 1) {
      waive(session, {op, folder}, "it needs two ranks");
    } else if (op == Op::visible) {
      add(session, {op, folder}, [](const Cost&, double seconds, int) -> Metrics { return {{"visible_s", seconds}}; });
    } else {
      add(session, {op, folder}, [](const Cost& cost, double seconds, int) -> Metrics {
        return {{"lock_ms", seconds / cost.flops * 1e3}};
      });
    }
  }
}

}  // namespace shakedown
