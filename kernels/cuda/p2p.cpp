// Copies between the GPUs of ranks of one host, by copy engine or by our kernel: the destination pulls (read) or the
// source pushes (write). The rank that drives a copy maps the memory of its peer and measures; the value is credited to
// the destination. Either one pair runs alone, in one or both directions, or all ranks run at once.
#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "base/archive.hpp"
#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/known_data.hpp"
#include "kernels/cuda/peer_memory.hpp"
#include "kernels/cuda/stream.hpp"
#include "kernels/cuda/tuner.hpp"
#include "kernels/ops/copy.hpp"

namespace shakedown::cuda {

namespace {

/// NVLink needs about a megabyte in flight; each of these shapes has several.
constexpr std::array shapes{
    StreamShape{256, 1, 0, Hint::none},      StreamShape{512, 4, 4, Hint::streaming},
    StreamShape{512, 4, 0, Hint::streaming}, StreamShape{32, 4, 0, Hint::streaming, 8192},
    StreamShape{512, 2, 0, Hint::none},      StreamShape{32, 2, 0, Hint::streaming, 16384},
};
constexpr double copy_tuning_seconds = 0.05;

/// Bytes held by an idle rank, so that it has data to check.
constexpr std::size_t guard_bytes = 4096;

class PeerCopy final : public Work {
 public:
  PeerCopy(CopyOp op, Engine engine, std::size_t bytes, const Cost& cost, const Route& route, Gpu& gpu)
      : op_(op),
        engine_(engine),
        bytes_(bytes),
        cost_(cost),
        route_(route),
        gpu_(gpu),
        trail_(bytes),
        memory_(gpu, !route.shares(op)     ? 0
                     : op == CopyOp::write ? trail_.room()
                                           : bytes) {
    const bool source_is_own = route.to && op == CopyOp::write, target_is_own = route.from && op == CopyOp::read;
    if (source_is_own || target_is_own) own_ = Buffer(target_is_own ? trail_.room() : bytes);
    if (!route.takes_part()) own_ = Buffer(guard_bytes);
  }

  void connect(Group& world) override {
    Group& local = world.on_host();
    id_ = static_cast<std::uint64_t>(local.rank());
    const auto world_ranks = gather(local, world.rank());
    if (drives()) {
      const int target = op_ == CopyOp::write ? *route_.to : local.rank();
      credited_ = world_ranks[static_cast<std::size_t>(target)];
    }
    memory_.exchange(local, route_.driven(op_));
    reset();
    local.barrier();  // no rank may copy while another still fills its buffers
    if (drives() && engine_ == Engine::sm) shape_ = shapes[fastest_shape()];
  }

  void enqueue() override {
    if (!drives()) return;
    trail_.next();
    run(shape_);
  }

  /// If another rank drives the copy to this rank, this rank counts the operations that the driver will queue.
  void stage(int repeats) override {
    if (const auto* buffer = target()) {
      stage_trail(gpu_, *buffer, trail_, repeats, poison_byte);
    } else {
      trail_.stage(static_cast<std::size_t>(repeats));
    }
    if (!drives()) trail_.pass(static_cast<std::size_t>(repeats + operations_in_front(repeats)));
  }

  void reset() override {
    if (const auto* buffer = target()) poison(gpu_, *buffer);
    if (const auto* buffer = source()) fill_words(gpu_, *buffer, id_);
    trail_.restart();
    gpu_.synchronize();  // no rank may copy before this point
  }

  /// The destination checks the data that arrived; the source checks that its data is unchanged. An idle rank checks
  /// that its memory is unchanged.
  Check verify() override {
    Check total;
    const auto add = [&](const View& buffer, std::uint64_t writer) {
      const auto check = check_words(gpu_, buffer, writer);
      total.compared += check.compared;
      total.mismatched += check.mismatched;
      if (total.first.empty()) total.first = check.first;
    };
    if (const auto* buffer = target()) {
      add(last_output(*buffer, trail_), static_cast<std::uint64_t>(*route_.from));
      check_trail(gpu_, *buffer, trail_, total);
    }
    if (const auto* buffer = source()) add(*buffer, id_);
    return total;
  }

  std::optional<std::uint64_t> digest() const override {
    return target() == nullptr ? std::nullopt : digest_of(gpu_, last_output(*target(), trail_));
  }

  Cost cost() const override { return cost_; }
  std::size_t bytes() const override { return own_.bytes() + memory_.shared().bytes(); }
  bool collective() const override { return false; }
  std::optional<int> credited_rank(int) const override { return credited_; }
  void corrupt() override {
    flip_one_bit(gpu_, target() != nullptr ? last_output(*target(), trail_) : View(*source()));
  }

 private:
  bool drives() const { return route_.driven(op_).has_value(); }

  /// Return this rank's own buffers. An idle rank has a source that is never copied.
  const Buffer* source() const {
    if (route_.to) return op_ == CopyOp::write ? &own_ : &memory_.shared();
    return route_.takes_part() ? nullptr : &own_;
  }
  const Buffer* target() const {
    if (!route_.from) return nullptr;
    return op_ == CopyOp::write ? &memory_.shared() : &own_;
  }

  void run(const StreamShape& shape) const {
    const void* const from = op_ == CopyOp::write ? own_.data() : memory_.mapped();
    void* const outputs = op_ == CopyOp::write ? memory_.mapped() : own_.data();
    void* const to = static_cast<std::byte*>(outputs) + trail_.last();
    if (engine_ == Engine::sm) {
      copy(gpu_.stream(), from, to, bytes_, shape, gpu_.multiprocessors());
    } else {
      check(cudaMemcpyAsync(to, from, bytes_, cudaMemcpyDefault, gpu_.stream()));
    }
  }

  std::size_t fastest_shape() const {
    const auto try_shape = [this](std::size_t i) {
      if (!runs_on(shapes[i], gpu_.major())) return false;
      run(shapes[i]);
      return true;
    };
    return pick_fastest(gpu_, shapes.size(), try_shape, {copy_tuning_seconds}).value_or(0);
  }

  CopyOp op_;
  Engine engine_;
  std::size_t bytes_;
  Cost cost_;
  Route route_;
  Gpu& gpu_;
  Trail trail_;
  PeerMemory memory_;  // the side that the peer accesses
  Buffer own_;         // the side that only this rank accesses, or the guard buffer of an idle rank
  StreamShape shape_ = shapes.front();
  std::uint64_t id_ = 0;
  std::optional<int> credited_;
};

void require_engine_and_bytes(Engine engine, std::size_t bytes) {
  if (engine == Engine::cpu) throw Unsupported("the cuda backend copies by engine:sm or engine:ce, not by the CPU");
  if (bytes == 0) throw std::invalid_argument("a copy needs at least one byte");
}

void require_ranks(int needed, const Gpu& gpu) {
  if (needed > gpu.local_size()) throw Unsupported("this host has only " + std::to_string(gpu.local_size()) + " ranks");
}

}  // namespace

std::unique_ptr<Work> make(const PeerCopySpec& spec, CudaDevice& device) {
  Gpu& gpu = device.gpu();
  require_engine_and_bytes(spec.engine, spec.bytes);
  if (spec.src < 0 || spec.dst < 0 || spec.src == spec.dst) {
    throw std::invalid_argument("a peer copy needs two different local ranks");
  }
  require_ranks(std::max(spec.src, spec.dst) + 1, gpu);
  require_memory(footprint(spec));
  return std::make_unique<PeerCopy>(spec.op, spec.engine, spec.bytes, cost(spec), route(spec, gpu.local_rank()), gpu);
}

std::unique_ptr<Work> make(const PeerShiftSpec& spec, CudaDevice& device) {
  Gpu& gpu = device.gpu();
  require_engine_and_bytes(spec.engine, spec.bytes);
  if (spec.shift < 1) throw std::invalid_argument("a shift is at least 1");
  require_ranks(spec.shift + 1, gpu);
  require_memory(footprint(spec));
  return std::make_unique<PeerCopy>(spec.op, spec.engine, spec.bytes, cost(spec),
                                    route(spec, gpu.local_rank(), gpu.local_size()), gpu);
}

}  // namespace shakedown::cuda
