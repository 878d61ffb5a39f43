// Decides what a metric means (unit, direction) and which value is physically impossible: the closed table of ceilings.
// A floor above its ceiling is a mistake in a profile, a measurement above it is a mistake in the measurement (data
// that stayed in a cache, a missing synchronisation, bytes counted twice). Tested by tests/thresholds_test.cpp.
#include "thresholds/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace shakedown {
namespace {

std::optional<double> peak(const Profile& profile, const std::string& name) {
  const auto found = profile.peak.find(name);
  return found == profile.peak.end() ? std::nullopt : std::optional(found->second);
}

std::optional<double> times(std::optional<double> value, double factor) {
  return value ? std::optional(*value * factor) : std::nullopt;
}

// Of 16 flits on an NVLink at most 15 carry data.
constexpr double nvlink_payload = 15.0 / 16;

// The fastest way from any host to a GPU: NVLink-C2C of Grace, 450 GB/s each way. What a PCIe link carries is less, and
// is judged where the run says which link it has (thresholds/validity.cpp).
constexpr double host_link_gb_per_s = 450;

// What all network ports of a host carry each way. They are sold in gigabit.
std::optional<double> fabric_gb_per_s(const Profile& profile) {
  const auto nics = peak(profile, "nics");
  return nics ? times(peak(profile, "nic_gbit"), *nics / 8) : std::nullopt;
}

// Bus bandwidth. Inside one NVLink domain each GPU must move at least 2(n-1)/n of the data over its links when the
// switch adds nothing, and half of that when it adds (NVLS), so the ring formula may show up to 2(n-1)/n of the link.
// Over m hosts, with B the network of one host: a hierarchical AllReduce moves (m-1)/m of the data, twice, over B.
std::optional<double> allreduce_busbw_ceiling(const Profile& profile, int n, int m, bool nvls) {
  if (n < 2) return std::nullopt;
  const double share = static_cast<double>(n - 1) / n;
  if (m == 1) return times(peak(profile, "nvlink_gb_per_s"), nvls ? 2 * share : nvlink_payload);
  return times(fabric_gb_per_s(profile), share * m / (m - 1));
}

// The bus bandwidth of the other collectives is what some GPU must send or receive over its links. algbw is busbw over
// (n-1)/n or over 1.
std::optional<double> collective_ceiling(const Profile& profile, std::string_view metric, int n, int m, bool nvls) {
  if (n < 2 || m > 1) return std::nullopt;
  const double factor = metric == "algbw_gb_per_s" ? static_cast<double>(n) / (n - 1) : 1;
  return times(peak(profile, "nvlink_gb_per_s"), factor * (nvls ? 1 : nvlink_payload));
}

std::optional<double> p2p_ceiling(const Profile& profile, std::string_view key) {
  const bool both_ways = key_part(key, "dir") == "both";
  return times(peak(profile, "nvlink_gb_per_s"), both_ways ? 2 : 1);
}

}  // namespace

std::optional<double> ceiling(const Profile& profile, std::string_view key, std::string_view metric,
                              const Context& context) {
  const auto nvls = context.nccl.find("nvls");
  const auto bound = ceiling(profile, key, metric, context.world_size, context.hosts,
                             nvls == context.nccl.end() || nvls->second != "off");
  // Data sheets state tensor cores at a lower clock than the highest.
  const auto rated = peak(profile, "tensor_mhz");
  const std::string_view dtype = key_part(key, "dtype");
  if (!bound || !rated || family_of(key) != "gemm" || dtype == "f32" || dtype == "f64") return bound;
  // The first rank speaks for all: they are of one kind, and each of 10,000 values of a row asks here.
  const double highest = context.ranks.empty() ? 0 : context.ranks.front().sm_mhz_max.value_or(0);
  return *bound * std::max(1.0, highest / *rated);
}

std::optional<double> ceiling(const Profile& profile, std::string_view key, std::string_view metric, int ranks,
                              int hosts, bool nvls) {
  const std::string family = family_of(key);
  if (family == "gemm" && metric == "tflops") {
    return peak(profile, std::string(key_part(key, "dtype")) + "_tflops");
  }
  if ((family == "hbm" || family == "memtest") && metric == "hbm_gb_per_s") return peak(profile, "hbm_gb_per_s");
  if (family == "hbm" && metric == "copy_gb_per_s")
    return times(peak(profile, "hbm_gb_per_s"), 0.5);  // read and written
  if (family == "p2p" && metric == "copy_gb_per_s") return p2p_ceiling(profile, key);
  if (family == "lora_step" && metric == "model_tflops") {
    const std::string_view dtype = key_part(key, "dtype");
    return peak(profile, std::string(dtype.empty() ? "bf16" : dtype) + "_tflops");
  }
  if (family == "lora_step" && metric == "mfu") return 1;
  if (family == "lora_step" && metric == "tokens_per_s" && key_part(key, "model") == "qwen2_7b") {
    return times(peak(profile, "bf16_tflops"), 1e12 / qwen2_7b_flops_per_token);
  }
  if (family == "pcie" && metric == "copy_gb_per_s")
    return (key_part(key, "op") == "both" ? 2 : 1) * host_link_gb_per_s;
  if (family == "allreduce" && metric == "busbw_gb_per_s") return allreduce_busbw_ceiling(profile, ranks, hosts, nvls);
  if (family == "allreduce" && metric == "algbw_gb_per_s" && ranks > 1) {
    return times(allreduce_busbw_ceiling(profile, ranks, hosts, nvls), ranks / (2.0 * (ranks - 1)));
  }
  if (family == "collectives" && (metric == "busbw_gb_per_s" || metric == "algbw_gb_per_s")) {
    return collective_ceiling(profile, metric, ranks, hosts, nvls);
  }
  return std::nullopt;
}

bool is_collective(std::string_view family) { return family == "allreduce" || family == "collectives"; }

bool is_shared(std::string_view key, std::string_view metric) {
  const std::string family = family_of(key);
  return is_collective(family) ||
         (family == "lora_step" && (metric == "tokens_per_s" || metric == "step_ms" || metric == "mfu"));
}

bool lower_is_better(std::string_view metric) {
  return metric.ends_with("_us") || metric.ends_with("_ms") || metric == "seconds" || metric == "cv" ||
         metric == "throttled" || metric == "temperature_c";
}

std::string number_text(double value) {
  return std::abs(value) >= 1e5 && std::abs(value) < 1e18 ? fmt::format("{:.0f}", value) : fmt::format("{:.5g}", value);
}

std::string unit_of(std::string_view metric) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 14> units{{{"tflops", "TFLOPS"},
                                                                                 {"tflops_per_ghz", "TFLOPS/GHz"},
                                                                                 {"tflops_per_w", "TFLOPS/W"},
                                                                                 {"_gb_per_s", "GB/s"},
                                                                                 {"_gb", "GB"},
                                                                                 {"_us", "us"},
                                                                                 {"_ms", "ms"},
                                                                                 {"power_w", "W"},
                                                                                 {"power_limit_w", "W"},
                                                                                 {"_c", "C"},
                                                                                 {"_mhz", "MHz"},
                                                                                 {"_gbit", "Gb/s"},
                                                                                 {"tokens_per_s", "tokens/s"},
                                                                                 {"tokens_per_s_total", "tokens/s"}}};
  for (const auto& [end, unit] : units) {
    if (metric.ends_with(end)) return std::string(unit);
  }
  return "";
}

}  // namespace shakedown
