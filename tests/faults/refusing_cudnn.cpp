// A cuDNN that rejects plans, as an old version does on a new GPU. Put in front of the real one with LD_PRELOAD.
// SHAKEDOWN_LIE=deterministic rejects deterministic gradients of attention, SHAKEDOWN_LIE=attention all gradients.
//
// Attention has two graphs, forward and backward, and the deterministic variant is tried first. Therefore every second
// graph is a gradient. If the first variant is rejected, every fourth graph is a nondeterministic gradient.
#include <cudnn.h>

#include <map>

#include "tests/faults/lie.hpp"

namespace {

struct Descriptors {
  std::map<cudnnBackendDescriptor_t, cudnnBackendDescriptorType_t> types = {};
  int graphs = 0;
};

Descriptors& descriptors() {
  static Descriptors made;
  return made;
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  static auto* const real = lie::real("cudnnBackendCreateDescriptor", &cudnnBackendCreateDescriptor);
  const auto status = real(type, descriptor);
  if (status == CUDNN_STATUS_SUCCESS) descriptors().types[*descriptor] = type;
  return status;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  static auto* const real = lie::real("cudnnBackendFinalize", &cudnnBackendFinalize);
  auto& [types, graphs] = descriptors();
  const auto type = types[descriptor];
  if (type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) ++graphs;
  const bool refused = lie::told("attention") ? graphs % 2 == 0 : lie::told("deterministic") && graphs % 4 == 2;
  if (refused && type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) return CUDNN_STATUS_NOT_SUPPORTED;
  return real(descriptor);
}

}  // extern "C"
