// What a backend may ask of the other ranks. The fixtures implement it over MPI, or for one process; a backend
// never sees MPI itself.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace shakedown {

/// A group of ranks. Every call but `rank`, `size` and `sendrecv` is collective: all ranks of the group make it, in
/// the same order. A communication error ends the job; it is never returned.
class Peers {
 public:
  static constexpr int nobody = -1;

  Peers() = default;
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;
  virtual ~Peers() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual void barrier() = 0;

  /// Copies `data` of `root` into `data` of all ranks; the same length everywhere.
  virtual void broadcast(std::span<std::byte> data, int root) = 0;

  /// out[i] = sum over ranks of in[i]. `in` and `out` do not overlap and have the same length on all ranks.
  virtual void sum(std::span<const float> in, std::span<float> out) = 0;
  virtual void sum(std::span<const double> in, std::span<double> out) = 0;

  /// Sends `out` to rank `to` and receives `in` from rank `from` at the same time; `nobody` leaves that half out.
  virtual void sendrecv(std::span<const std::byte> out, int to, std::span<std::byte> in, int from) = 0;

  /// The messages of all ranks in rank order, on all ranks; lengths may differ.
  virtual std::vector<std::string> gather(const std::string& message) = 0;

  /// The ranks that gave the same `color`, ordered by `key`.
  virtual std::unique_ptr<Peers> split(int color, int key) = 0;

  /// The ranks on this rank's host, in rank order; what "src" and "dst" of a peer copy count in. Not collective.
  virtual Peers& local() = 0;

  /// True on every rank if `mine` is true on every rank.
  bool all(bool mine) {
    bool every = true;
    for (const auto& answer : gather(mine ? "1" : "0")) every = every && answer == "1";
    return every;
  }
};

}  // namespace shakedown
