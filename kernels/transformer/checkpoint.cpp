// Defines the content of a checkpoint and when it is valid.
#include "kernels/transformer/checkpoint.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "base/archive.hpp"
#include "base/descriptor.hpp"
#include "base/sha256.hpp"
#include "base/together.hpp"
#include "kernels/block_io/block_file.hpp"
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

using block_io::BlockFile;
using block_io::BlockIo;

BlockFile opened(const fs::path& path, int flags) {
  auto file = BlockFile::open(path, flags, 0644);
  if (!file) refuse(path, "cannot be opened", errno);
  return std::move(*file);
}

[[noreturn]] void refuse_transfer(const fs::path& path, block_io::Direction direction, int error) {
  if (direction == block_io::Direction::read) refuse(path, "cannot be read", error);
  refuse(path, "cannot be written", error == ENOSPC || error == EDQUOT || error == EFBIG ? ENOSPC : error);
}

std::unique_ptr<BlockIo> new_io(const fs::path& folder) {
  try {
    return block_io::fastest_io();
  } catch (const std::system_error& error) {
    refuse(folder, "no thread can be started to write or read its files; raise ulimit -u", error.code().value());
  }
}

/// Transfers blocks of a file. Returns how the file was accessed.
std::string transfer(BlockIo& io, BlockFile& file, block_io::Direction direction,
                     std::span<const block_io::Block> blocks, std::byte* staging, const block_io::BlockStep& step) {
  try {
    return block_io::access_text(io, block_io::stream(io, file, direction, blocks, staging, step));
  } catch (const block_io::TransferError& error) {
    refuse_transfer(file.path(), direction, error.code().value());
  }
}

/// The values of a run in one array, as a range of bytes of a file.
struct Section {
  std::uint64_t at;
  std::size_t bytes, array, run;
  std::uint64_t end() const { return at + bytes; }
};

std::vector<Section> sections_of(const auto& runs, std::size_t value) {
  std::vector<Section> sections;
  std::uint64_t at = 0;
  for (std::size_t array = 0; array < state_arrays; ++array) {
    for (std::size_t run = 0; run < runs.size(); ++run) {
      const auto bytes = runs[run].count * value;
      sections.push_back({std::exchange(at, at + bytes), bytes, array, run});
    }
  }
  return sections;
}

/// The part of a section that a block contains.
struct Part {
  const Section& of;
  std::size_t begin;  // in the section
  std::size_t at;     // in the block
  std::size_t bytes;
};

/// Calls `action` with each part of a section that a block contains.
void for_each_part(std::span<const Section> sections, const block_io::Block& block, const auto& action) {
  const auto end = block.offset + block.bytes;
  auto section = std::partition_point(sections.begin(), sections.end(),
                                      [&](const Section& each) { return each.end() <= block.offset; });
  for (; section != sections.end() && section->at < end; ++section) {
    const auto low = std::max(section->at, block.offset), high = std::min(section->end(), end);
    if (low < high) action(Part{*section, low - section->at, low - block.offset, high - low});
  }
}

/// Computes the digest_of a section from its parts, in any order. A block may end inside a vector of 16 bytes.
class SectionDigest {
 public:
  void add(std::size_t begin, std::span<const std::byte> part) {
    if (begin % vector_bytes != 0) {
      const auto head = part.first(std::min(vector_bytes - begin % vector_bytes, part.size()));
      add_to_vector(begin, head);
      begin += head.size();
      part = part.subspan(head.size());
    }
    const auto whole = part.size() / vector_bytes * vector_bytes;
    sum_ += digest_of(part.first(whole), begin / vector_bytes);
    if (whole < part.size()) add_to_vector(begin + whole, part.subspan(whole));
  }
  std::uint64_t value() const {
    auto sum = sum_;
    for (const auto& [index, bytes] : cut_) sum += digest_of(bytes, index);
    return sum;
  }

 private:
  static constexpr std::size_t vector_bytes = 16;

  void add_to_vector(std::size_t begin, std::span<const std::byte> bytes) {
    std::memcpy(cut_[begin / vector_bytes].data() + begin % vector_bytes, bytes.data(), bytes.size());
  }

  std::uint64_t sum_ = 0;
  std::map<std::size_t, std::array<std::byte, vector_bytes>> cut_;
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

/// The runs of a file that was written, and how it was accessed.
struct Stored {
  std::vector<FileRun> runs;
  std::string access;
};

/// Writes this rank's runs to a file of its own.
Stored store(const std::vector<Run>& runs, std::size_t master, StateCopies& copies, const fs::path& path) {
  const auto sections = sections_of(runs, master);
  std::vector<SectionDigest> digests(sections.size());
  const auto io = new_io(path);
  auto file = opened(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
  const auto bytes = state_arrays * sum(runs) * master;
  if (!file.reserve(bytes)) refuse_transfer(path, block_io::Direction::write, errno);
  const auto fill = [&](std::span<std::byte> memory, const block_io::Block& block) {
    for_each_part(sections, block, [&](const Part& part) {
      copies.fetch(memory.subspan(part.at, part.bytes), static_cast<StateArray>(part.of.array),
                   runs[part.of.run].own * master + part.begin);
    });
    copies.finish();
    for_each_part(sections, block, [&](const Part& part) {
      digests[part.of.array * runs.size() + part.of.run].add(part.begin, memory.subspan(part.at, part.bytes));
    });
  };
  Stored stored;
  stored.access = transfer(*io, file, block_io::Direction::write, block_io::blocks_of(bytes), copies.staging(), fill);
  if (::fsync(file.descriptor()) != 0) refuse_transfer(path, block_io::Direction::write, errno);
  file.forget();
  for (std::size_t r = 0; r < runs.size(); ++r) {
    stored.runs.push_back({runs[r].first, runs[r].count, {}});
    for (std::size_t array = 0; array < state_arrays; ++array) {
      stored.runs.back().digests.push_back(digests[array * runs.size() + r].value());
    }
  }
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

/// Reads the values that this rank keeps from files, and verifies all data that it reads.
class Loader {
 public:
  Loader(const Saved& of, StateCopies& copies)
      : of_(of), kept_(kept_runs(of.shape)), copies_(copies), io_(new_io(of.folder)) {}

  /// Reads those runs of a file of which this rank keeps a part.
  void load(const fs::path& path, const std::vector<FileRun>& runs) {
    std::vector<bool> is_wanted;
    for (const auto& run : runs) is_wanted.push_back(keeps_part_of(run));
    if (std::none_of(is_wanted.begin(), is_wanted.end(), [](bool wanted) { return wanted; })) return;
    auto file = opened(path, O_RDONLY);
    const auto bytes = state_arrays * sum(runs) * of_.master;
    if (const auto size = file.size(); size != bytes) {
      refuse(path,
             fmt::format("has {} of {} bytes: it is truncated, or another file; take another checkpoint", size, bytes));
    }
    const auto sections = sections_of(runs, of_.master);
    std::vector<SectionDigest> digests(sections.size());
    const auto use = [&](std::span<std::byte> memory, const block_io::Block& block) {
      for_each_part(sections, block, [&](const Part& part) {
        if (!is_wanted[part.of.run]) return;
        const auto bytes_of_part = memory.subspan(part.at, part.bytes);
        digests[part.of.array * runs.size() + part.of.run].add(part.begin, bytes_of_part);
        bring(runs[part.of.run], static_cast<StateArray>(part.of.array), part.begin, bytes_of_part);
      });
      copies_.finish();
    };
    access_ = transfer(*io_, file, block_io::Direction::read, wanted_blocks(sections, is_wanted, bytes),
                       copies_.staging(), use);
    for (const auto& section : sections) {
      const auto digest = digests[section.array * runs.size() + section.run].value();
      const auto expected = runs[section.run].digests.at(section.array);
      if (!is_wanted[section.run] || digest == expected) continue;
      refuse(path,
             fmt::format("{} are not what was written (digest {:016x}, expected {:016x}): take another checkpoint",
                         name(static_cast<StateArray>(section.array)), digest, expected));
    }
  }

  bool has_all() const { return brought_ == state_arrays * sum(kept_); }
  /// Returns how the last file was accessed.
  const std::string& access() const { return access_; }

 private:
  bool keeps_part_of(const FileRun& run) const {
    return std::any_of(kept_.begin(), kept_.end(),
                       [&](const Run& own) { return own.first < run.end() && run.first < own.end(); });
  }

  static std::vector<block_io::Block> wanted_blocks(std::span<const Section> sections,
                                                    const std::vector<bool>& is_wanted, std::uint64_t bytes) {
    auto blocks = block_io::blocks_of(bytes);
    std::erase_if(blocks, [&](const block_io::Block& block) {
      bool found = false;
      for_each_part(sections, block, [&](const Part& part) { found = found || is_wanted[part.of.run]; });
      return !found;
    });
    return blocks;
  }

  /// Copies those values of a part of a run that this rank keeps. The part begins at byte `begin` of the run.
  void bring(const FileRun& run, StateArray array, std::size_t begin, std::span<const std::byte> part) {
    const auto first = run.first + begin / of_.master, end = first + part.size() / of_.master;
    for (const auto& own : kept_) {
      const auto low = std::max(own.first, first), high = std::min(own.end(), end);
      if (low >= high) continue;
      copies_.bring(part.subspan((low - first) * of_.master, (high - low) * of_.master), array,
                    (own.own + low - own.first) * of_.master);
      brought_ += high - low;
    }
  }

  const Saved& of_;
  const std::vector<Run> kept_;
  StateCopies& copies_;
  const std::unique_ptr<BlockIo> io_;  // destroyed before the memory of the copies
  std::size_t brought_ = 0;            // values
  std::string access_;
};

/// Loads the values that this rank keeps. Returns how the files were accessed.
std::string load(const Saved& of, const Manifest& manifest, StateCopies& copies) {
  Loader loader(of, copies);
  for (std::size_t rank = 0; rank < manifest.by_rank.size(); ++rank) {
    loader.load(of.folder / file_name(manifest.id, static_cast<int>(rank)), manifest.by_rank[rank]);
  }
  if (!loader.has_all()) refuse(of.folder / manifest_name, "does not make up the whole model");
  return loader.access();
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

std::string write_checkpoint(const Saved& of, Group& group, StateCopies& copies, std::uint64_t steps) {
  Manifest manifest{format, new_id(group), steps, description(of), {}, ""};
  const auto runs = written_runs(of.shape, group.rank(), group.size());
  const auto own = static_cast<double>(state_arrays * sum(runs) * of.master);
  double all = 0;  // true if all ranks see the same folder
  group.sum(std::span(&own, 1), std::span(&all, 1));
  together(group, [&] { require_room(of.folder, static_cast<std::size_t>(all)); });
  Unfinished mine(of.folder / file_name(manifest.id, group.rank()));
  Stored stored;
  together(group, [&] {
    stored = store(runs, of.master, copies, mine.path);
    sync_folder(of.folder);
  });
  manifest.by_rank = gather_to_first(group, stored.runs);
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
  return stored.access;
}

Loaded read_checkpoint(const Saved& of, Group& group, StateCopies& copies) {
  Manifest manifest;
  together(group, [&] { manifest = read_manifest(of); });
  const auto first = broadcast(group, manifest.id);
  together(group, [&] {
    if (manifest.id == first) return;
    refuse(of.folder / manifest_name, "is another checkpoint than rank 0 has: choose a folder that all ranks share");
  });
  std::string access;
  together(group, [&] { access = load(of, manifest, copies); });
  const auto own = static_cast<std::size_t>(group.rank());
  if (own < manifest.by_rank.size()) {
    if (const auto file = BlockFile::open(of.folder / file_name(manifest.id, group.rank()), O_RDONLY)) file->forget();
  }
  return {manifest.steps, access};
}

void remove_checkpoint(const fs::path& folder, Group& group) {
  std::error_code error;
  if (group.rank() == 0) fs::remove(folder / manifest_name, error);
  remove_files(folder, group);
}

}  // namespace shakedown::training
