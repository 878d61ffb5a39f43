// The communication interface of a rank. The fixtures implement it with MPI and with TCP. Alone is a group of one rank,
// for builds without MPI and for tests. Backends never call MPI directly.
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

/// Thrown by a group with a timeout if a rank did not arrive in time. The transfer may still access its buffers, so
/// their memory must not be freed.
struct Absent : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A group of ranks. All ranks of the group must make the same collective calls in the same order. All calls are
/// collective except `rank`, `size`, `hosts`, `on_host` and `sendrecv`. A communication error ends the job and is never
/// returned.
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

  /// Copies `data` of `root` into `data` of all ranks. All ranks pass the same length.
  virtual void broadcast(std::span<std::byte> data, int root) = 0;

  /// Sets out[i] to the sum of in[i] over all ranks. `in` and `out` are identical or do not overlap. All ranks pass the
  /// same length.
  virtual void sum(std::span<const float> in, std::span<float> out) = 0;
  virtual void sum(std::span<const double> in, std::span<double> out) = 0;

  /// Like sum, but only `root` gets the result; `out` is not changed on the other ranks.
  virtual void reduce(std::span<const float> in, std::span<float> out, int root) = 0;

  /// Sums and scatters: on rank r, sets out[i] to the sum over all ranks of in[r * out.size() + i].
  virtual void reduce_scatter(std::span<const float> in, std::span<float> out) = 0;

  /// Concatenates `in` of rank 0, 1, ... into `out`. All ranks pass the same length.
  virtual void all_gather(std::span<const std::byte> in, std::span<std::byte> out) = 0;

  /// Splits `in` into one part per rank and sends part r to rank r. `out` receives the parts of rank 0, 1, ...
  virtual void all_to_all(std::span<const std::byte> in, std::span<std::byte> out) = 0;

  /// Sends `out` to rank `to` and receives `in` from rank `from` at the same time; `nobody` skips that half.
  virtual void sendrecv(std::span<const std::byte> out, int to, std::span<std::byte> in, int from) = 0;

  /// Returns the messages of all ranks in rank order. All ranks get the result. Messages may have different lengths.
  virtual std::vector<std::string> gather(const std::string& message) = 0;

  /// Returns the messages on the first rank only. The result on other ranks is unspecified.
  virtual std::vector<std::string> gather_to_first(const std::string& message) { return gather(message); }

  /// Returns the subgroup of the ranks that pass the same `color`. The ranks of the subgroup are ordered by `key`.
  virtual std::unique_ptr<Group> split(int color, int key) = 0;

  /// Returns the host of each rank in this group.
  virtual const std::vector<std::string>& hosts() const = 0;

  /// Returns the group of the ranks on this host, in rank order. "src" and "dst" of a peer copy are ranks of this
  /// subgroup.
  virtual Group& on_host() = 0;

  /// Returns the seconds until calls time out and throw Absent. nullopt: calls wait without a limit, and a supervisor
  /// ends the job.
  virtual std::optional<double> patience() const { return std::nullopt; }

  /// True on every rank if `mine` is true on every rank.
  bool all(bool mine) {
    bool every = true;
    for (const auto& answer : gather(mine ? "1" : "0")) every = every && answer == "1";
    return every;
  }

  /// True on every rank if all ranks pass the same text.
  bool all_same(const std::string& mine) {
    bool same = true;
    for (const auto& theirs : gather(mine)) same = same && theirs == mine;
    return same;
  }
};

/// Implements all calls for a group of one rank. `Base` is Group or an interface derived from it.
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
