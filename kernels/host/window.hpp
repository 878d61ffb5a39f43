// Memory that one rank shares with other ranks of its host: an anonymous file, which the other ranks open by its path
// under /proc.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/descriptor.hpp"
#include "base/group.hpp"
#include "kernels/host/buffer.hpp"

namespace shakedown::host {

/// The memory that this rank shares, and its mapping of another rank's memory.
class Window {
 public:
  /// Creates and maps the shared memory. Collective over the ranks of the host; called once. Errors: Unsupported, on
  /// all ranks.
  void exchange(Group& local, std::size_t bytes, bool shares, std::optional<int> owner) {
    bytes_ = bytes;
    Descriptor own;
    std::string path;
    if (shares) {
      own = Descriptor(memfd_create("shakedown-window", MFD_CLOEXEC));
      const bool ready = own.get() >= 0 && ftruncate(own.get(), static_cast<off_t>(bytes)) == 0;
      if (ready) path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(own.get());
    }
    const auto paths = local.gather(path);
    Descriptor other;
    if (owner) other = Descriptor(open(paths[static_cast<std::size_t>(*owner)].c_str(), O_RDWR | O_CLOEXEC));
    const bool ready = (!shares || !path.empty()) && (!owner || other.get() >= 0);
    if (!local.all(ready)) throw Unsupported("the ranks of this host cannot share memory (memfd through /proc)");
    if (shares) own_ = map_memory(bytes, own.get());
    if (owner) other_ = map_memory(bytes, other.get());
  }

  std::span<std::byte> own() const { return {own_.get(), own_ ? bytes_ : 0}; }
  std::span<std::byte> other() const { return {other_.get(), other_ ? bytes_ : 0}; }

 private:
  std::size_t bytes_ = 0;
  Mapping own_, other_;
};

}  // namespace shakedown::host
