// Reports that copies between GPU and host are not supported, because the host backend has no GPU.
#include "kernels/host/host_device.hpp"
#include "kernels/ops/copy.hpp"

namespace shakedown::host {

std::unique_ptr<Work> make(const PcieSpec&, HostDevice&) {
  throw Unsupported("the host backend has no GPU to copy to or from");
}

}  // namespace shakedown::host
