#include "kernels/virtual/chip.hpp"

#include <algorithm>

#include "kernels/ops/collective.hpp"
#include "kernels/ops/jitter.hpp"
#include "kernels/ops/memory.hpp"

namespace shakedown::virtual_gpu {

namespace {

/// Fractions of the peaks that operations reach, and of the rate of products that a training step and a sustained load
/// have: those of H200 and H100 in the stored launches, rounded.
constexpr double other_units_share = 0.9, step_share = 0.68, load_share = 0.85;
constexpr double memory_share = 0.95, link_share = 0.88, link_share_of_kernels = 0.78;

constexpr double load_seconds = 8e-7, message_seconds = 5e-6, launch_seconds = 3e-6, disk_bytes_per_s = 2e9;
constexpr double quantum_seconds = 1.3e-4;

class Times {
 public:
  Times(const Chip& chip, const Key& key, const Cost& cost, int ranks)
      : chip_(chip), key_(key), cost_(cost), ranks_(ranks) {}

  std::optional<double> seconds() const {
    const std::string& family = key_.family();
    if (family == "gemm") return product();
    if (family == "hbm") return over(peak("hbm_gb_per_s", 1e9 * memory_share), cost_.bytes);
    if (family == "memtest") return over(peak("hbm_gb_per_s", 1e9 * memory_share), bytes_of_test());
    if (family == "p2p") return key_.part("op") == "latency" ? cost_.bytes / 8 * load_seconds : over(link(), one_way());
    if (family == "pcie") return over(1e9 * chip_.host_gb_per_s, one_way());
    if (family == "allreduce" || family == "collectives") return collective();
    if (family == "lora_step" || family == "train_step") return step();
    if (family == "layer") return layer();
    if (family == "decode") return over(peak("hbm_gb_per_s", 1e9 * memory_share), cost_.bytes);
    if (family == "sm")
      return cost_.flops > 0 ? product() : over(peak("hbm_gb_per_s", 1e9 * memory_share), cost_.bytes);
    if (family == "launch") return launch_seconds;
    if (family == "jitter") return quantum_seconds * JitterSpec::quanta;
    if (family == "checkpoint") return cost_.bytes / disk_bytes_per_s;
    return std::nullopt;
  }

 private:
  using Rate = std::optional<double>;

  Rate peak(const std::string& name, double factor) const {
    const auto found = chip_.peak.find(name);
    return found == chip_.peak.end() ? std::nullopt : Rate(found->second * factor);
  }

  static std::optional<double> over(Rate rate, double work) { return rate ? Rate(work / *rate) : std::nullopt; }

  std::optional<double> product() const {
    const std::string dtype(key_.part("dtype"));
    const bool plain = dtype == "f32" || dtype == "f64";
    const double load = key_.part("load") == "sustained" ? load_share : 1;
    return over(peak(dtype + "_tflops", 1e12 * load * (plain ? other_units_share : chip_.of_products)), cost_.flops);
  }

  double bytes_of_test() const {
    const auto pattern = named<TestPattern>(key_.part("pattern")).value_or(TestPattern::random);
    return 2.0 * passes(pattern) * 1e9 * chip_.memory_gb;
  }

  /// Copies in both directions use both halves of a link.
  double one_way() const { return cost_.bytes / (key_.part("dir") == "both" || key_.part("op") == "both" ? 2 : 1); }

  /// Copies between GPUs without NVLink go through the host.
  Rate link() const {
    const double part = key_.part("engine") == "sm" ? link_share_of_kernels : link_share;
    const auto nvlink = peak("nvlink_gb_per_s", 1e9 * part);
    return nvlink ? nvlink : Rate(1e9 * chip_.host_gb_per_s * part);
  }

  std::optional<double> collective() const {
    if (ranks_ == 1) return over(peak("hbm_gb_per_s", 1e9 * memory_share / 2), cost_.bytes);
    const auto op = named<CollectiveOp>(key_.part("op")).value_or(CollectiveOp::all_reduce);
    return message_seconds + cost_.bytes * bus_factor(op, ranks_) / *link();
  }

  std::optional<double> step() const {
    const std::string dtype(key_.part("dtype").empty() ? "bf16" : key_.part("dtype"));
    return over(peak(dtype + "_tflops", 1e12 * chip_.of_products * step_share), cost_.flops);
  }

  std::optional<double> layer() const {
    const std::string type = key_.part("dtype") == "fp8" ? "fp8_e4m3" : std::string(key_.part("dtype"));
    return over(peak(type + "_tflops", 1e12 * chip_.of_products * step_share), cost_.flops);
  }

  const Chip& chip_;
  const Key& key_;
  const Cost& cost_;
  int ranks_;
};

}  // namespace

std::optional<double> seconds_of(const Chip& chip, const Key& key, const Cost& cost, int ranks) {
  return Times(chip, key, cost, ranks).seconds();
}

}  // namespace shakedown::virtual_gpu
