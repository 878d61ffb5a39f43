// One maker per operation. Each throws Unsupported for what this GPU cannot do.
#pragma once

#include <memory>
#include <string>

#include "kernels/device.hpp"

namespace shakedown::cuda {

class Communicator;
class Gpu;

std::unique_ptr<Work> make_gemm(const GemmSpec&, const Gpu&, Choices&);
std::unique_ptr<Work> make_gemm_search(const GemmSearchSpec&, const Gpu&, Choices&);
std::unique_ptr<Work> make_hbm(const HbmSpec&, const Gpu&);
std::unique_ptr<Work> make_memory_test(const MemoryTestSpec&, const Gpu&);
std::unique_ptr<Work> make_peer_copy(const PeerCopySpec&, Gpu&);
std::unique_ptr<Work> make_peer_shift(const PeerShiftSpec&, Gpu&);
std::unique_ptr<Work> make_peer_latency(const PeerLatencySpec&, Gpu&);
std::unique_ptr<Work> make_pcie(const PcieSpec&, const Gpu&, const std::string& pci);
std::unique_ptr<Work> make_allreduce(const AllReduceSpec&, const Gpu&, Communicator&);
std::unique_ptr<Work> make_collective(const CollectiveSpec&, const Gpu&, Communicator&);
std::unique_ptr<Work> make_lora_step(const LoraStepSpec&, const Gpu&, Communicator&, const std::string& device);

}  // namespace shakedown::cuda
