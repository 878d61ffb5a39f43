// A ring of TCP connections between the ranks of a group, for sums whose data crosses the network stack also between
// ranks of one host.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/group.hpp"
#include "base/socket.hpp"

namespace shakedown::host {

class TcpRing {
 public:
  /// Connects each rank to the next and the previous one, by the addresses of their network interfaces; by loopback
  /// only if a host has no other address. Collective. Errors: Unsupported, after all collective calls, if a rank cannot
  /// be reached within 20 s or if there is only one rank.
  explicit TcpRing(Group&);

  /// Sets out[i] to the sum of in[i] over all ranks, as a ring AllReduce: each rank sends and receives 2 (n - 1) / n of
  /// the bytes. `in` and `out` are identical or do not overlap. Errors: std::runtime_error if a neighbour has closed
  /// its connection. A neighbour that hangs is left to the watchdog.
  template <class T>
  void sum(std::span<const T> in, std::span<T> out);

  /// Returns the interface of the connection to the next rank, such as "eth0".
  const std::string& interface() const { return interface_; }

 private:
  void exchange(std::span<const std::byte> out, std::span<std::byte> in);

  std::size_t rank_, size_;
  Socket next_, previous_;
  std::string interface_;
  std::vector<std::byte> received_;
};

}  // namespace shakedown::host
