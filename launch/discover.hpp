// The discovery: before anything is measured, each host reports its identity and its GPUs once. The discovery does not
// need MPI.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "node/inventory.hpp"

namespace shakedown {

/// The answer of one host.
struct HostAnswer {
  std::string host;
  std::optional<std::string> node;  // the name in results, if it is another (base/host_name.hpp)
  std::optional<std::string> boot_id;
  std::vector<std::string> gpus;    // UUIDs; PCI addresses or device nodes if NVML does not report UUIDs
  std::optional<std::string> mask;  // "CUDA_VISIBLE_DEVICES=0,1"
  int usable_gpus = 0;              // number of GPUs that the mask shows
  std::optional<std::string> driver_hangs = std::nullopt;  // the call that hangs: "nvmlInit_v2, 30 s"
  std::optional<std::string> mask_ignored = std::nullopt;  // the part of the mask that CUDA ignores, and why

  /// Returns the name that the host has in results.
  const std::string& name() const { return node ? *node : host; }

  friend bool operator==(const HostAnswer&, const HostAnswer&) = default;
};
template <class Archive>
void members(Archive& archive, HostAnswer& answer) {
  archive("host", answer.host)("node", answer.node)("boot_id", answer.boot_id)("gpus", answer.gpus)("mask",
                                                                                                    answer.mask);
  archive("usable_gpus", answer.usable_gpus)("driver_hangs", answer.driver_hangs);
  archive("mask_ignored", answer.mask_ignored);
}

/// Returns the answer of this host. On a simulated machine (SHAKEDOWN_SYSFS), it reads only the simulated bus.
HostAnswer answer_of_this_host(const Environment&);

/// Returns an answer as one line of JSON. All ranks of a host return the same line.
std::string answer_line(const HostAnswer&);
std::optional<HostAnswer> answer_in(std::string_view line);

/// Returns each host once. Two answers belong to the same host if their boot ids and names are equal.
std::vector<HostAnswer> distinct_hosts(std::vector<HostAnswer>);

/// Returns the expected hosts that did not answer. Empty if the same number of hosts answered under other names.
std::vector<std::string> absent_hosts(const std::vector<std::string>& promised, const std::vector<HostAnswer>&);

}  // namespace shakedown
