// The parts of a burn on a GPU, each as a CUDA graph on a stream of its own.
#include "kernels/burn.hpp"

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/recording.hpp"
#include "kernels/ops/burn.hpp"

namespace shakedown::cuda {

std::unique_ptr<Work> make(const GemmSpec&, CudaDevice&);
std::unique_ptr<Work> make(const PeerShiftSpec&, CudaDevice&);
std::unique_ptr<Work> make(const HbmSpec&, CudaDevice&);
std::unique_ptr<Work> make(const CollectiveSpec&, CudaDevice&);

namespace {

/// The parts queue their operations on the stream of the GPU, from which they are captured. The products come first and
/// have the usual priority. The other parts have a higher one: their blocks then run as soon as blocks of products end.
class Branches {
 public:
  Branches(const Gpu& gpu, Communicators& communicators, std::size_t parts)
      : gpu_(gpu), communicators_(communicators), branches_(parts) {
    for (std::size_t i = 0; i < parts; ++i) branches_[i].stream = i == 0 ? make_stream() : make_first_stream();
  }
  Branches(const Branches&) = delete;
  Branches& operator=(const Branches&) = delete;
  ~Branches() { static_cast<void>(cudaStreamSynchronize(gpu_.stream())); }

  void record(std::size_t part, const std::function<void()>& queue) {
    auto& recording = branches_[part].recording;
    recording = {};
    recording.record(gpu_.stream(), 1, queue);
  }
  void launch() {
    check(cudaEventRecord(start_.get(), gpu_.stream()));
    for (auto& branch : branches_) {
      const auto stream = branch.stream.get();
      check(cudaStreamWaitEvent(stream, start_.get()));
      check(cudaEventRecord(branch.begin.get(), stream));
      branch.recording.replay(stream, 1);
      check(cudaEventRecord(branch.end.get(), stream));
      check(cudaStreamWaitEvent(gpu_.stream(), branch.end.get()));
    }
  }
  void wait() {
    check(cudaEventRecord(done_.get(), gpu_.stream()));
    communicators_.wait(done_.get());
  }
  double seconds(std::size_t part) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, branches_[part].begin.get(), branches_[part].end.get()));
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  struct Branch {
    Stream stream;
    Recording recording;
    Event begin = make_event(), end = make_event();
  };

  const Gpu& gpu_;
  Communicators& communicators_;
  std::vector<Branch> branches_;
  Event start_ = make_event(), done_ = make_event();
};

}  // namespace

std::unique_ptr<Work> make(const BurnSpec& spec, CudaDevice& device) {
  auto parts = burn_parts(spec, [&](const auto& part) { return make(part, device); });
  auto branches = std::make_unique<Branches>(device.gpu(), device.communicators(), parts.size());
  return std::make_unique<Burn<Branches>>(std::move(parts), std::move(branches));
}

}  // namespace shakedown::cuda
