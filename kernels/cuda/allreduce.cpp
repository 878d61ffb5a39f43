// Sum over all ranks through NCCL on integers whose sum is exact: every element is checked without a tolerance. The
// size is that of one rank's input, as in nccl-tests.
#include <cstddef>
#include <stdexcept>
#include <string>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/exchange.hpp"
#include "kernels/cuda/heads.hpp"
#include "kernels/cuda/recording.hpp"
#include "kernels/cuda/words.hpp"

namespace shakedown::cuda {

namespace {

class AllReduce final : public Work {
 public:
  AllReduce(const AllReduceSpec& spec, const Gpu& gpu, Communicator& communicator)
      : spec_(spec),
        type_(nccl_type(spec.dtype)),
        gpu_(gpu),
        communicator_(communicator),
        trail_(in_place() ? Trail::apart(spec.bytes) : Trail(spec.bytes)),
        in_(in_place() ? trail_.room() : spec.bytes),
        own_out_(in_place() ? Buffer() : Buffer(trail_.room())) {}

  void connect(Group& world) override {
    communicator_.connect(world);
    if (in_place() && world.size() == 1) {
      throw Unsupported("the sum in place of one rank moves nothing and changes nothing: there is nothing to measure");
    }
    rank_ = world.rank();
    addends_ = reference::addends_for(world.size(), largest_exact(spec_.dtype));
    addends_.sum_is_zero = in_place();
    reset();
    chosen_ = warm_up(*this, gpu_, communicator_);  // peers are connected outside of a recording, too
  }

  void enqueue() override {
    auto* const out = this->out().at(trail_.next());
    const void* const in = in_place() ? out : in_.data();
    check(
        ncclAllReduce(in, out, spec_.bytes / size_of(spec_.dtype), type_, ncclSum, communicator_.get(), gpu_.stream()));
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
      wait(gpu_, communicator_);
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
    fill_addends(gpu_, in_, spec_.dtype, {addends_, rank_});
    if (!in_place()) gpu_.fill(own_out_, nan_byte);
    if (!recorded()) trail_.restart();
    gpu_.synchronize();
  }

  Check verify() override {
    auto check = check_addends(gpu_, last_output(out(), trail_), spec_.dtype, {addends_});
    check_trail(gpu_, out(), trail_, check);
    return check;
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return in_.bytes() + own_out_.bytes(); }
  bool collective() const override { return true; }
  std::string chosen() const override { return chosen_; }
  void corrupt() override { flip_one_bit(gpu_, last_output(out(), trail_)); }

 private:
  void stage_addends(int repeats) {
    trail_.stage(static_cast<std::size_t>(repeats));
    const auto range = trail_.heads();
    fill_addends(gpu_, View(in_).part(range.begin, range.size()), spec_.dtype, {addends_, rank_});
    gpu_.synchronize();
  }

  bool in_place() const { return spec_.place == Place::in; }
  bool recorded() const { return spec_.launch == Launch::graph; }
  const Buffer& out() const { return in_place() ? in_ : own_out_; }

  AllReduceSpec spec_;
  ncclDataType_t type_;
  const Gpu& gpu_;
  Communicator& communicator_;
  Trail trail_;
  Buffer in_, own_out_;
  Recording recording_;  // goes before the buffers that it refers to
  reference::Addends addends_;
  int rank_ = 0;
  std::string chosen_;
};

}  // namespace

std::unique_ptr<Work> make(const AllReduceSpec& spec, CudaDevice& device) {
  nccl_type(spec.dtype);  // before the size is looked at
  if (spec.bytes == 0 || spec.bytes % size_of(spec.dtype) != 0) {
    throw std::invalid_argument("an AllReduce needs a positive whole number of elements");
  }
  require_memory(footprint(spec));
  return std::make_unique<AllReduce>(spec, device.gpu(), device.communicator());
}

}  // namespace shakedown::cuda
