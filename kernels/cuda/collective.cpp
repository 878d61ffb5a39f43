// Collectives through NCCL, f32, out of place; AllReduce also in f16 and bf16, in place, from a CUDA graph, and in
// symmetric memory. Data
// that is only moved consists of words that depend on position and rank. Data that is summed consists of integers whose
// sums are exact. All elements are therefore checked without a tolerance.
#include <chrono>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "base/text.hpp"
#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/known_data.hpp"
#include "kernels/cuda/recording.hpp"
#include "kernels/cuda/symmetric.hpp"
#include "kernels/nccl_log.hpp"
#include "kernels/ops/collective.hpp"

namespace shakedown::cuda {

namespace {

/// Errors: Unsupported for types in which the sums are not exact.
ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return ncclFloat32;
    case DType::f16: return ncclFloat16;
    case DType::bf16: return ncclBfloat16;
    default: break;
  }
  throw Unsupported("the cuda backend sums f32, f16 and bf16 only, not " + std::string(name(dtype)));
}

/// Returns the largest N for which the type represents all integers up to N exactly.
std::int64_t max_exact_integer(DType dtype) {
  // The significand has one bit more than is stored.
  const int bits = dtype == DType::f32 ? 24 : dtype == DType::f16 ? 11 : 8;
  return std::int64_t{1} << bits;
}

/// From this message size on, one untimed operation precedes each sample. The launch and ranks that arrive some
/// microseconds apart would add 0.3 to 0.8 % to a sample of 1 to 2.5 ms.
constexpr std::size_t min_led_bytes = std::size_t{64} << 20;

/// Waits for all queued work, as Communicators::wait does.
void wait(const Gpu& gpu, Communicators& communicators) {
  const auto done = make_event();
  check(cudaEventRecord(done.get(), gpu.stream()));
  communicators.wait(done.get());
}

/// Runs the operation a few times, one by one, and waits for each. NCCL connects the peers at the first call of each
/// algorithm, and the message size selects the algorithm. Returns the algorithm that NCCL chose, if NCCL reports it.
std::string warm_up(Work& work, const Gpu& gpu, Communicators& communicators, bool whole) {
  const auto step = [&] {
    const int repeats = work.bytes() > (std::size_t{128} << 20) ? 2 : 5;
    for (int i = 0; i < repeats; ++i) work.enqueue();
    wait(gpu, communicators);
  };
  return communicators.first_run(step, whole);
}

class Collective final : public Work {
 public:
  Collective(const CollectiveSpec& spec, const Gpu& gpu, Communicators& communicators)
      : spec_(spec),
        layout_(layout(spec)),
        type_(nccl_type(spec.dtype)),
        addends_(reference::addends_for(spec.ranks, max_exact_integer(spec.dtype))),
        gpu_(gpu),
        communicators_(communicators),
        trail_(in_place() ? Trail::apart(spec.bytes) : Trail(layout_.out)),
        in_(buffer(in_place() ? trail_.room() : layout_.in)),
        own_out_(in_place() ? Buffer() : buffer(trail_.room())) {
    addends_.sum_is_zero = in_place();
  }

  void connect(Group& world) override {
    Group& group = group_of(spec_, world);
    const bool whole = spec_.scope == Scope::world && !group.patience();
    const auto made = communicators_.of(group, whole, spec_.via);
    communicator_ = &made.communicator;
    if (in_place() && group.size() == 1) {
      throw Unsupported("an in-place AllReduce on one rank is a no-op: there is nothing to measure");
    }
    rank_ = group.rank();
    if (is_symmetric()) {
      in_window_.emplace(*communicator_, in_);
      out_window_.emplace(*communicator_, own_out_);
    }
    reset();
    chosen_ = warm_up(*this, gpu_, communicators_, whole);  // also connects the peers before any graph capture
    if (made.fresh && !group.patience()) settle(group);
    if (is_symmetric() && !(in_window_->is_symmetric() && out_window_->is_symmetric())) {
      throw Unsupported(
          "memory:symmetric: NCCL has no symmetric memory between these ranks; it needs peer access between all GPUs, "
          "on "
          "one host");
    }
    if (spec_.via == Via::net) {
      constexpr bool asked_by_name = true;
      const auto& transports = communicators_.transports();
      if (const auto problem = problem_of_network(transports); !problem.empty()) {
        throw Unsupported("via:net: " + problem, asked_by_name);
      }
      chosen_ += (chosen_.empty() ? "" : ", ") + joined(transports);
    }
  }

  void enqueue() override {
    const auto part = elements(layout_.part);
    const View out = View(this->out()).part(trail_.next(), layout_.out);
    const void* const in = in_place() ? out.data() : in_.data();
    communicator_->call([&](ncclComm_t comm) { return enqueue(in, out, part, comm, gpu_.stream()); });
  }

  /// Prepares `repeats` operations. An in-place sum is zero after one operation and stays zero, so each operation of a
  /// series gets new addends. A new recording is replayed once, so that the ranks, which needed different times to
  /// record, start together.
  void stage(int repeats) override {
    if (in_place()) return stage_addends(repeats);
    if (!recorded()) return stage_trail(gpu_, own_out_, trail_, repeats, nan_byte);
    const auto recorded_trail = trail_;
    trail_.restart();
    if (recording_.record(gpu_.stream(), repeats, [this] { enqueue(); })) {
      recording_.replay(gpu_.stream(), repeats);
      wait(gpu_, communicators_);
    } else {
      trail_ = recorded_trail;
    }
    gpu_.fill(own_out_, nan_byte);
    gpu_.synchronize();
  }

  void enqueue_batch(int repeats) override {
    if (!recorded()) return Work::enqueue_batch(repeats);
    recording_.replay(gpu_.stream(), repeats);
  }

  void reset() override {
    if (sums(spec_.op)) {
      fill_addends(gpu_, in_, spec_.dtype, {addends_, rank_});
    } else {
      fill_parts(gpu_, in_, sent(spec_, rank_));
    }
    if (!in_place()) gpu_.fill(own_out_, nan_byte);
    if (!recorded()) trail_.restart();
    gpu_.synchronize();
  }

  /// Checks the output on every rank. Ranks without an output check that their input is unchanged.
  Check verify() override {
    if (!has_output(spec_, rank_)) {
      return sums(spec_.op) ? check_addends(gpu_, in_, spec_.dtype, {addends_, rank_})
                            : check_parts(gpu_, in_, sent(spec_, rank_));
    }
    auto check = check_last();
    check_trail(gpu_, out(), trail_, check);
    return check;
  }

  /// Sums of exact integers have the same bits in any order of additions.
  std::optional<std::uint64_t> digest() const override {
    return has_output(spec_, rank_) ? digest_of(gpu_, last_output(out(), trail_)) : std::nullopt;
  }

  bool runs_in_connect() const override { return true; }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return in_.bytes() + own_out_.bytes(); }
  bool collective() const override { return true; }
  bool on_host() const override { return spec_.scope == Scope::node; }
  bool needs_lead_in() const override { return spec_.bytes >= min_led_bytes && !recorded(); }
  std::string chosen() const override { return chosen_; }
  void corrupt() override { flip_one_bit(gpu_, has_output(spec_, rank_) ? last_output(out(), trail_) : View(in_)); }

 private:
  /// Runs the collective until it is as fast as later ones in the process. The time of a small message is mostly the
  /// host's launch time, and the first row of each program varied by 30 %. Rank 0's clock decides when to stop.
  void settle(Group& group) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::milliseconds(200);
    for (bool more = true; more;) {
      for (int i = 0; i < (needs_lead_in() ? 1 : 20); ++i) enqueue();
      wait(gpu_, communicators_);
      more = Clock::now() < end;
      group.broadcast(std::as_writable_bytes(std::span(&more, 1)), 0);
    }
  }

  Check check_last() const {
    const auto out = last_output(this->out(), trail_);
    if (!sums(spec_.op)) return check_parts(gpu_, out, received(spec_, rank_));
    const auto first = spec_.op == CollectiveOp::reduce_scatter
                           ? static_cast<std::size_t>(rank_) * elements(layout_.part)
                           : std::size_t{0};
    return check_addends(gpu_, out, spec_.dtype, {addends_, AddendPattern::all_ranks, first});
  }

  void stage_addends(int repeats) {
    trail_.stage(static_cast<std::size_t>(repeats));
    const auto range = trail_.heads();
    fill_addends(gpu_, View(in_).part(range.begin, range.size()), spec_.dtype, {addends_, rank_});
    gpu_.synchronize();
  }

  bool in_place() const { return spec_.place == Place::in; }
  bool is_symmetric() const { return spec_.memory == Memory::symmetric; }
  Buffer buffer(std::size_t bytes) const { return is_symmetric() ? symmetric_buffer(bytes) : Buffer(bytes); }
  bool recorded() const { return spec_.launch == Launch::graph; }
  const Buffer& out() const { return in_place() ? in_ : own_out_; }
  std::size_t elements(std::size_t bytes) const { return bytes / size_of(spec_.dtype); }

  ncclResult_t enqueue(const void* in, const View& out, std::size_t part, ncclComm_t comm, cudaStream_t stream) const {
    switch (spec_.op) {
      case CollectiveOp::all_reduce: return ncclAllReduce(in, out.data(), part, type_, ncclSum, comm, stream);
      case CollectiveOp::all_gather: return ncclAllGather(in, out.data(), part, type_, comm, stream);
      case CollectiveOp::reduce_scatter: return ncclReduceScatter(in, out.data(), part, type_, ncclSum, comm, stream);
      case CollectiveOp::broadcast: return ncclBroadcast(in, out.data(), part, type_, collective_root, comm, stream);
      case CollectiveOp::reduce: return ncclReduce(in, out.data(), part, type_, ncclSum, collective_root, comm, stream);
      case CollectiveOp::alltoall:
        check(ncclGroupStart());
        for (int peer = 0; peer < spec_.ranks; ++peer) {
          const auto offset = static_cast<std::size_t>(peer) * layout_.part;
          check_queued(ncclSend(in_.at(offset), part, type_, peer, comm, stream));
          check_queued(ncclRecv(out.at(offset), part, type_, peer, comm, stream));
        }
        return ncclGroupEnd();
      case CollectiveOp::sendrecv:
        check(ncclGroupStart());
        if (!spec_.sender || *spec_.sender == rank_) {
          check_queued(ncclSend(in, part, type_, next_rank(rank_, spec_.ranks), comm, stream));
        }
        if (has_output(spec_, rank_)) {
          check_queued(ncclRecv(out.data(), part, type_, previous_rank(rank_, spec_.ranks), comm, stream));
        }
        return ncclGroupEnd();
    }
    throw std::invalid_argument("unknown operation");
  }

  /// Inside a group call, a non-blocking communicator may return ncclInProgress.
  static void check_queued(ncclResult_t result) {
    if (result != ncclInProgress) check(result);
  }

  CollectiveSpec spec_;
  CollectiveLayout layout_;
  ncclDataType_t type_;
  reference::Addends addends_;
  const Gpu& gpu_;
  Communicators& communicators_;
  Communicator* communicator_ = nullptr;
  Trail trail_;
  Buffer in_, own_out_;
  std::optional<SymmetricWindow> in_window_, out_window_;
  Recording recording_;  // destroyed before the buffers that it refers to
  int rank_ = 0;
  std::string chosen_;
};

}  // namespace

std::unique_ptr<Work> make(const CollectiveSpec& spec, CudaDevice& device) {
  if (spec.op != CollectiveOp::all_reduce && spec.dtype != DType::f32) {
    throw Unsupported("the cuda backend has these collectives in f32 only, not " + std::string(name(spec.dtype)));
  }
  if (spec.memory == Memory::symmetric && spec.place == Place::in) {
    throw std::invalid_argument("an AllReduce in symmetric memory is not in place");
  }
  nccl_type(spec.dtype);  // reports an unsupported type before the size is checked
  require_memory(footprint(spec));
  return std::make_unique<Collective>(spec, device.gpu(), device.communicators());
}

}  // namespace shakedown::cuda
