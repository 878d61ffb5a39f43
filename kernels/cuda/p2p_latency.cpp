// Latency of a load from a peer's memory. The destination walks over a chain in the source's memory, which is never
// cached on the destination. Either one pair runs alone, or all ranks run at once.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/chase.hpp"
#include "kernels/cuda/chase.hpp"
#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/known_data.hpp"
#include "kernels/cuda/peer_memory.hpp"
#include "kernels/ops/copy.hpp"

namespace shakedown::cuda {

namespace {

class PeerLatency final : public Work {
 public:
  template <class Spec>
  PeerLatency(const Spec& spec, const Route& route, Gpu& gpu)
      : cost_(shakedown::cost(spec)),
        route_(route),
        gpu_(gpu),
        chain_(chase::chain(accesses(spec))),
        memory_(gpu, route.to ? spec.bytes : 0),
        results_(trail_.room()) {}

  void connect(Group& world) override {
    Group& local = world.on_host();
    if (drives()) credited_ = world.rank();
    memory_.exchange(local, route_.from);
    reset();
  }

  void enqueue() override {
    if (!drives()) return;
    trail_.next();
    chase_pointers(gpu_.stream(), memory_.mapped(), chain_.size(), last_result(), gpu_.multiprocessors());
  }

  void stage(int repeats) override { stage_trail(gpu_, results_, trail_, repeats, poison_byte); }

  void reset() override {
    gpu_.fill(results_, poison_byte);
    trail_.restart();
    if (memory_.shared()) write_chain();
    gpu_.synchronize();
  }

  /// The source checks that its chain is unchanged; the destination checks the end and the sum of its walk. An idle
  /// rank checks that its memory is unchanged.
  Check verify() override {
    Check check;
    if (memory_.shared()) check_chain(check);
    if (memory_.shared() && !drives()) return check;
    const auto got = gpu_.read<ChaseResult>(last_result());
    if (!drives()) {
      compare(check, got, {poison_word, poison_word, 0});
      return check;
    }
    const auto last = std::find_if(chain_.begin(), chain_.end(), [](auto word) { return (word & 0xffffffffU) == 0; });
    compare(check, got, {*last, chase::sum(chain_), 0});
    check_trail(gpu_, results_, trail_, check);
    return check;
  }

  Cost cost() const override { return cost_; }
  std::size_t bytes() const override { return memory_.shared().bytes() + results_.bytes(); }
  bool collective() const override { return false; }
  std::optional<int> credited_rank(int) const override { return credited_; }

  void corrupt() override {
    auto* const place = memory_.shared() && !drives() ? memory_.shared().at(chain_.size() / 2 * chase::node_bytes)
                                                      : results_.at(trail_.last());
    const auto flipped = gpu_.read(place) ^ std::byte{1};
    gpu_.write(place, &flipped, 1);
  }

 private:
  static constexpr std::uint64_t poison_word = 0xa5a5a5a5a5a5a5a5ULL;

  bool drives() const { return route_.from.has_value(); }
  ChaseResult* last_result() const { return last_output(results_, trail_).data<ChaseResult>(); }

  void write_chain() const {
    std::vector<std::uint64_t> words(chain_.size() * chase::node_bytes / 8);
    for (std::size_t node = 0; node < chain_.size(); ++node) words[node * chase::node_bytes / 8] = chain_[node];
    gpu_.write(memory_.shared().data(), words.data(), words.size() * 8);
  }

  void check_chain(Check& check) const {
    std::vector<std::uint64_t> words(chain_.size() * chase::node_bytes / 8);
    gpu_.read(words.data(), memory_.shared().data(), words.size() * 8);
    for (std::size_t node = 0; node < chain_.size(); ++node) {
      count(check, "node " + std::to_string(node), words[node * chase::node_bytes / 8], chain_[node]);
    }
  }

  static void compare(Check& check, const ChaseResult& got, const ChaseResult& want) {
    count(check, "last word of the walk", got.last, want.last);
    count(check, "sum of the walk", got.sum, want.sum);
  }

  static void count(Check& check, const std::string& what, std::uint64_t got, std::uint64_t want) {
    ++check.compared;
    if (got == want || check.mismatched++ > 0) return;
    check.first = what + fmt::format(" is 0x{:016x}, expected 0x{:016x}", got, want);
  }

  Cost cost_;
  Route route_;
  Gpu& gpu_;
  std::vector<std::uint64_t> chain_;
  PeerMemory memory_;
  Trail trail_{sizeof(ChaseResult)};
  Buffer results_;
  std::optional<int> credited_;
};

void require(Engine engine, std::size_t bytes, int ranks, const Gpu& gpu) {
  if (engine != Engine::sm) throw Unsupported("the cuda backend chases pointers by engine:sm");
  if (bytes < chase::node_bytes || bytes > std::size_t{1} << 30) {
    throw std::invalid_argument("latency needs 128 bytes to 1 GiB");
  }
  if (ranks > gpu.local_size()) throw Unsupported("this host has only " + std::to_string(gpu.local_size()) + " ranks");
  require_memory(bytes);
}

}  // namespace

std::unique_ptr<Work> make(const PeerLatencySpec& spec, CudaDevice& device) {
  if (spec.src < 0 || spec.dst < 0 || spec.src == spec.dst) {
    throw std::invalid_argument("latency needs two different local ranks");
  }
  Gpu& gpu = device.gpu();
  require(spec.engine, spec.bytes, std::max(spec.src, spec.dst) + 1, gpu);
  return std::make_unique<PeerLatency>(spec, route(spec, gpu.local_rank()), gpu);
}

std::unique_ptr<Work> make(const PeerLatencyShiftSpec& spec, CudaDevice& device) {
  if (spec.shift < 1) throw std::invalid_argument("a shift is at least 1");
  Gpu& gpu = device.gpu();
  require(spec.engine, spec.bytes, spec.shift + 1, gpu);
  return std::make_unique<PeerLatency>(spec, route(spec, gpu.local_rank(), gpu.local_size()), gpu);
}

}  // namespace shakedown::cuda
