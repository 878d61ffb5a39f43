// Streams over the GPU's own memory, by kernels of this file (engine sm) or, for copies only, by the driver (engine ce:
// cudaMemcpyAsync). Traffic is the bytes read plus the bytes written. Every word is checked.
#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/known_data.hpp"
#include "kernels/cuda/stream.hpp"
#include "kernels/cuda/tuner.hpp"

namespace shakedown::cuda {

namespace {

constexpr double stream_tuning_seconds = 0.2;

class MemoryStream : public Work {
 public:
  /// Selects the fastest kernel shape on this rank's own GPU. The shape does not affect the result bits. A shape tuned
  /// on another GPU could make a healthy GPU appear slow.
  void connect(Group& group) override {
    rank_ = static_cast<std::uint64_t>(group.rank());
    reset();
    if (spec_.engine != Engine::sm) return;
    shape_ = stream_shapes(spec_.op)[fastest_shape()];
    reset();
  }

  void enqueue() override {
    trail_.next();
    run(shape_);
  }
  void stage(int repeats) override { stage_trail(gpu_, outputs(), trail_, repeats, poison_byte); }
  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return footprint(spec_); }
  bool collective() const override { return false; }

 protected:
  MemoryStream(const HbmSpec& spec, const Gpu& gpu) : spec_(spec), gpu_(gpu) {}

  virtual Operands operands() const = 0;
  /// Returns the buffer of all outputs.
  virtual View outputs() const = 0;

  virtual void run(const StreamShape& shape) {
    stream_over(gpu_.stream(), spec_.op, operands(), shape, gpu_.multiprocessors());
  }

  const HbmSpec spec_;
  const Gpu& gpu_;
  std::uint64_t rank_ = 0;
  Trail trail_;
  StreamShape shape_ = stream_shapes(HbmOp::scale).front();  // a placeholder until connect has chosen a shape

 private:
  std::size_t fastest_shape() {
    const auto shapes = stream_shapes(spec_.op);
    const auto try_shape = [&](std::size_t i) {
      if (!runs_on(shapes[i], gpu_.major())) return false;
      run(shapes[i]);
      return true;
    };
    return pick_fastest(gpu_, shapes.size(), try_shape, {stream_tuning_seconds}).value_or(0);
  }
};

/// All operations except read: each word of c must have its expected value.
class WritingStream final : public MemoryStream {
 public:
  /// Copies by the driver write along a trail of places. Our own kernels always write to one place, because their speed
  /// depends on the distance between the arrays (H200, copy of 4 GiB: 4258 GB/s, 4115 along a trail of 512 bytes a
  /// step, 3966 along one of 2 MiB). Instead, one block of each operation writes a mark (no change for a copy, 0.1 %
  /// less for write and triad).
  WritingStream(const HbmSpec& spec, const Gpu& gpu)
      : MemoryStream(spec, gpu),
        c_(by_driver() ? Trail(spec.bytes).room() : spec.bytes),
        marks_(by_driver() ? Buffer() : Buffer(Trail(sizeof(std::uint64_t)).room())) {
    trail_ = Trail(by_driver() ? spec.bytes : sizeof(std::uint64_t));
    if (spec.op != HbmOp::write) a_ = Buffer(spec.bytes);
    if (spec.op == HbmOp::add || spec.op == HbmOp::triad) b_ = Buffer(spec.bytes);
  }

  void reset() override {
    const bool copies = spec_.op == HbmOp::copy;
    if (a_) fill_words(gpu_, a_, source(), copies ? Content::copied : Content::number);
    if (b_) fill_words(gpu_, b_, source() + 1, Content::number);
    poison(gpu_, c_);
    if (marks_) poison(gpu_, marks_);
    trail_.restart();
    gpu_.synchronize();
  }

  Check verify() override {
    auto check = check_words(gpu_, written(), source(), content());
    if (marks_) check_last_mark(check);
    check_trail(gpu_, outputs(), trail_, check);
    return check;
  }
  std::optional<std::uint64_t> digest() const override { return digest_of(gpu_, written()); }
  void corrupt() override { flip_one_bit(gpu_, written()); }

 private:
  bool by_driver() const { return spec_.engine == Engine::ce; }

  void check_last_mark(Check& check) const {
    ++check.compared;
    if (gpu_.read(mark()) == spec_.bytes) return;
    if (check.mismatched++ == 0) check.first = "the last operation was skipped: its mark is missing";
  }

  /// Returns the source of the pattern. Copies and writes are identified by the rank, numbers by the array; each rank
  /// has two arrays.
  std::uint64_t source() const { return spec_.op == HbmOp::copy || spec_.op == HbmOp::write ? rank_ : 2 * rank_; }

  Content content() const {
    switch (spec_.op) {
      case HbmOp::write: return Content::written;
      case HbmOp::scale: return Content::scaled;
      case HbmOp::add: return Content::added;
      case HbmOp::triad: return Content::triad;
      case HbmOp::copy:
      case HbmOp::read: break;
    }
    return Content::copied;
  }

  View outputs() const override { return by_driver() ? c_ : marks_; }
  View written() const { return by_driver() ? last_output(c_, trail_) : View(c_); }
  std::uint64_t* mark() const { return last_output(marks_, trail_).data<std::uint64_t>(); }
  Operands operands() const override {
    return {a_.data(), b_.data(), written().data(), nullptr, spec_.bytes, rank_, marks_ ? mark() : nullptr};
  }

  void run(const StreamShape& shape) override {
    if (!by_driver()) return MemoryStream::run(shape);
    check(cudaMemcpyAsync(operands().c, a_.data(), spec_.bytes, cudaMemcpyDeviceToDevice, gpu_.stream()));
  }

  Buffer a_, b_, c_;
  Buffer marks_;  // one mark for each operation of our own kernels, along the trail
};

/// Adds all words modulo 2^64. The order does not matter, and the expected sum is known.
class ReadingStream final : public MemoryStream {
 public:
  ReadingStream(const HbmSpec& spec, const Gpu& gpu)
      : MemoryStream(spec, gpu),
        a_(spec.bytes),
        sums_(Trail(sizeof(std::uint64_t) * most_stream_blocks(spec.op, spec.bytes, gpu.multiprocessors())).room()) {}

  void reset() override {
    fill_words(gpu_, a_, rank_);
    poison(gpu_, sums_);
    // One sum per block of the chosen shape.
    if (trail_.bytes() != blocks() * sizeof(std::uint64_t)) trail_ = Trail(blocks() * sizeof(std::uint64_t));
    trail_.restart();
    gpu_.synchronize();
  }

  /// Checks the sum and the words themselves, so that the position of a wrong word is reported.
  Check verify() override {
    auto check = check_words(gpu_, a_, rank_);
    check_trail(gpu_, sums_, trail_, check);
    const auto got = total();
    const auto want = add([&](auto* sum) { add_expected_words(gpu_, {spec_.bytes, rank_}, sum); });
    ++check.compared;
    if (got == want) return check;
    if (check.mismatched++ > 0) return check;
    check.first = fmt::format("sum of {} words is 0x{:016x}, expected 0x{:016x}", spec_.bytes / 8, got, want);
    return check;
  }

  /// Returns the total over all blocks: the number of blocks depends on the shape, which each connect may change.
  std::optional<std::uint64_t> digest() const override { return total(); }

  void corrupt() override {
    auto* const place = last_output(sums_, trail_).data<std::byte>();
    const auto flipped = gpu_.read(place) ^ std::byte{1};
    gpu_.write(place, &flipped, 1);
  }

 private:
  View outputs() const override { return sums_; }
  Operands operands() const override {
    return {a_.data(), nullptr, nullptr, last_output(sums_, trail_).data<std::uint64_t>(), spec_.bytes, rank_};
  }
  unsigned blocks() const { return stream_blocks(shape_, spec_.bytes, gpu_.multiprocessors()); }

  /// Returns the sum computed by the last operation.
  std::uint64_t total() const {
    const auto* const sums = last_output(sums_, trail_).data<const std::uint64_t>();
    return add([&](auto* sum) { add_words(gpu_, sums, blocks(), sum); });
  }

  template <class Add>
  std::uint64_t add(const Add& queue) const {
    auto* const sum = gpu_.start_sum();
    queue(sum);
    return gpu_.read(sum);
  }

  Buffer a_, sums_;
};

}  // namespace

std::unique_ptr<Work> make(const HbmSpec& spec, CudaDevice& device) {
  if (spec.engine == Engine::cpu)
    throw Unsupported("the cuda backend streams by engine:sm or engine:ce, not by the CPU");
  if (spec.engine == Engine::ce && spec.op != HbmOp::copy)
    throw Unsupported("a copy engine can only copy: " + std::string(name(spec.op)) + " needs engine:sm");
  if (spec.bytes == 0 || (spec.op != HbmOp::copy && spec.bytes % 8 != 0))
    throw std::invalid_argument("hbm: a copy needs at least one byte, other operations whole words of 8");
  require_memory(footprint(spec));
  if (spec.op == HbmOp::read) return std::make_unique<ReadingStream>(spec, device.gpu());
  return std::make_unique<WritingStream>(spec, device.gpu());
}

}  // namespace shakedown::cuda
