// Defines the content of a checkpoint and when it is valid.
#include "kernels/transformer/checkpoint.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <system_error>

#include "base/archive.hpp"
#include "base/descriptor.hpp"
#include "base/sha256.hpp"
#include "base/together.hpp"
#include "kernels/check.hpp"

namespace shakedown::training {

namespace {

namespace fs = std::filesystem;

constexpr int format = 1;
constexpr const char* manifest_name = "checkpoint.json";

/// A range of values of all arrays, as stored in a file.
struct FileRun {
  std::size_t first = 0, count = 0;
  std::vector<std::uint64_t> digests;  // one digest for each array
  std::size_t end() const { return first + count; }
};
template <class Archive>
void members(Archive& archive, FileRun& run) {
  archive("first", run.first)("count", run.count)("digests", run.digests);
}

struct Manifest {
  int format = 0;
  std::string id;
  std::uint64_t steps = 0;
  std::map<std::string, std::string> of;  // model and type
  // The runs of each file; a file holds the runs of the first array, then those of the next.
  std::vector<std::vector<FileRun>> by_rank;
  std::string seal;  // SHA-256 of all other members
};
template <class Archive>
void members(Archive& archive, Manifest& manifest) {
  archive("format", manifest.format)("id", manifest.id)("steps", manifest.steps)("of", manifest.of);
  archive("by_rank", manifest.by_rank)("seal", manifest.seal);
}

[[noreturn]] void refuse(const fs::path& file, const std::string& why) { throw InputError(file.string() + ": " + why); }
[[noreturn]] void refuse(const fs::path& file, const std::string& what, int error) {
  refuse(file, what + ": " + std::generic_category().message(error));
}

std::size_t sum(const auto& runs) {
  return std::accumulate(runs.begin(), runs.end(), std::size_t{0},
                         [](std::size_t values, const auto& run) { return values + run.count; });
}

std::string file_name(const std::string& id, int rank) { return "checkpoint." + id + ".rank" + std::to_string(rank); }

class DataFile {
 public:
  DataFile(fs::path path, int flags) : path_(std::move(path)), fd_(::open(path_.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) refuse(path_, "cannot be opened", errno);
  }
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;
  ~DataFile() { ::close(fd_); }

  void write(std::span<const std::byte> bytes) {
    if (!write_all(fd_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()})) refuse_to_write(errno);
  }
  void sync() {
    if (::fsync(fd_) != 0) refuse_to_write(errno);
    forget();
  }
  void read(std::span<std::byte> bytes, std::size_t from) const {
    const auto read = read_at(fd_, bytes, from);
    if (!read) refuse(path_, "cannot be read", errno);
    if (*read < bytes.size())
      refuse(path_, "is truncated at byte " + std::to_string(from + *read) + ": take another checkpoint");
  }
  std::size_t size() const { return static_cast<std::size_t>(::lseek(fd_, 0, SEEK_END)); }
  /// Drops the file from the page cache, so that the next reader reads from disk.
  void forget() const { static_cast<void>(::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED)); }

 private:
  [[noreturn]] void refuse_to_write(int error) const {
    refuse(path_, "cannot be written", error == ENOSPC || error == EDQUOT || error == EFBIG ? ENOSPC : error);
  }

  fs::path path_;
  int fd_;
};

/// Flushes the folder's entries to disk, if the file system supports that.
void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  static_cast<void>(::fsync(fd));
  ::close(fd);
}

/// A file that is removed on destruction unless it is kept.
struct Unfinished {
  explicit Unfinished(fs::path file) : path(std::move(file)) {}
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished() {
    std::error_code error;
    if (!kept) fs::remove(path, error);
  }
  fs::path path;
  bool kept = false;
};

std::map<std::string, std::string> description(const Saved& of) {
  const auto& m = of.shape.model;
  const auto& lora = of.shape.lora;
  const auto type = [](std::size_t bytes) { return bytes == 2 ? "bf16" : bytes == 4 ? "f32" : "f64"; };
  const auto text = [](auto value) { return fmt::format("{}", value); };
  std::map<std::string, std::string> all{{"layers", text(m.layers)},
                                         {"hidden", text(m.hidden)},
                                         {"heads", text(m.heads)},
                                         {"kv_heads", text(m.kv_heads)},
                                         {"head_dim", text(m.head_dim)},
                                         {"intermediate", text(m.intermediate)},
                                         {"vocab", text(m.vocab)},
                                         {"norm_eps", text(m.norm_eps)},
                                         {"rope_theta", text(m.rope_theta)},
                                         {"norm", m.norm == Norm::rms ? "rms" : "layer"},
                                         {"norm_place", m.norms_before() ? "before" : "behind"},
                                         {"mlp", m.mlp == Mlp::swiglu ? "swiglu" : "gelu"},
                                         {"positions", m.positions == Positions::rope ? "rope" : "learned"},
                                         {"context", text(m.context)},
                                         {"causal", text(m.causal)},
                                         {"qkv_bias", text(m.qkv_bias)},
                                         {"all_biases", text(m.all_biases)},
                                         {"tied", text(m.tied)},
                                         {"head_bias", text(m.head_bias)},
                                         {"trains", of.shape.trains == Trains::all ? "all" : "adapters"},
                                         {"dtype", type(of.element)},
                                         {"masters", of.shape.in_bf16() ? "bf16" : type(of.master)}};
  if (of.shape.trains == Trains::all) return all;
  all["lora_rank"] = text(lora.rank);
  all["lora_alpha"] = text(lora.alpha);
  for (std::size_t i = 0; i < modules; ++i) {
    all["lora_" + std::string(name(static_cast<Module>(i)))] = text(lora.adapted[i]);
  }
  return all;
}

std::string seal_of(Manifest manifest) {
  manifest.seal.clear();
  return sha256(json_text(manifest, -1));
}

/// Returns a new id, the same on all ranks.
std::string new_id(Group& group) {
  std::random_device random;
  return broadcast(group, fmt::format("{:08x}{:08x}", random(), random()));
}

// Checks the free space. Errors: InputError if the folder does not exist or has less space than `bytes`.
void require_room(const fs::path& folder, std::size_t bytes) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0)
    refuse(folder, "no checkpoint can be written there; choose a folder that all ranks see", errno);
  const double room = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  if (static_cast<double>(bytes) <= room) return;
  refuse(folder, fmt::format("has room for {:.3g} GB, but a checkpoint that is written before the last one is deleted "
                             "needs {:.3g} GB more: choose "
                             "another folder",
                             room / 1e9, static_cast<double>(bytes) / 1e9));
}

/// Writes this rank's runs to a file of its own.
std::vector<FileRun> store(const std::vector<Run>& runs, std::size_t master, StateCopies& copies,
                           const fs::path& path) {
  struct Chunk {
    std::size_t array, run, begin, bytes;
  };
  std::vector<Chunk> chunks;
  std::vector<FileRun> stored;
  for (const auto& run : runs) stored.push_back({run.first, run.count, std::vector<std::uint64_t>(state_arrays, 0)});
  for (std::size_t array = 0; array < state_arrays; ++array) {
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const auto bytes = runs[r].count * master;
      for (std::size_t at = 0; at < bytes; at += StateCopies::chunk_bytes) {
        chunks.push_back({array, r, at, std::min(StateCopies::chunk_bytes, bytes - at)});
      }
    }
  }
  DataFile file(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
  const auto fetch = [&](std::size_t i) {
    if (i >= chunks.size()) return;
    const auto& chunk = chunks[i];
    copies.fetch(i % 2, static_cast<StateArray>(chunk.array), runs[chunk.run].own * master + chunk.begin, chunk.bytes);
  };
  fetch(0);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    fetch(i + 1);
    copies.finish(i % 2);
    const std::span<const std::byte> bytes(copies.chunk(i % 2), chunks[i].bytes);
    stored[chunks[i].run].digests[chunks[i].array] += digest_of(bytes, chunks[i].begin / 16);
    file.write(bytes);
  }
  file.sync();
  return stored;
}

/// Returns the manifest after checking that its content is consistent; throws on the first error.
Manifest read_manifest(const Saved& of) {
  const auto file = of.folder / manifest_name;
  const auto text = read_file(file);
  const auto document = document_of_text(text);
  if (document.is_discarded()) refuse(file, "is truncated, or not a checkpoint: take another one");
  auto manifest = read_as<Manifest>(Field(file, "", document));
  if (manifest.format != format) {
    refuse(file, fmt::format("is of format {}, and this release reads {}", manifest.format, format));
  }
  if (seal_of(manifest) != manifest.seal) refuse(file, "is not what was written: take another checkpoint");
  for (const auto& [what, ours] : description(of)) {
    const auto theirs = manifest.of.find(what);
    const auto value = theirs == manifest.of.end() ? "unknown" : theirs->second;
    if (value == ours) continue;
    refuse(file, "is of another model: " + what + " is " + value + " there, but here " + ours);
  }
  return manifest;
}

/// Loads the values that this rank keeps, and verifies all data that it reads.
void load(const Saved& of, const Manifest& manifest, StateCopies& copies) {
  const auto kept = kept_runs(of.shape);
  const auto chunk_values = StateCopies::chunk_bytes / of.master;
  std::size_t turn = 0, brought = 0;
  for (std::size_t rank = 0; rank < manifest.by_rank.size(); ++rank) {
    const auto& runs = manifest.by_rank[rank];
    const auto wanted = [&](const FileRun& run) {
      return std::any_of(kept.begin(), kept.end(),
                         [&](const Run& own) { return own.first < run.end() && run.first < own.end(); });
    };
    if (std::none_of(runs.begin(), runs.end(), wanted)) continue;
    const auto path = of.folder / file_name(manifest.id, static_cast<int>(rank));
    const DataFile file(path, O_RDONLY);
    const auto values = sum(runs), bytes = state_arrays * values * of.master;
    if (file.size() != bytes) {
      refuse(path, fmt::format("has {} of {} bytes: it is truncated, or another file; take another checkpoint",
                               file.size(), bytes));
    }
    std::size_t at = 0;  // current position in the file
    for (std::size_t array = 0; array < state_arrays; ++array) {
      for (const auto& run : runs) {
        const auto begin = std::exchange(at, at + run.count * of.master);
        if (!wanted(run)) continue;
        std::uint64_t digest = 0;
        for (std::size_t first = 0; first < run.count; first += chunk_values, turn = 1 - turn) {
          const auto count = std::min(chunk_values, run.count - first);
          copies.finish(turn);
          const std::span chunk(copies.chunk(turn), count * of.master);
          file.read(chunk, begin + first * of.master);
          digest += digest_of(chunk, first * of.master / 16);
          const auto of_model = run.first + first;
          for (const auto& own : kept) {
            const auto low = std::max(own.first, of_model), high = std::min(own.end(), of_model + count);
            if (low >= high) continue;
            copies.bring(turn, (low - of_model) * of.master, static_cast<StateArray>(array),
                         (own.own + low - own.first) * of.master, (high - low) * of.master);
            brought += high - low;
          }
        }
        if (digest == run.digests.at(array)) continue;
        refuse(path,
               fmt::format("{} are not what was written (digest {:016x}, expected {:016x}): take another checkpoint",
                           name(static_cast<StateArray>(array)), digest, run.digests.at(array)));
      }
    }
  }
  for (const std::size_t each : {0U, 1U}) copies.finish(each);
  if (brought != state_arrays * sum(kept)) refuse(of.folder / manifest_name, "does not make up the whole model");
}

/// Removes the files of all checkpoints in the folder except one id; the ranks divide the files among them.
void remove_files(const fs::path& folder, Group& group, const std::string& but = "") {
  for (const auto& file : names_in(folder).value_or(std::vector<std::string>())) {
    const auto digits = file.rfind(".rank");
    if (!file.starts_with("checkpoint.") || digits == std::string::npos || digits < 11) continue;
    if (file.substr(11, digits - 11) == but) continue;
    if (std::atoi(file.c_str() + digits + 5) % group.size() != group.rank()) continue;
    std::error_code error;
    fs::remove(folder / file, error);
  }
}

}  // namespace

std::vector<Run> kept_runs(const StepShape& shape) {
  const auto layout = shape.layout();
  const auto shares = static_cast<std::size_t>(shape.shares());
  const auto of_model = offsets_in_model(layout.tensors);
  std::vector<std::size_t> own;  // offsets of units in the arrays
  std::size_t next = 0;
  for (const auto& unit : layout.units) own.push_back(std::exchange(next, next + unit.size / shares));
  const auto rank = shares == 1 ? 0 : static_cast<std::size_t>(shape.rank);
  std::vector<Run> runs;
  for (const auto& piece : shape.pieces()) {
    const auto& t = layout.tensors[piece.tensor];
    const auto& unit = layout.units[t.unit];
    const Run run{of_model[piece.tensor] + (piece.first - t.offset),
                  own[t.unit] + (piece.first - unit.offset - rank * (unit.size / shares)), piece.count};
    const bool follows =
        !runs.empty() && runs.back().end() == run.first && runs.back().own + runs.back().count == run.own;
    follows ? void(runs.back().count += run.count) : runs.push_back(run);
  }
  return runs;
}

std::vector<Run> written_runs(const StepShape& shape, int rank, int ranks) {
  auto runs = kept_runs(shape);
  if (shape.shares() > 1 || runs.empty()) return runs;
  const auto all = runs.front().count, r = static_cast<std::size_t>(rank), n = static_cast<std::size_t>(ranks);
  const auto begin = all * r / n, end = all * (r + 1) / n;
  return {{begin, begin, end - begin}};
}

std::size_t checkpoint_bytes(const StepShape& shape, std::size_t value) {
  const auto layout = shape.layout();
  return state_arrays * value *
         std::accumulate(layout.units.begin(), layout.units.end(), std::size_t{0},
                         [](std::size_t values, const Unit& unit) { return values + unit.used; });
}

void write_checkpoint(const Saved& of, Group& group, StateCopies& copies, std::uint64_t steps) {
  Manifest manifest{format, new_id(group), steps, description(of), {}, ""};
  const auto runs = written_runs(of.shape, group.rank(), group.size());
  const auto own = static_cast<double>(state_arrays * sum(runs) * of.master);
  double all = 0;  // true if all ranks see the same folder
  group.sum(std::span(&own, 1), std::span(&all, 1));
  together(group, [&] { require_room(of.folder, static_cast<std::size_t>(all)); });
  Unfinished mine(of.folder / file_name(manifest.id, group.rank()));
  std::vector<FileRun> stored;
  together(group, [&] {
    stored = store(runs, of.master, copies, mine.path);
    sync_folder(of.folder);
  });
  manifest.by_rank = gather_to_first(group, stored);
  mine.kept = true;  // from here on the manifest may name the file, even if ranks fail
  try {
    together(group, [&] {
      if (group.rank() != 0) return;
      manifest.seal = seal_of(manifest);
      replace_file(of.folder / manifest_name, json_text(manifest, -1));
      sync_folder(of.folder);
    });
  } catch (const InputError&) {
    mine.kept = false;
    throw;
  }
  remove_files(of.folder, group, manifest.id);
}

std::uint64_t read_checkpoint(const Saved& of, Group& group, StateCopies& copies) {
  Manifest manifest;
  together(group, [&] { manifest = read_manifest(of); });
  const auto first = broadcast(group, manifest.id);
  together(group, [&] {
    if (manifest.id == first) return;
    refuse(of.folder / manifest_name, "is another checkpoint than rank 0 has: choose a folder that all ranks share");
  });
  together(group, [&] { load(of, manifest, copies); });
  const auto own = static_cast<std::size_t>(group.rank());
  if (own < manifest.by_rank.size()) DataFile(of.folder / file_name(manifest.id, group.rank()), O_RDONLY).forget();
  return manifest.steps;
}

void remove_checkpoint(const fs::path& folder, Group& group) {
  std::error_code error;
  if (group.rank() == 0) fs::remove(folder / manifest_name, error);
  remove_files(folder, group);
}

}  // namespace shakedown::training
