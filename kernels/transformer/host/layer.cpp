// The forward pass of a layer on the host, in f32 or f64 and plain loops.
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/host/host_device.hpp"
#include "kernels/transformer/host/training_ops.hpp"
#include "kernels/transformer/measured_layer.hpp"

namespace shakedown::host {

namespace {

template <class T>
class LayerOps : public HostOps<T> {
 public:
  template <class X>
  using Matrix = training::Matrix<X>;
  using HostOps<T>::HostOps;

  static std::uint64_t digest(const void* from, std::size_t bytes) {
    return digest_of({static_cast<const std::byte*>(from), bytes});
  }
  static training::LayerErrors errors() {
    constexpr double u = std::numeric_limits<T>::epsilon() / 2;
    return {u, u, 1e-5};
  }

  void quantize_gelu(Matrix<const T> u, const training::QuantizedRows& to) {
    this->gelu(u, between(u.rows, u.cols));
    this->quantize(between(u.rows, u.cols), to);
  }
  void quantize_norm(Matrix<const T> x, const training::NormWeights<T>& weights, double eps,
                     const training::NormStatistics<T>& statistics, const training::QuantizedRows& to) {
    this->norm(x, weights, eps, between(x.rows, x.cols), statistics);
    this->quantize(between(x.rows, x.cols), to);
  }

 private:
  Matrix<T> between(std::size_t rows, std::size_t cols) {
    between_.resize(rows * cols);
    return {between_.data(), rows, cols, cols};
  }

  std::vector<T> between_;
};

template <class T>
std::unique_ptr<Work> make_layer(const LayerSpec& spec, HostDevice& device) {
  return std::make_unique<training::MeasuredLayer<LayerOps<T>>>(spec, std::make_unique<LayerOps<T>>(device.team()),
                                                                device);
}

}  // namespace

std::unique_ptr<Work> make(const LayerSpec& spec, HostDevice& device) {
  if (spec.dtype == DType::f64) return make_layer<double>(spec, device);
  if (spec.dtype == DType::f32 || spec.dtype == DType::fp8_e4m3) return make_layer<float>(spec, device);
  throw Unsupported("the host backend computes a layer in f32, f64 and fp8 only, not in " +
                    std::string(name(spec.dtype)));
}

}  // namespace shakedown::host
