#include "kernels/host/host_device.hpp"

#include <unistd.h>

#include <fmt/format.h>

#include <chrono>
#include <fstream>

#include "kernels/backends.hpp"
#include "kernels/host_memory.hpp"

namespace shakedown::host {

namespace {

/// Returns the value after `label` in a file of "label : value" lines, or an empty string.
std::string field(const char* file, std::string_view label) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(':');
    if (line.compare(0, label.size(), label) != 0 || colon == std::string::npos) continue;
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::string cpu_model() {
  for (const auto* label : {"model name", "Model", "cpu model"}) {
    if (auto model = field("/proc/cpuinfo", label); !model.empty()) return model;
  }
  return "CPU";
}

}  // namespace

void HostDevice::require_memory(std::size_t bytes) const { require_host_memory(bytes, local_size_); }

HostDevice::HostDevice(const Placement& placement) : local_size_(placement.local_size), team_(placement.threads) {
  info_.name = cpu_model();
  info_.memory_bytes =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
}

double HostDevice::seconds(Work& work, int repeats) {
  const auto begin = std::chrono::steady_clock::now();
  work.enqueue_batch(repeats);  // host operations are complete when enqueue returns
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::unique_ptr<Work> HostDevice::prepare(const Spec& spec) {
  if (!spec.host_maker) return Device::prepare(spec);
  require_memory(spec.bytes());
  return spec.host_maker(*this);
}

Availability probe() { return {1, ""}; }

std::unique_ptr<Device> open_device(const Placement& placement) { return std::make_unique<HostDevice>(placement); }

}  // namespace shakedown::host
