// Wrappers of cuDNN's backend descriptors.
#include "kernels/transformer/cuda/cudnn_graph.hpp"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <utility>

#include "kernels/device.hpp"

namespace shakedown::cuda {

namespace {

std::string last_error() {
  std::array<char, 512> text{};
  cudnnGetLastErrorString(text.data(), text.size());
  return text.data();
}

CudnnDescriptor make(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t descriptor = nullptr;
  check(cudnnBackendCreateDescriptor(type, &descriptor));
  return CudnnDescriptor(descriptor);
}

void set(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         std::int64_t count, const void* values) {
  check(cudnnBackendSetAttribute(descriptor.get(), name, type, count, values));
}
void set(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value) {
  set(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}
void set(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name, std::int64_t value) {
  set(descriptor, name, CUDNN_TYPE_INT64, 1, &value);
}
void set(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name, bool value) {
  set(descriptor, name, CUDNN_TYPE_BOOLEAN, 1, &value);
}
void set(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  set(descriptor, name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}

void finalize(const CudnnDescriptor& descriptor) { check(cudnnBackendFinalize(descriptor.get())); }

std::int64_t read_number(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name) {
  std::int64_t value = 0, count = 0;
  check(cudnnBackendGetAttribute(descriptor.get(), name, CUDNN_TYPE_INT64, 1, &count, &value));
  return value;
}

/// Returns the configurations that cuDNN proposes for the graph, best first.
std::vector<CudnnDescriptor> propose(const CudnnDescriptor& graph, const CudnnTarget& target) {
  const auto heuristics = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get());
  target.set_in_heuristics(heuristics);
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (cudnnBackendFinalize(heuristics.get()) != CUDNN_STATUS_SUCCESS) return {};
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                 &count, nullptr));
  std::vector<CudnnDescriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    configurations.push_back(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    raw.push_back(configurations.back().get());
  }
  check(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                                 &count, raw.data()));
  configurations.resize(static_cast<std::size_t>(count));
  return configurations;
}

std::int64_t engine_of(const CudnnDescriptor& configuration) {
  const auto engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  auto* raw = engine.get();
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                 &count, &raw));
  return read_number(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
}

}  // namespace

void check(cudnnStatus_t status, std::source_location where) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string path = where.file_name();
  throw std::runtime_error(path.substr(path.rfind('/') + 1) + ":" + std::to_string(where.line()) + " in " +
                           where.function_name() + ": " + last_error() + " (" + cudnnGetErrorString(status) + ", " +
                           std::to_string(static_cast<int>(status)) + ")");
}

// cudnnBackendDescriptorType_t and cudnnBackendAttributeName_t of cuDNN 9.8, which earlier headers do not have.
constexpr auto description_type = static_cast<cudnnBackendDescriptorType_t>(38);
constexpr auto description_json = static_cast<cudnnBackendAttributeName_t>(2702);
constexpr auto heuristics_description = static_cast<cudnnBackendAttributeName_t>(204);
constexpr auto plan_description = static_cast<cudnnBackendAttributeName_t>(407);

CudnnTarget::CudnnTarget(const DescribedGpu& gpu) : description_(make(description_type)) {
  const auto text = fmt::format(
      R"({{"cudaDeviceId":0,"deviceVer":{},"driverVer":13000,"totalGlobalMem":{},"multiProcessorCount":{},)"
      R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":{},"reservedSharedMemoryPerBlock":1024,)"
      R"("regsPerBlock":65536,"maxRegistersPerSM":65536,"warpSize":32,"maxThreadsPerBlock":1024,)"
      R"("maxThreadsPerSM":{},"maxCtasPerSM":{},"maxGridSize":[2147483647,65535,65535],)"
      R"("maxBlockSize":[1024,1024,64],"l2CacheSize":52428800,"smClockRateKHz":1900000,"memClockRateKHz":2600000,)"
      R"("supportCoopLaunch":1,"isTccDriver":0,"pciDeviceId":0,"deviceName":"described"}})",
      10 * gpu.compute_capability, gpu.memory_bytes, gpu.multiprocessors, gpu.shared_memory_bytes,
      gpu.threads_per_multiprocessor, gpu.threads_per_multiprocessor / 64);
  set(description_, description_json, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(text.size()), text.data());
  finalize(description_);
}

void CudnnTarget::set_in_graph(const CudnnDescriptor& graph) const {
  if (handle_ != nullptr) set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle_);
}
void CudnnTarget::set_in_heuristics(const CudnnDescriptor& heuristics) const {
  if (handle_ == nullptr) set(heuristics, heuristics_description, description_.get());
}
void CudnnTarget::set_in_plan(const CudnnDescriptor& plan) const {
  if (handle_ == nullptr) return set(plan, plan_description, description_.get());
  set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle_);
}

CudnnGraph::Tensor CudnnGraph::add_tensor(const TensorSettings& settings, const Extents& sizes,
                                          const Extents& strides) {
  const auto number = static_cast<Tensor>(tensors_.size());
  auto made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set(made, CUDNN_ATTR_TENSOR_DATA_TYPE, settings.type);
  set(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes);
  set(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
  set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, number);
  set(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
  set(made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, settings.is_virtual);
  set(made, CUDNN_ATTR_TENSOR_IS_BY_VALUE, settings.by_value);
  if (settings.order != CUDNN_TENSOR_REORDERING_NONE) {
    set(made, CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TYPE_TENSOR_REORDERING_MODE, 1, &settings.order);
  }
  finalize(made);
  tensors_.push_back(std::move(made));
  return number;
}

CudnnGraph::Tensor CudnnGraph::memory(cudnnDataType_t type, const Extents& sizes, const Extents& strides) {
  return add_tensor({.type = type}, sizes, strides);
}
CudnnGraph::Tensor CudnnGraph::accumulator(const Extents& sizes, const Extents& strides) {
  return add_tensor({.type = CUDNN_DATA_FLOAT, .order = CUDNN_TENSOR_REORDERING_F16x16}, sizes, strides);
}
CudnnGraph::Tensor CudnnGraph::between(cudnnDataType_t type, const Extents& sizes, const Extents& strides) {
  return add_tensor({.type = type, .is_virtual = true}, sizes, strides);
}
CudnnGraph::Tensor CudnnGraph::scalar() {
  return add_tensor({.type = CUDNN_DATA_FLOAT, .by_value = true}, {1, 1, 1, 1}, {1, 1, 1, 1});
}

void CudnnGraph::add_pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t computed_in, std::int64_t axis,
                               const std::vector<Tensor>& in, Tensor out) {
  auto kind = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set(kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  set(kind, CUDNN_ATTR_POINTWISE_MATH_PREC, computed_in);
  if (axis >= 0) set(kind, CUDNN_ATTR_POINTWISE_AXIS, axis);
  finalize(kind);

  constexpr cudnnBackendAttributeName_t inputs[] = {
      CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  auto made = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set(made, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind.get());
  for (std::size_t i = 0; i < in.size(); ++i) set(made, inputs[i], tensor(in[i]));
  set(made, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensor(out));
  finalize(made);
  kinds_.push_back(std::move(kind));
  operations_.push_back(std::move(made));
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t computed_in, Tensor x, Tensor out) {
  add_pointwise(mode, computed_in, -1, {x}, out);
}
void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t computed_in, Tensor x, Tensor b, Tensor out) {
  add_pointwise(mode, computed_in, -1, {x, b}, out);
}
void CudnnGraph::select(Tensor if_true, Tensor if_false, Tensor condition, Tensor out) {
  add_pointwise(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, {if_true, if_false, condition}, out);
}
void CudnnGraph::index(int axis, Tensor like, Tensor out) {
  add_pointwise(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, axis, {like}, out);
}

void CudnnGraph::matmul(Tensor a, Tensor b, Tensor out) {
  auto kind = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  set(kind, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  finalize(kind);
  auto made = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set(made, CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensor(a));
  set(made, CUDNN_ATTR_OPERATION_MATMUL_BDESC, tensor(b));
  set(made, CUDNN_ATTR_OPERATION_MATMUL_CDESC, tensor(out));
  set(made, CUDNN_ATTR_OPERATION_MATMUL_DESC, kind.get());
  finalize(made);
  kinds_.push_back(std::move(kind));
  operations_.push_back(std::move(made));
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t how, Tensor x, Tensor out) {
  auto kind = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  set(kind, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  set(kind, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
  finalize(kind);
  auto made = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  set(made, CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind.get());
  set(made, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, tensor(x));
  set(made, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, tensor(out));
  finalize(made);
  kinds_.push_back(std::move(kind));
  operations_.push_back(std::move(made));
}

void CudnnGraph::reshape(Tensor x, Tensor out) {
  auto made = make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  set(made, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, tensor(x));
  set(made, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, tensor(out));
  finalize(made);
  operations_.push_back(std::move(made));
}

void CudnnGraph::build(const CudnnTarget& target, const std::string& what) {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const auto& operation : operations_) raw.push_back(operation.get());
  operation_graph_ = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  target.set_in_graph(operation_graph_);
  set(operation_graph_, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
      static_cast<std::int64_t>(raw.size()), raw.data());
  finalize(operation_graph_);

  for (auto& configuration : propose(operation_graph_, target)) {
    auto plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    target.set_in_plan(plan);
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration.get());
    if (cudnnBackendFinalize(plan.get()) != CUDNN_STATUS_SUCCESS) continue;
    workspace_bytes_ = static_cast<std::size_t>(read_number(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
    engine_ = engine_of(configuration);
    engine_config_ = std::move(configuration);
    plan_ = std::move(plan);
    return;
  }
  throw Unsupported("cuDNN " + std::to_string(cudnnGetVersion()) + " has no engine for " + what + ": " + last_error());
}

void CudnnGraph::run(cudnnHandle_t handle, const std::vector<Argument>& arguments, void* workspace) const {
  std::vector<std::int64_t> numbers;
  std::vector<void*> addresses;
  for (const auto& argument : arguments) {
    numbers.push_back(argument.tensor);
    addresses.push_back(const_cast<void*>(argument.data));  // the C interface has no pointers to const
  }
  const auto count = static_cast<std::int64_t>(arguments.size());
  const auto pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, numbers.data());
  set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, addresses.data());
  set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  finalize(pack);
  check(cudnnBackendExecute(handle, plan_.get(), pack.get()));
}

}  // namespace shakedown::cuda
