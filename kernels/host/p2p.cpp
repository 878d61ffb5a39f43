// Copies from the memory of one rank to that of another on the same host, through windows of shared memory. "write"
// pushes into a window of the destination; "read" pulls from a window of the source. Either one pair runs alone, in one
// or both directions, or all ranks run at once. This file also measures the latency of a load from such a window.
#include <algorithm>
#include <vector>

#include "base/archive.hpp"
#include "kernels/chase.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/host/window.hpp"
#include "kernels/ops/copy.hpp"
#include "kernels/trail.hpp"

namespace shakedown::host {

namespace {

constexpr std::size_t guard_bytes = 4096;  // memory that an idle rank holds, so that it has data to check

/// Returns the route of this rank. On a host with too few ranks all ranks are idle; hosts may differ in their number of
/// ranks.
template <class Spec>
Route route_of(const Spec& spec, const Group& local) {
  if constexpr (requires { spec.shift; }) {
    return spec.shift < local.size() ? route(spec, local.rank(), local.size()) : Route{};
  } else {
    return std::max(spec.src, spec.dst) < local.size() ? route(spec, local.rank()) : Route{};
  }
}

template <class Spec>
class PeerCopy final : public Work {
 public:
  PeerCopy(const Spec& spec, Team& team) : spec_(spec), team_(team), trail_(spec.bytes) {}

  void connect(Group& world) override {
    Group& local = world.on_host();
    route_ = route_of(spec_, local);
    id_ = static_cast<std::uint64_t>(local.rank()) + 1;
    const auto world_ranks = gather(local, world.rank());
    window_.exchange(local, writes() ? trail_.room() : spec_.bytes, route_.shares(spec_.op), route_.driven(spec_.op));
    if (drives()) {
      const int target = writes() ? *route_.to : local.rank();
      credited_ = world_ranks[static_cast<std::size_t>(target)];
    }
    if (drives()) own_ = map_memory(own_bytes());
    if (!route_.takes_part()) own_ = map_memory(guard_bytes);
  }

  void enqueue() override {
    if (!drives()) return;
    trail_.next();
    if (writes()) {
      team_.copy(own(), window_.other().subspan(trail_.last(), spec_.bytes));
    } else {
      team_.copy(window_.other(), last_output());
    }
  }

  /// If another rank drives the copy to this rank, this rank counts the operations that the driver will queue.
  void stage(int repeats) override {
    if (!target().empty()) {
      stage_trail(target(), trail_, repeats, poison_byte);
    } else {
      trail_.stage(static_cast<std::size_t>(repeats));
    }
    if (!drives()) trail_.pass(static_cast<std::size_t>(repeats));
  }

  void reset() override {
    trail_.restart();
    if (!target().empty()) poison(target(), team_);
    if (!source().empty()) fill_words(source(), id_, team_);
  }

  /// The destination checks the data that arrived; the source checks that its data is unchanged. An idle rank checks
  /// that its memory is unchanged.
  Check verify() override {
    Check total;
    const auto add = [&](std::span<const std::byte> buffer, std::uint64_t writer) {
      const auto check = check_words(buffer, writer);
      total.compared += check.compared;
      total.mismatched += check.mismatched;
      if (total.first.empty()) total.first = check.first;
    };
    if (!target().empty()) {
      add(last_output(), static_cast<std::uint64_t>(*route_.from) + 1);
      check_trail(target(), trail_, total);
    }
    if (!source().empty()) add(source(), id_);
    return total;
  }

  std::optional<std::uint64_t> digest() const override {
    return target().empty() || trail_.bytes() > max_digested_bytes ? std::nullopt
                                                                   : std::optional(digest_of(last_output()));
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return own().size() + window_.own().size(); }
  bool collective() const override { return false; }
  std::optional<int> credited_rank(int) const override { return credited_; }
  void corrupt() override { flip_one_bit(target().empty() ? source() : last_output()); }

 private:
  bool writes() const { return spec_.op == CopyOp::write; }
  bool drives() const { return route_.driven(spec_.op).has_value(); }

  std::span<std::byte> own() const {
    if (!own_) return {};
    return {own_.get(), route_.takes_part() ? own_bytes() : guard_bytes};
  }
  std::size_t own_bytes() const { return writes() ? spec_.bytes : trail_.room(); }
  /// Return this rank's own buffers. An idle rank has a source that is never copied.
  std::span<std::byte> source() const {
    if (route_.to) return writes() ? own() : window_.own();
    return route_.takes_part() ? std::span<std::byte>() : own();
  }
  std::span<std::byte> target() const {
    if (!route_.from) return {};
    return writes() ? window_.own() : own();
  }
  /// Returns the output of the last copy to this rank.
  std::span<std::byte> last_output() const { return target().subspan(trail_.last(), spec_.bytes); }

  Spec spec_;
  Team& team_;
  Trail trail_;
  Route route_;
  std::uint64_t id_ = 0;
  std::optional<int> credited_;
  Window window_;
  Mapping own_;
};

template <class Spec>
class PeerLatency final : public Work {
 public:
  explicit PeerLatency(const Spec& spec) : spec_(spec), chain_(chase::chain(accesses(spec))) {}

  void connect(Group& world) override {
    Group& local = world.on_host();
    const auto route = route_of(spec_, local);
    drives_ = route.from.has_value();
    window_.exchange(local, spec_.bytes, route.to.has_value(), route.from);
    if (drives_) credited_ = world.rank();
  }

  void enqueue() override {
    if (!drives_) return;
    const auto* const memory = window_.other().data();
    std::uint64_t last = 0, sum = 0;
    for (std::size_t i = 0; i < chain_.size(); ++i) {
      last = at(memory, last & (chain_.size() - 1));
      sum += last;
    }
    trail_.next();
    result() = {last, sum};
  }

  void stage(int repeats) override { stage_trail(std::as_writable_bytes(std::span(results_)), trail_, repeats, 0xa5); }

  void reset() override {
    trail_.restart();
    std::fill(results_.begin(), results_.end(), Result{});
    for (std::size_t node = 0; node < chain_.size() && !window_.own().empty(); ++node) {
      std::memcpy(window_.own().data() + node * chase::node_bytes, &chain_[node], 8);
    }
  }

  /// The source checks that its chain is unchanged; the destination checks the end and the sum of its walk. An idle
  /// rank checks that its result is still poisoned.
  Check verify() override {
    Checker checker;
    for (std::size_t node = 0; node < chain_.size() && !window_.own().empty(); ++node) {
      checker.expect_equal(node, at(window_.own().data(), node), chain_[node]);
    }
    const auto last = std::find_if(chain_.begin(), chain_.end(), [](auto word) { return (word & 0xffffffffU) == 0; });
    checker.expect_equal(chain_.size(), result().last, drives_ ? *last : poison_word);
    checker.expect_equal(chain_.size(), result().sum, drives_ ? chase::sum(chain_) : poison_word);
    auto check = checker.result();
    check_trail(std::as_bytes(std::span(results_)), trail_, check);
    return check;
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return window_.own().size(); }
  bool collective() const override { return false; }
  std::optional<int> credited_rank(int) const override { return credited_; }
  void corrupt() override { result().sum ^= 1; }

 private:
  static constexpr std::uint64_t poison_word = 0xa5a5a5a5a5a5a5a5ULL;

  /// The end of a walk and the sum of its words; the results are one step of the trail apart.
  struct alignas(64) Result {
    std::uint64_t last = poison_word, sum = poison_word;
  };
  Result& result() { return results_[trail_.last() / sizeof(Result)]; }

  static std::uint64_t at(const std::byte* memory, std::size_t node) {
    std::uint64_t word = 0;
    std::memcpy(&word, memory + node * chase::node_bytes, 8);
    return word;
  }

  Spec spec_;
  std::vector<std::uint64_t> chain_;
  bool drives_ = false;
  std::optional<int> credited_;
  Window window_;
  Trail trail_{2 * sizeof(std::uint64_t)};
  std::vector<Result> results_{Trail::max_places};
};

void require(Engine engine, std::size_t bytes) {
  if (engine != Engine::cpu) throw Unsupported("the host backend has no GPU engine: engine:cpu only");
  if (bytes == 0 || bytes % 8 != 0) throw std::invalid_argument("a copy needs a positive multiple of 8 bytes");
}

template <class Spec>
std::unique_ptr<Work> make_latency(const Spec& spec) {
  require(spec.engine, spec.bytes);
  if (spec.bytes < chase::node_bytes) throw std::invalid_argument("latency needs 128 bytes or more");
  return std::make_unique<PeerLatency<Spec>>(spec);
}

}  // namespace

std::unique_ptr<Work> make(const PeerCopySpec& spec, HostDevice& device) {
  require(spec.engine, spec.bytes);
  return std::make_unique<PeerCopy<PeerCopySpec>>(spec, device.team());
}

std::unique_ptr<Work> make(const PeerShiftSpec& spec, HostDevice& device) {
  require(spec.engine, spec.bytes);
  if (spec.shift < 1) throw std::invalid_argument("a shift is at least 1");
  return std::make_unique<PeerCopy<PeerShiftSpec>>(spec, device.team());
}

std::unique_ptr<Work> make(const PeerLatencySpec& spec, HostDevice&) { return make_latency(spec); }

std::unique_ptr<Work> make(const PeerLatencyShiftSpec& spec, HostDevice&) {
  if (spec.shift < 1) throw std::invalid_argument("a shift is at least 1");
  return make_latency(spec);
}

}  // namespace shakedown::host
