// A connection that NCCL has made between two ranks. Read from its log, and kept in results.
#pragma once

#include <compare>
#include <string>

namespace shakedown {

struct NcclLink {
  int src = 0, dst = 0;
  std::string via;  // "P2P/CUMEM", "SHM/direct/direct", "NET/Socket/0"

  /// "P2P" of "P2P/CUMEM".
  std::string kind() const { return via.substr(0, via.find('/')); }

  auto operator<=>(const NcclLink&) const = default;
};

template <class Archive>
void members(Archive& archive, NcclLink& link) {
  archive("src", link.src)("dst", link.dst)("via", link.via);
}

}  // namespace shakedown
