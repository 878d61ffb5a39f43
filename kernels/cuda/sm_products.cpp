// Tile products of all SMs: the same numbers on each, compared with exact results of the host.
#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/sm_records.hpp"
#include "kernels/cuda/tile_product.hpp"
#include "kernels/short_floats.hpp"
#include "kernels/sm_report.hpp"

namespace shakedown::cuda {

namespace {

/// Returns a slab as shared memory holds it: bf16 by rows, with permuted vectors of 8 numbers.
std::vector<std::uint16_t> slab_image(int slab, int depth) {
  const auto shape = tile_shape(depth);
  std::vector<std::uint16_t> image;
  for (int row = 0; row < shape.rows(); ++row) {
    for (int k = 0; k < depth; ++k) {
      const int column = (k / 8 ^ row % 8) * 8 + k % 8;
      image.push_back(to_bf16(static_cast<float>(tile_element(slab, row, column))));
    }
  }
  return image;
}

std::vector<float> by_thread(const std::vector<float>& tile) {
  std::vector<float> ordered;
  for (unsigned four = 0; four < tile_words / block_threads / 4; ++four) {
    for (unsigned thread = 0; thread < block_threads; ++thread) {
      for (unsigned c = 0; c < 4; ++c) {
        const auto place = tile_place(thread, 4 * four + c);
        ordered.push_back(tile[place.row * tile_n + place.column]);
      }
    }
  }
  return ordered;
}

class TileProducts final : public Work {
 public:
  TileProducts(const TileProductSpec& spec, const Gpu& gpu, int depth, TileLaunch launch)
      : spec_(spec),
        gpu_(gpu),
        depth_(depth),
        launch_(launch),
        slabs_(TileShape::slabs * std::size_t{slab_bytes(depth)}),
        expected_(TileShape::slabs * tile_words * sizeof(float)),
        records_(gpu) {
    for (std::size_t i = 0; i < TileShape::slabs; ++i) {
      const auto image = slab_image(static_cast<int>(i), depth);
      gpu_.write(slabs_.at(i * slab_bytes(depth)), image.data(), slab_bytes(depth));
      const auto exact = by_thread(expected_tile(tile_shape(depth), static_cast<int>(i)));
      gpu_.write(expected_.at(i * tile_words * sizeof(float)), exact.data(), tile_words * sizeof(float));
    }
    reset();
  }

  void enqueue() override {
    const auto products = static_cast<unsigned>(spec_.products);
    launch_({slabs_.data<const uint4>(), expected_.data<const float>(), records_.data(), announced_, products}, depth_,
            static_cast<unsigned>(gpu_.multiprocessors()), gpu_.stream());
    announced_ += products;
  }

  void reset() override {
    announced_ = 0;
    records_.clear();
    gpu_.synchronize();
  }

  Check verify() override {
    return check_of(records_.read(), records_.sms(), announced_,
                    {"SM", "tile products", [](const SmRecord& record) {
                       const auto place = tile_place(record.word % block_threads, record.word / block_threads);
                       return fmt::format("tile {}, row {}, column {}: {:#010x}, expected {:#010x}", record.product,
                                          place.row, place.column, record.got, record.expected);
                     }});
  }

  Cost cost() const override {
    auto cost = shakedown::cost(spec_);
    cost.flops *= static_cast<double>(records_.sms());
    return cost;
  }
  std::size_t bytes() const override { return slabs_.bytes() + expected_.bytes() + records_.bytes(); }
  bool collective() const override { return false; }
  Metrics metrics() override { return metrics_of(records_.read(), records_.sms(), announced_); }

  /// Changes a record as if SM 0 had computed a wrong word.
  void corrupt() override {
    auto record = gpu_.read(records_.data());
    ++record.wrong_products, ++record.wrong_words;
    gpu_.write(records_.data(), &record, sizeof record);
  }

 private:
  const TileProductSpec spec_;
  const Gpu& gpu_;
  const int depth_;
  const TileLaunch launch_;
  const Buffer slabs_, expected_;
  const SmRecords records_;
  unsigned long long announced_ = 0;
};

int shared_bytes(const Gpu& gpu) {
  int bytes = 0;
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu.ordinal()));
  return bytes;
}

}  // namespace

std::unique_ptr<Work> make_tile_products(const TileProductSpec& spec, const Gpu& gpu, TileLaunch launch) {
  if (spec.dtype != DType::bf16 || gpu.major() < 8)
    throw Unsupported("tile products of SMs are in bf16, from compute capability 8.0");
  if (spec.m != tile_m || spec.n != tile_n || spec.k != 8192) throw std::invalid_argument("a tile is 128 x 256 x 8192");
  const auto available = static_cast<unsigned>(shared_bytes(gpu));
  if (available < slab_bytes(shallow_slab_columns)) {
    throw Unsupported(fmt::format("needs {} bytes of shared memory on each SM, {} available",
                                  slab_bytes(shallow_slab_columns), available));
  }
  return std::make_unique<TileProducts>(
      spec, gpu, available >= slab_bytes(deep_slab_columns) ? deep_slab_columns : shallow_slab_columns, launch);
}

std::unique_ptr<Work> make(const TileProductSpec& spec, CudaDevice& device) {
  return make_tile_products(spec, device.gpu(), launch_sound_tiles);
}

}  // namespace shakedown::cuda
