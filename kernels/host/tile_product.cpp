#include "kernels/host/tile_product.hpp"

namespace shakedown::host {

std::unique_ptr<Work> make(const TileProductSpec& spec, HostDevice& device) {
  if (spec.dtype != DType::f32) throw Unsupported("the host backend has tile products in f32 only");
  return std::make_unique<TileProducts<SoundWorker>>(spec, device.team());
}

}  // namespace shakedown::host
