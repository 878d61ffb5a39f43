// What a rank may ask of the other ranks. The fixtures implement it over MPI; Alone is the group of one, for builds
// without MPI and for tests. A backend never sees MPI itself.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace shakedown {

/// Of a group with patience: a rank did not come in time. What was being sent or received may still be touched, so that
/// its memory must stay.
struct Absent : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A group of ranks. Every call but `rank`, `size`, `hosts`, `on_host` and `sendrecv` is collective: all ranks of the
/// group make it, in the same order. A communication error ends the job; it is never returned.
class Group {
 public:
  static constexpr int nobody = -1;

  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual void barrier() = 0;

  /// Copies `data` of `root` into `data` of all ranks; the same length everywhere.
  virtual void broadcast(std::span<std::byte> data, int root) = 0;

  /// out[i] = sum over ranks of in[i]. `in` and `out` are the same memory or do not overlap; one length on all ranks.
  virtual void sum(std::span<const float> in, std::span<float> out) = 0;
  virtual void sum(std::span<const double> in, std::span<double> out) = 0;

  /// The same sum at `root` only; what `out` holds elsewhere is left as it is.
  virtual void reduce(std::span<const float> in, std::span<float> out, int root) = 0;

  /// Cuts the sum into one part per rank: rank r gets out[i] = sum over ranks of in[r * out.size() + i].
  virtual void reduce_scatter(std::span<const float> in, std::span<float> out) = 0;

  /// `out` = `in` of rank 0, of rank 1, ...; `in` has the same length on all ranks.
  virtual void all_gather(std::span<const std::byte> in, std::span<std::byte> out) = 0;

  /// Cuts `in` into one part per rank and sends part r to rank r; `out` = the parts from rank 0, from rank 1, ...
  virtual void all_to_all(std::span<const std::byte> in, std::span<std::byte> out) = 0;

  /// Sends `out` to rank `to` and receives `in` from rank `from` at the same time; `nobody` leaves that half out.
  virtual void sendrecv(std::span<const std::byte> out, int to, std::span<std::byte> in, int from) = 0;

  /// The messages of all ranks in rank order, on all ranks; lengths may differ.
  virtual std::vector<std::string> gather(const std::string& message) = 0;

  /// The same on the first rank alone, for what only it writes; what others get does not count.
  virtual std::vector<std::string> gather_to_first(const std::string& message) { return gather(message); }

  /// The ranks that gave the same `color`, ordered by `key`.
  virtual std::unique_ptr<Group> split(int color, int key) = 0;

  /// The host of every rank of this group.
  virtual const std::vector<std::string>& hosts() const = 0;

  /// The ranks of this group on this rank's host, in rank order; what "src" and "dst" of a peer copy count in.
  virtual Group& on_host() = 0;

  /// Seconds that are left until calls give up and throw Absent; nothing: they wait for ever, and whoever watches ends
  /// the job.
  virtual std::optional<double> patience() const { return std::nullopt; }

  /// True on every rank if `mine` is true on every rank.
  bool all(bool mine) {
    bool every = true;
    for (const auto& answer : gather(mine ? "1" : "0")) every = every && answer == "1";
    return every;
  }
};

/// What one rank by itself has to do for each call. `Base` is Group or an interface on top of it.
template <class Base>
class GroupOfOne : public Base {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void barrier() override {}
  void broadcast(std::span<std::byte>, int) override {}
  void sum(std::span<const float> in, std::span<float> out) override { take_over(in, out); }
  void sum(std::span<const double> in, std::span<double> out) override { take_over(in, out); }
  void reduce(std::span<const float> in, std::span<float> out, int) override { sum(in, out); }
  void reduce_scatter(std::span<const float> in, std::span<float> out) override { sum(in, out); }
  void all_gather(std::span<const std::byte> in, std::span<std::byte> out) override { take_over(in, out); }
  void all_to_all(std::span<const std::byte> in, std::span<std::byte> out) override { take_over(in, out); }
  void sendrecv(std::span<const std::byte> out, int to, std::span<std::byte> in, int from) override {
    if (to == 0 && from == 0) take_over(out, in);
  }
  std::vector<std::string> gather(const std::string& message) override { return {message}; }
  std::unique_ptr<Group> split(int, int) override;
  const std::vector<std::string>& hosts() const override { return hosts_; }
  Group& on_host() override { return *this; }

 protected:
  explicit GroupOfOne(std::string host = "") : hosts_{std::move(host)} {}

 private:
  template <class T>
  static void take_over(std::span<const T> in, std::span<T> out) {
    if (in.data() != out.data()) std::copy(in.begin(), in.end(), out.begin());
  }

  std::vector<std::string> hosts_;
};

class Alone final : public GroupOfOne<Group> {
 public:
  explicit Alone(std::string host = "") : GroupOfOne(std::move(host)) {}
};

template <class Base>
std::unique_ptr<Group> GroupOfOne<Base>::split(int, int) {
  return std::make_unique<Alone>(hosts_.front());
}

}  // namespace shakedown
