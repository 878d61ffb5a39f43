// The memory test of the host backend.
#include "kernels/host/memtest.hpp"

namespace shakedown::host {

std::unique_ptr<Work> make(const MemoryTestSpec& spec, HostDevice& device) {
  if (!spec.bytes) throw Unsupported("the host backend tests a bounded part of the memory only: give the bytes");
  if (*spec.bytes == 0 || *spec.bytes % 16 != 0) throw std::invalid_argument("memtest needs whole 16-byte vectors");
  if (spec.loaded) throw Unsupported("the host backend has no products during the memory test: all cores test memory");
  return std::make_unique<MemoryTest<Cells>>(spec, device.team());
}

}  // namespace shakedown::host
