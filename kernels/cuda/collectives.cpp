// The collectives beside AllReduce through NCCL, f32, out of place. What is only moved is position- and rank-dependent
// words; what is summed is integers whose sums are exact.
#include <stdexcept>
#include <string>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/exchange.hpp"
#include "kernels/cuda/heads.hpp"
#include "kernels/cuda/words.hpp"

namespace shakedown::cuda {

namespace {

class Collective final : public Work {
 public:
  Collective(const CollectiveSpec& spec, const Gpu& gpu, Communicator& communicator)
      : spec_(spec),
        layout_(layout(spec)),
        addends_(reference::addends_for(spec.ranks, largest_exact(spec.dtype))),
        gpu_(gpu),
        communicator_(communicator),
        in_(layout_.in),
        trail_(layout_.out),
        out_(trail_.room()) {}

  void connect(Group& world) override {
    if (world.size() != spec_.ranks) throw std::logic_error("a collective was prepared for another number of ranks");
    rank_ = world.rank();
    communicator_.connect(world);
    reset();
    chosen_ = warm_up(*this, gpu_, communicator_);
  }

  void enqueue() override {
    const auto comm = communicator_.get();
    const auto stream = gpu_.stream();
    const auto part = elements(layout_.part);
    const View out = View(out_).part(trail_.next(), layout_.out);
    switch (spec_.op) {
      case CollectiveOp::all_gather:
        return check(ncclAllGather(in_.data(), out.data(), part, ncclFloat32, comm, stream));
      case CollectiveOp::reduce_scatter:
        return check(ncclReduceScatter(in_.data(), out.data(), part, ncclFloat32, ncclSum, comm, stream));
      case CollectiveOp::broadcast:
        return check(ncclBroadcast(in_.data(), out.data(), part, ncclFloat32, collective_root, comm, stream));
      case CollectiveOp::reduce:
        return check(ncclReduce(in_.data(), out.data(), part, ncclFloat32, ncclSum, collective_root, comm, stream));
      case CollectiveOp::alltoall:
        check(ncclGroupStart());
        for (int peer = 0; peer < spec_.ranks; ++peer) {
          const auto offset = static_cast<std::size_t>(peer) * layout_.part;
          exchange(in_.at(offset), peer, out.at(offset), peer);
        }
        return check(ncclGroupEnd());
      case CollectiveOp::sendrecv:
        check(ncclGroupStart());
        exchange(in_.data(), next_rank(rank_, spec_.ranks), out.data(), previous_rank(rank_, spec_.ranks));
        return check(ncclGroupEnd());
    }
  }

  void reset() override {
    if (sums(spec_.op)) {
      fill_addends(gpu_, in_, spec_.dtype, {addends_, rank_});
    } else {
      fill_parts(gpu_, in_, {in_.bytes() / sizeof(std::uint32_t), 0, static_cast<std::uint64_t>(rank_)});
    }
    gpu_.fill(out_, nan_byte);
    trail_.restart();
    gpu_.synchronize();
  }

  void stage(int repeats) override { stage_trail(gpu_, out_, trail_, repeats, nan_byte); }

  /// Every rank checks its output; in a reduce the ranks that have none check that their input is unchanged.
  Check verify() override {
    if (!has_output(spec_.op, rank_)) return check_addends(gpu_, in_, spec_.dtype, {addends_, rank_});
    auto check = check_last();
    check_trail(gpu_, out_, trail_, check);
    return check;
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return in_.bytes() + out_.bytes(); }
  bool collective() const override { return true; }
  std::string chosen() const override { return chosen_; }
  void corrupt() override { flip_one_bit(gpu_, has_output(spec_.op, rank_) ? last_output(out_, trail_) : View(in_)); }

 private:
  Check check_last() const {
    const auto out = last_output(out_, trail_);
    if (!sums(spec_.op)) return check_parts(gpu_, out, received(spec_, rank_));
    const auto first = spec_.op == CollectiveOp::reduce_scatter
                           ? static_cast<std::size_t>(rank_) * elements(layout_.part)
                           : std::size_t{0};
    return check_addends(gpu_, out, spec_.dtype, {addends_, AddendPattern::all_ranks, first});
  }

  static std::size_t elements(std::size_t bytes) { return bytes / sizeof(float); }

  /// Inside a group. A rank may be its own peer.
  void exchange(const void* sent, int to, void* received, int from) {
    const auto count = elements(layout_.part);
    check(ncclSend(sent, count, ncclFloat32, to, communicator_.get(), gpu_.stream()));
    check(ncclRecv(received, count, ncclFloat32, from, communicator_.get(), gpu_.stream()));
  }

  CollectiveSpec spec_;
  CollectiveLayout layout_;
  reference::Addends addends_;
  const Gpu& gpu_;
  Communicator& communicator_;
  Buffer in_;
  Trail trail_;
  Buffer out_;
  int rank_ = 0;
  std::string chosen_;
};

}  // namespace

std::unique_ptr<Work> make(const CollectiveSpec& spec, CudaDevice& device) {
  if (spec.dtype != DType::f32) {
    throw Unsupported("the cuda backend has these collectives in f32 only, not " + std::string(name(spec.dtype)));
  }
  require_memory(footprint(spec));
  return std::make_unique<Collective>(spec, device.gpu(), device.communicator());
}

}  // namespace shakedown::cuda
