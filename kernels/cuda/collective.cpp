// The collectives through NCCL, f32, out of place; AllReduce also f16 and bf16, in place, and from a graph. What is
// only moved is position- and rank-dependent words; what is summed is integers whose sums are exact: every element is
// checked without a tolerance.
#include <chrono>
#include <span>
#include <stdexcept>
#include <string>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/known_data.hpp"
#include "kernels/cuda/recording.hpp"
#include "kernels/ops/collective.hpp"

namespace shakedown::cuda {

namespace {

/// Errors: Unsupported for types that we cannot sum exactly.
ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return ncclFloat32;
    case DType::f16: return ncclFloat16;
    case DType::bf16: return ncclBfloat16;
    default: break;
  }
  throw Unsupported("the cuda backend sums f32, f16 and bf16 only, not " + std::string(name(dtype)));
}

/// The largest integer below which the type has all integers.
std::int64_t largest_exact(DType dtype) {
  // One more than the stored bits of the significand.
  const int bits = dtype == DType::f32 ? 24 : dtype == DType::f16 ? 11 : 8;
  return std::int64_t{1} << bits;
}

/// Of so large messages one operation runs untimed in front of each sample: a launch, and ranks that come some
/// microseconds apart, are 0.3 to 0.8 % of a sample of 1 to 2.5 ms.
constexpr std::size_t least_led_bytes = std::size_t{64} << 20;

/// Waits for all that is queued, as Communicators::wait does.
void wait(const Gpu& gpu, Communicators& communicators) {
  const auto done = make_event();
  check(cudaEventRecord(done.get(), gpu.stream()));
  communicators.wait(done.get());
}

/// NCCL connects its peers at the first call of each algorithm, and the size decides the algorithm: runs the operation
/// a few times, one by one, and waits for it. What NCCL chose, if it says.
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
        addends_(reference::addends_for(spec.ranks, largest_exact(spec.dtype))),
        gpu_(gpu),
        communicators_(communicators),
        trail_(in_place() ? Trail::apart(spec.bytes) : Trail(layout_.out)),
        in_(in_place() ? trail_.room() : layout_.in),
        own_out_(in_place() ? Buffer() : Buffer(trail_.room())) {
    addends_.sum_is_zero = in_place();
  }

  void connect(Group& world) override {
    Group& group = group_of(spec_, world);
    const bool whole = spec_.scope == Scope::world && !group.patience();
    const auto made = communicators_.of(group, whole);
    communicator_ = &made.communicator;
    if (in_place() && group.size() == 1) {
      throw Unsupported("the sum in place of one rank moves nothing and changes nothing: there is nothing to measure");
    }
    rank_ = group.rank();
    reset();
    chosen_ = warm_up(*this, gpu_, communicators_, whole);  // peers are connected outside of a recording, too
    if (made.fresh && !group.patience()) settle(group);
  }

  void enqueue() override {
    const auto part = elements(layout_.part);
    const View out = View(this->out()).part(trail_.next(), layout_.out);
    const void* const in = in_place() ? out.data() : in_.data();
    communicator_->call([&](ncclComm_t comm) { return enqueue(in, out, part, comm, gpu_.stream()); });
  }

  /// What has been summed in place is zero and stays so: each operation of a series gets new addends. A fresh recording
  /// is run once, so that the ranks, which took their own times to record, begin together.
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

  /// Every rank checks its output; those that have none check that their input is unchanged.
  Check verify() override {
    if (!has_output(spec_, rank_)) {
      return sums(spec_.op) ? check_addends(gpu_, in_, spec_.dtype, {addends_, rank_})
                            : check_parts(gpu_, in_, sent(spec_, rank_));
    }
    auto check = check_last();
    check_trail(gpu_, out(), trail_, check);
    return check;
  }

  /// Integers whose sums are exact have the same bits in whatever order NCCL adds them.
  std::optional<std::uint64_t> digest() const override {
    return has_output(spec_, rank_) ? digest_of(gpu_, last_output(out(), trail_)) : std::nullopt;
  }

  bool runs_in_connect() const override { return true; }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return in_.bytes() + own_out_.bytes(); }
  bool collective() const override { return true; }
  bool on_host() const override { return spec_.scope == Scope::node; }
  bool needs_lead_in() const override { return spec_.bytes >= least_led_bytes && !recorded(); }
  std::string chosen() const override { return chosen_; }
  void corrupt() override { flip_one_bit(gpu_, has_output(spec_, rank_) ? last_output(out(), trail_) : View(in_)); }

 private:
  /// Runs on until the first collective of the process is as fast as the later ones: of small messages, whose time is
  /// how fast the host starts them, the first row of each program scattered by 0.3. Rank 0's clock decides.
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

  /// Inside a group, a communicator that does not block may answer that it is at it.
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
  Recording recording_;  // goes before the buffers that it refers to
  int rank_ = 0;
  std::string chosen_;
};

}  // namespace

std::unique_ptr<Work> make(const CollectiveSpec& spec, CudaDevice& device) {
  if (spec.op != CollectiveOp::all_reduce && spec.dtype != DType::f32) {
    throw Unsupported("the cuda backend has these collectives in f32 only, not " + std::string(name(spec.dtype)));
  }
  nccl_type(spec.dtype);  // before the size is looked at
  require_memory(footprint(spec));
  return std::make_unique<Collective>(spec, device.gpu(), device.communicators());
}

}  // namespace shakedown::cuda
