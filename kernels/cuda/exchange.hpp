// What the collective Works share: how their types are called by NCCL, and known data in their buffers.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cuda/collective_data.hpp"
#include "kernels/cuda/communicator.hpp"
#include "kernels/cuda/gpu.hpp"

namespace shakedown::cuda {

/// Every byte of a poisoned output: a NaN, which no check takes for a sum.
inline constexpr int nan_byte = 0xff;

/// Errors: Unsupported for types that we cannot sum exactly.
ncclDataType_t nccl_type(DType);
/// The largest integer below which the type has all integers.
std::int64_t largest_exact(DType);

void fill_addends(const Gpu&, const View&, DType, const AddendPattern&);
Check check_addends(const Gpu&, const View&, DType, const AddendPattern&);

void fill_parts(const Gpu&, const View&, const reference::Parts&);
Check check_parts(const Gpu&, const View&, const reference::Parts&);

/// NCCL connects its peers at the first call of each algorithm, and the size decides the algorithm: runs the operation
/// a few times, one by one, and waits for it. What NCCL chose, if it says.
std::string warm_up(Work&, const Gpu&, Communicator&);

/// Waits for all that is queued, as Communicator::wait does.
void wait(const Gpu&, Communicator&);

}  // namespace shakedown::cuda
