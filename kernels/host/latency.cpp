// Latency of a load from this host's memory or caches. One thread, on the core to which the rank is bound, walks along
// a chain in which each word holds the position of the next word. No load can start before the previous load has
// finished.
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "kernels/chase.hpp"
#include "kernels/host/buffer.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/ops/latency.hpp"
#include "kernels/trail.hpp"

namespace shakedown::host {

namespace {

class MemoryLatency final : public Work {
 public:
  explicit MemoryLatency(const MemoryLatencySpec& spec)
      : spec_(spec), chain_(chase::chain(chase::nodes(spec.bytes))), memory_(map_memory(spec.bytes)) {
    // Huge pages of 2 MiB would avoid a page walk for most loads, but their use depends on a setting and on the
    // fragmentation of memory. The result is reproducible without them. The call fails on kernels without huge pages,
    // which is harmless.
    static_cast<void>(madvise(memory_.get(), spec.bytes, MADV_NOHUGEPAGE));
  }

  void enqueue() override {
    const auto* const memory = memory_.get();
    // The mask keeps a corrupted word inside the buffer. The mask costs each load one cycle.
    const std::uint64_t inside = (nodes() - 1) * chase::node_bytes;
    const auto loads = accesses(spec_);
    auto last = last_;
    for (std::size_t i = 0; i < loads; ++i) last = at(memory, last & inside);
    trail_.next();
    result() = (position(last) - position(last_)) % nodes();
    last_ = last;
    ++walks_;
  }

  void stage(int repeats) override { stage_trail(results(), trail_, repeats, poison_byte); }

  /// Writes the chain. The calling thread, which also walks, touches the pages first, so they are on its NUMA node. The
  /// thread writes in the order of the walk: if the chain does not fit into the caches, they then hold its last part.
  void reset() override {
    trail_.restart();
    std::memset(results().data(), poison_byte, results().size());
    each_node([this](std::size_t node, std::uint64_t want) {
      std::memcpy(memory_.get() + node * chase::node_bytes, &want, sizeof want);
    });
    last_ = chase::word(nodes() - 1, 0);
    walks_ = 0;
  }

  /// Checks that all walks together end at the expected node, and that the last walk has made its number of steps.
  Check verify() override {
    Checker checker;
    const auto end = (walks_ * accesses(spec_) + nodes() - 1) % nodes();
    each_node([&](std::size_t node, std::uint64_t want) {
      checker.expect_equal(node, at(memory_.get(), node * chase::node_bytes), want);
      if (position(want) == end) checker.expect_equal(node, last_, want);
    });
    checker.expect_equal<std::uint64_t>(nodes(), result(), accesses(spec_) % nodes());
    auto check = checker.result();
    check_trail(results(), trail_, check);
    return check;
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return spec_.bytes; }
  bool collective() const override { return false; }
  void corrupt() override { result() ^= 1; }

 private:
  /// The distance that a walk covered. The results are one step of the trail apart.
  struct alignas(64) Result {
    std::uint64_t advanced;
  };
  std::uint64_t& result() { return results_[trail_.last() / sizeof(Result)].advanced; }
  std::span<std::byte> results() { return std::as_writable_bytes(std::span(results_)); }

  std::size_t nodes() const { return chain_.size(); }

  /// Calls visit(node, word) along the chain. The upper half of a word is the index of the node along the walk. The
  /// lower half is the byte offset of the next node, so that a load needs no arithmetic except the mask.
  template <class Visit>
  void each_node(const Visit& visit) const {
    std::size_t node = 0;
    for (std::size_t i = 0; i < nodes(); ++i) {
      const std::size_t next = chain_[node] & 0xffffffffU;
      visit(node, chase::word(i, next * chase::node_bytes));
      node = next;
    }
  }
  static std::uint64_t position(std::uint64_t word) { return word >> 32; }

  static std::uint64_t at(const std::byte* memory, std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, memory + offset, sizeof value);
    return value;
  }

  MemoryLatencySpec spec_;
  std::vector<std::uint64_t> chain_;
  Mapping memory_;
  std::uint64_t last_ = 0, walks_ = 0;  // the last word loaded, and the number of walks so far
  Trail trail_{sizeof(std::uint64_t)};
  std::vector<Result> results_{Trail::max_places};
};

}  // namespace

std::unique_ptr<Work> make(const MemoryLatencySpec& spec, HostDevice&) {
  if (spec.engine != Engine::cpu) throw Unsupported("without a GPU, only rows with engine:cpu can be measured");
  constexpr std::size_t max_bytes = std::size_t{1} << 32;  // limit of an offset in the lower half of a word
  if (spec.bytes < chase::node_bytes || spec.bytes > max_bytes) {
    throw std::invalid_argument("latency needs 128 bytes to 4 GiB");
  }
  return std::make_unique<MemoryLatency>(spec);
}

}  // namespace shakedown::host
