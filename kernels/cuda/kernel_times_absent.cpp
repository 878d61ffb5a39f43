// A toolkit without CUPTI's headers.
#include "kernels/cuda/kernel_times.hpp"

namespace shakedown::cuda {

std::unique_ptr<KernelTimes> KernelTimes::start() { return nullptr; }
KernelTimes::~KernelTimes() = default;
void KernelTimes::begin_part(std::uint64_t) {}
void KernelTimes::end_part() {}
std::optional<std::vector<double>> KernelTimes::milliseconds(std::size_t) { return std::nullopt; }

}  // namespace shakedown::cuda
