// Capture of operations into CUDA graphs.
#include "kernels/cuda/recording.hpp"

#include <stdexcept>
#include <utility>

namespace shakedown::cuda {

namespace {

/// Captures the stream during its lifetime. If an exception ends it, the captured graph is discarded, so that the
/// stream can be used again.
class Capture {
 public:
  /// Uses thread-local capture mode: calls by NCCL's own threads, such as allocations, do not invalidate the capture.
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    if (stream_ == nullptr) return;
    cudaGraph_t dropped = nullptr;
    static_cast<void>(cudaStreamEndCapture(stream_, &dropped));
    static_cast<void>(cudaGetLastError());
    if (dropped != nullptr) static_cast<void>(cudaGraphDestroy(dropped));
  }

  Graph end() {
    cudaGraph_t recorded = nullptr;
    check(cudaStreamEndCapture(std::exchange(stream_, nullptr), &recorded));
    return Graph(recorded);
  }

 private:
  cudaStream_t stream_;
};

}  // namespace

bool Recording::record(cudaStream_t stream, int repeats, const std::function<void()>& enqueue) {
  if (graph_ != nullptr && repeats_ == repeats) return false;
  graph_.reset();
  Capture capture(stream);
  for (int i = 0; i < repeats; ++i) enqueue();
  const Graph graph = capture.end();
  cudaGraphExec_t ready = nullptr;
  check(cudaGraphInstantiate(&ready, graph.get(), 0));
  graph_.reset(ready);
  repeats_ = repeats;
  check(cudaGraphUpload(ready, stream));
  return true;
}

void Recording::replay(cudaStream_t stream, int repeats) const {
  if (graph_ == nullptr || repeats_ != repeats) throw std::logic_error("a batch is replayed that was not recorded");
  check(cudaGraphLaunch(graph_.get(), stream));
}

}  // namespace shakedown::cuda
