// Unequal parts between the ranks, as one group of sends and receives of NCCL.
#include <stdexcept>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/known_data.hpp"
#include "kernels/ops/exchange.hpp"

namespace shakedown::cuda {

namespace {

class Exchange final : public Work {
 public:
  Exchange(const ExchangeSpec& spec, const Gpu& gpu, Communicators& communicators)
      : spec_(spec),
        parts_(spec),
        gpu_(gpu),
        communicators_(communicators),
        trail_(parts_.largest_received()),
        in_(spec.bytes),
        out_(trail_.room()) {}

  void connect(Group& group) override {
    if (group.size() != spec_.ranks) throw std::logic_error("an exchange was prepared for another number of ranks");
    communicator_ = &communicators_.of(group, !group.patience()).communicator;
    me_ = static_cast<std::size_t>(group.rank());
    reset();
    constexpr int warm_ups = 3;  // NCCL connects the peers at the first call
    for (int i = 0; i < warm_ups; ++i) enqueue();
    const auto done = make_event();
    check(cudaEventRecord(done.get(), gpu_.stream()));
    communicators_.wait(done.get());
  }

  void enqueue() override {
    const auto at = trail_.next();
    communicator_->call([&](ncclComm_t comm) {
      check(ncclGroupStart());
      for (int peer = 0; peer < spec_.ranks; ++peer) {
        const auto other = static_cast<std::size_t>(peer);
        check_queued(
            ncclSend(in_.at(parts_.sent_at(me_, other)), parts_.of(me_, other), ncclUint8, peer, comm, gpu_.stream()));
        check_queued(ncclRecv(out_.at(at + parts_.received_at(other, me_)), parts_.of(other, me_), ncclUint8, peer,
                              comm, gpu_.stream()));
      }
      return ncclGroupEnd();
    });
  }

  void stage(int repeats) override { stage_trail(gpu_, out_, trail_, repeats, poison_byte); }

  void reset() override {
    fill_parts(gpu_, in_, {spec_.bytes / sizeof(std::uint32_t), 0, me_});
    gpu_.fill(out_, poison_byte);
    trail_.restart();
    gpu_.synchronize();
  }

  Check verify() override {
    Check total;
    for (std::size_t from = 0; from < static_cast<std::size_t>(spec_.ranks); ++from) {
      if (parts_.of(from, me_) == 0) continue;
      const auto part = last().part(parts_.received_at(from, me_), parts_.of(from, me_));
      const auto check = check_parts(gpu_, part, words_between(parts_, from, me_));
      total.compared += check.compared;
      if (total.mismatched == 0 && check.mismatched > 0)
        total.first = "from rank " + std::to_string(from) + ": " + check.first;
      total.mismatched += check.mismatched;
    }
    check_trail(gpu_, out_, trail_, total);
    return total;
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return in_.bytes() + out_.bytes(); }
  bool collective() const override { return true; }
  bool runs_in_connect() const override { return true; }
  void corrupt() override { flip_one_bit(gpu_, last().part(0, parts_.received(me_))); }

 private:
  /// Inside a group call, a non-blocking communicator may return ncclInProgress.
  static void check_queued(ncclResult_t result) {
    if (result != ncclInProgress) check(result);
  }

  View last() const { return last_output(out_, trail_); }

  ExchangeSpec spec_;
  ExchangeParts parts_;
  const Gpu& gpu_;
  Communicators& communicators_;
  Communicator* communicator_ = nullptr;
  std::size_t me_ = 0;
  Trail trail_;
  Buffer in_, out_;
};

}  // namespace

std::unique_ptr<Work> make(const ExchangeSpec& spec, CudaDevice& device) {
  require_memory(footprint(spec));
  return std::make_unique<Exchange>(spec, device.gpu(), device.communicators());
}

}  // namespace shakedown::cuda
