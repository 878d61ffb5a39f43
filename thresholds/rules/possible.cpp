#include "thresholds/rules/possible.hpp"

#include <algorithm>
#include <array>

namespace shakedown {
namespace {

// GB/s of one PCIe lane in one direction, by generation, after its encoding (PCI-SIG).
constexpr std::array<double, 7> lane_gb_per_s{0, 0.25, 0.5, 0.985, 1.969, 3.938, 7.563};

// Returns the possible range of a figure. For a figure that is not in the catalogue, a name that ends in a unit means
// that it was timed or counted, so it must be above zero.
ValueRange range_of(const Key& key, const std::string& metric, const Metric* known) {
  if (key.family() == "preflight") return ValueRange::not_negative;
  if (known != nullptr) return known->range;
  return unit_of(metric).empty() ? ValueRange::any : ValueRange::positive;
}

// True for a GPU with a Grace CPU, which reaches it by NVLink-C2C in addition to a PCIe link.
bool is_grace(const RankFacts& rank) {
  return rank.device.rfind("NVIDIA GH", 0) == 0 || rank.device.rfind("NVIDIA GB", 0) == 0;
}

}  // namespace

Possible possible_values(const Key& key, const std::string& metric, const Metric* known, const MeasuredDevice& device) {
  Possible values;
  values.range = range_of(key, metric, known);
  if (metric == "latency_us" && device.backend == Backend::cuda) values.least = min_latency_us;
  if (key.family() == "preflight" || known == nullptr || known->ceiling == nullptr) return values;
  Scale scale = device.scale;
  scale.memory_gb = static_cast<double>(device.facts.memory_bytes.value_or(0)) * 1e-9;
  scale.power_limit_w = device.facts.power_limit_w.value_or(0);
  scale.sm_mhz_max = device.facts.sm_mhz_max.value_or(0);
  static const Peaks none;
  values.ceiling = ceiling(device.profile == nullptr ? none : device.profile->peak, key, known->name, scale);
  return values;
}

std::optional<double> pcie_gb_per_s(const Benchmarks& benchmarks) {
  const auto gpu = benchmarks.find("preflight/of:gpu");
  if (gpu == benchmarks.end() ||
      std::any_of(gpu->second.context->ranks.begin(), gpu->second.context->ranks.end(), is_grace))
    return std::nullopt;
  const auto gen = largest_value(gpu->second, "pcie_gen_max"), width = largest_value(gpu->second, "pcie_width_max");
  if (!gen || !width || !(*gen >= 1 && *gen < lane_gb_per_s.size())) return std::nullopt;
  return lane_gb_per_s[static_cast<std::size_t>(*gen)] * *width;
}

}  // namespace shakedown
