// Graphs of operations.
#include "kernels/cuda/recording.hpp"

#include <stdexcept>

namespace shakedown::cuda {

bool Recording::record(cudaStream_t stream, int repeats, const std::function<void()>& enqueue) {
  if (graph_ != nullptr && repeats_ == repeats) return false;
  graph_.reset();
  // Thread-local: calls of NCCL's own threads, which may allocate, are no part of the recording and do not spoil it.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < repeats; ++i) enqueue();
  cudaGraph_t recorded = nullptr;
  check(cudaStreamEndCapture(stream, &recorded));
  const Graph graph(recorded);
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
