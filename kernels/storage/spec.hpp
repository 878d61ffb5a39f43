// Operations on a folder that all hosts share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/ops/operation.hpp"

namespace shakedown::storage {

/// write, read: each rank has one file of `bytes` bytes, and all ranks work at once.
/// metadata: all ranks together create `files` empty files in one folder, and look at, rename and remove them.
/// visible: one rank renames a file into place, and all other ranks wait until they read it.
/// lock: all ranks take the same lock in turns.
enum class Op { write, read, metadata, visible, lock };
constexpr auto words(Op) { return names("write", "read", "metadata", "visible", "lock"); }

struct Spec {
  Op op;
  std::string folder;     // parent of a temporary folder that is removed at the end; rank 0's value is used
  std::size_t bytes = 0;  // write, read
  int files = 0;          // metadata: number of files, summed over all ranks
};

/// The number of times that each rank takes the lock in one operation.
inline constexpr int locks_of_rank = 10;

/// Returns the key, such as storage/op:read/bytes:1073741824, storage/op:metadata/files:100000 or storage/op:lock.
inline std::string key(const Spec& s) {
  Key key("storage");
  key.set("op", s.op);
  if (s.bytes > 0) key.set("bytes", s.bytes);
  if (s.files > 0) key.set("files", s.files);
  return key.text();
}

/// Returns the work of a host with this number of ranks. Files and locks count as operations.
inline Cost cost(const Spec& s, int ranks_of_host) {
  switch (s.op) {
    case Op::write:
    case Op::read: return {0, static_cast<double>(s.bytes) * ranks_of_host};
    case Op::metadata: return {static_cast<double>(s.files), 0};
    case Op::visible: return {1, 0};
    case Op::lock: return {static_cast<double>(locks_of_rank), 0};
  }
  return {};
}

/// Returns the rank whose file a rank reads: that with the same index on the next host, so that the page cache of the
/// reader cannot have the data. If there is one host, it is the next rank.
int source_of(const std::vector<std::string>& hosts, int rank);

/// Returns the Work, which is the same on all backends. It fails if the folder cannot be used.
std::unique_ptr<Work> prepare(const Spec&);

}  // namespace shakedown::storage
