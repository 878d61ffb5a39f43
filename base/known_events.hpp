// Events: errors that drivers, kernels and ports report, what each means and what helps. The table is
// thresholds/events/events.yaml, as the build has checked it. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shakedown {

/// What NVIDIA says to do at once after an XID.
struct XidAction {
  std::string_view name, means;  // "RESTART_BM", "restart the node, power included; ..."
  bool condemns = false;         // the GPU gets no work before that is done
  bool ignore = false;           // no fault by itself
};

/// An XID, the number by which the driver reports an error.
struct XidRow {
  int number;
  std::string_view means, action;  // "the GPU has fallen off the bus", "RESTART_BM"
  bool of_program = false;         // a program is the usual cause
};

/// A line of the kernel's log that means a fault: `contains` occurs after `driver`.
struct LogShape {
  std::string_view driver, contains, means;
};

/// A limit of an error counter of a port; of several rows of a counter, the first that is exceeded holds.
struct PortLimit {
  std::string_view counter, words;
  double per_hour;  // 0: none at all
  bool fails;       // else it is a warning
  std::string_view source;
};

/// A version of a driver or library with a known fault.
struct FaultyVersion {
  std::string_view component, version, means, source;  // "driver", "570.133.20"
};

std::span<const XidRow> xids();
std::span<const LogShape> log_shapes();
std::span<const PortLimit> port_limits();

/// True if NVIDIA says to reset or restart the GPU, or to have it examined, before it gets work again. False for XIDs
/// that are followed by another one, end with the program, or are not in the catalogue.
bool condemns(int xid);

/// True for XIDs that a program causes, or that NVIDIA says to ignore. False for those that are not in the catalogue.
bool is_harmless(int xid);

/// Returns the known faults of this version of "driver" or "nccl".
std::vector<FaultyVersion> faults_of(std::string_view component, std::string_view version);

/// Returns "restart the node, power included; ..."; empty for an unknown action.
std::string_view action_in_words(std::string_view action);

/// Returns "the GPU has fallen off the bus; NVIDIA: restart the node, ... (RESTART_BM)" for the counter "xid_79"
/// (base/gpu_health.hpp). Empty if it is not an XID, or an unknown one.
std::string advice_on(const std::string& counter);

}  // namespace shakedown
