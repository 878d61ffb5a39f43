// A connection that NCCL made between two ranks, parsed from the NCCL log and stored in results.
#pragma once

#include <compare>
#include <string>

namespace shakedown {

struct NcclLink {
  int src = 0, dst = 0;
  std::string via;  // transport in NCCL's words: "P2P/CUMEM", "SHM/direct/direct", "NET/Socket/0"

  /// Returns "P2P" for "P2P/CUMEM".
  std::string kind() const { return via.substr(0, via.find('/')); }

  auto operator<=>(const NcclLink&) const = default;
};

template <class Archive>
void members(Archive& archive, NcclLink& link) {
  archive("src", link.src)("dst", link.dst)("via", link.via);
}

}  // namespace shakedown
