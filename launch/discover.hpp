// The discovery: each host reports its identity and its GPUs once, before anything is measured and without MPI.
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
  std::optional<std::string> node;  // below, where the host is a pod (SHAKEDOWN_NODE)
  std::optional<std::string> boot_id;
  std::vector<std::string> gpus;    // UUIDs; PCI addresses or device nodes where NVML does not tell
  std::optional<std::string> mask;  // "CUDA_VISIBLE_DEVICES=0,1"
  int usable_gpus = 0;              // that the mask leaves
  std::optional<std::string> driver_hangs = std::nullopt;  // the call that does not answer: "nvmlInit_v2, 30 s"
  std::optional<std::string> mask_ignored = std::nullopt;  // what CUDA does not take of the mask, and why

  /// Returns its name in results.
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

/// This host's. On a made-up machine (SHAKEDOWN_SYSFS) GPUs are looked for on its bus alone.
HostAnswer answer_of_this_host(const Environment&);

/// One line of JSON, and back; nothing for a line that is something else. Ranks of one host answer alike.
std::string answer_line(const HostAnswer&);
std::optional<HostAnswer> answer_in(std::string_view line);

/// Each host once: a host is (boot id, name).
std::vector<HostAnswer> distinct_hosts(std::vector<HostAnswer>);

/// Returns the promised hosts that did not answer; none if as many answered under other names.
std::vector<std::string> absent_hosts(const std::vector<std::string>& promised, const std::vector<HostAnswer>&);

}  // namespace shakedown
