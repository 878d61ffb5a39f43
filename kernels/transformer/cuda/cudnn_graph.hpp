// A graph of cuDNN operations, built through the C interface of its backend from tensors and operations, and turned
// into one execution plan. (NVIDIA's C++ front end is a header of 3.5 MB that no distribution packages; it is not
// needed.)
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <vector>

#include "kernels/cuda/handle.hpp"
#include "kernels/transformer/cuda/attention.hpp"

namespace shakedown::cuda {

void check(cudnnStatus_t, std::source_location = std::source_location::current());

using CudnnHandle = Owned<cudnnHandle_t, cudnnDestroy>;
using CudnnDescriptor = Owned<cudnnBackendDescriptor_t, cudnnBackendDestroyDescriptor>;

/// The GPU for which a plan is built: the one of a handle, or one that is described and need not be present.
class CudnnTarget {
 public:
  explicit CudnnTarget(cudnnHandle_t handle) : handle_(handle) {}
  /// Errors: std::runtime_error if this cuDNN only builds for GPUs that are present (before 9.8).
  explicit CudnnTarget(const DescribedGpu&);

  void set_in_graph(const CudnnDescriptor&) const;
  void set_in_heuristics(const CudnnDescriptor&) const;
  void set_in_plan(const CudnnDescriptor&) const;

 private:
  cudnnHandle_t handle_ = nullptr;
  CudnnDescriptor description_;
};

/// Extents of a tensor with four dimensions: sequence, head, row, column.
using Extents = std::int64_t[4];

class CudnnGraph {
 public:
  /// Number of a tensor; `run` uses it to identify the tensor's memory.
  using Tensor = std::int64_t;

  // Tensors. Intermediate ones exist only inside the fused kernel.
  Tensor memory(cudnnDataType_t, const Extents& sizes, const Extents& strides);
  Tensor accumulator(const Extents& sizes, const Extents& strides);  // f32, in the memory order that cuDNN's kernels
                                                                     // prefer
  Tensor between(cudnnDataType_t, const Extents& sizes, const Extents& strides);
  Tensor scalar();  // f32; passed by address

  // Operations.
  void pointwise(cudnnPointwiseMode_t, cudnnDataType_t computed_in, Tensor x, Tensor out);
  void pointwise(cudnnPointwiseMode_t, cudnnDataType_t computed_in, Tensor x, Tensor b, Tensor out);
  void select(Tensor if_true, Tensor if_false, Tensor condition, Tensor out);
  void index(int axis, Tensor like, Tensor out);  // out = position of each element along the axis, as int32
  void matmul(Tensor a, Tensor b, Tensor out);
  void reduce(cudnnReduceTensorOp_t, Tensor x, Tensor out);
  void reshape(Tensor x, Tensor out);

  /// Queries the heuristics and keeps the first plan that can be built. Errors: Unsupported, with cuDNN's text, if
  /// there is none.
  void build(const CudnnTarget&, const std::string& what);

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Returns the number of the plan's engine in cuDNN's tables.
  std::int64_t engine() const { return engine_; }

  /// Queues the graph on the handle's stream. The arguments give the memory of each tensor that is not intermediate.
  struct Argument {
    Tensor tensor;
    const void* data;
  };
  void run(cudnnHandle_t, const std::vector<Argument>&, void* workspace) const;

 private:
  struct TensorSettings {
    cudnnDataType_t type;
    bool is_virtual = false, by_value = false;
    cudnnBackendTensorReordering_t order = CUDNN_TENSOR_REORDERING_NONE;
  };
  Tensor add_tensor(const TensorSettings&, const Extents& sizes, const Extents& strides);
  void add_pointwise(cudnnPointwiseMode_t, cudnnDataType_t, std::int64_t axis, const std::vector<Tensor>& in,
                     Tensor out);
  cudnnBackendDescriptor_t tensor(Tensor number) const { return tensors_[static_cast<std::size_t>(number)].get(); }

  std::vector<CudnnDescriptor> tensors_, kinds_, operations_;
  CudnnDescriptor operation_graph_, engine_config_, plan_;
  std::size_t workspace_bytes_ = 0;
  std::int64_t engine_ = -1;
};

}  // namespace shakedown::cuda
