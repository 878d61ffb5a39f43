// Events: errors that drivers, kernels and ports report, what they mean and which action helps. The build checks
// thresholds/events/events.yaml and makes the table from it. The functions are pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shakedown {

/// The immediate action that NVIDIA recommends after an XID.
struct XidAction {
  std::string_view name, means;  // "RESTART_BM", "turn the node's power off and on; ..."
  bool condemns = false;         // true: the GPU must get no work before this action
  bool ignore = false;           // true: the XID is not a fault
};

/// An XID. An XID is the number under which the driver reports an error.
struct XidRow {
  int number;
  std::string_view means, action;  // "the GPU has fallen off the bus", "RESTART_BM"
  bool of_program = false;         // true: a program is the usual cause
};

/// A line of a log that means a fault: it contains `driver` and, after it, `contains`. In the log of a BMC, `driver` is
/// a kind of sensor.
struct LogShape {
  std::string_view driver, contains, means;
};

/// A limit of an error counter of a port. If a counter has several rows, the first row whose limit is exceeded decides.
struct PortLimit {
  std::string_view counter, words;
  double per_hour;  // 0: a single error exceeds the limit
  bool fails;       // true: exceeding it is a failure; false: a warning
  std::string_view source;
};

/// A version of a driver or library with a known fault.
struct FaultyVersion {
  std::string_view component, version, means, source;  // "driver", "570.133.20"
};

std::span<const XidRow> xids();
std::span<const LogShape> log_shapes();  // of the kernel's log
std::span<const LogShape> bmc_shapes();  // of a BMC's event log
std::span<const PortLimit> port_limits();

/// True if NVIDIA says that the GPU must be reset, restarted or examined before it gets work again. False for XIDs that
/// another XID follows, that end with the program, or that are not in the catalogue.
bool condemns(int xid);

/// True for XIDs that a program causes, or that NVIDIA says to ignore. False for XIDs that are not in the catalogue.
bool is_harmless(int xid);

/// Returns the known faults of this version of "driver" or "nccl".
std::vector<FaultyVersion> faults_of(std::string_view component, std::string_view version);

/// Returns "turn the node's power off and on; ..."; empty for an unknown action.
std::string_view action_in_words(std::string_view action);

/// Returns "the GPU has fallen off the bus; NVIDIA: restart the node, ... (RESTART_BM)" for the counter "xid_79"
/// (base/gpu_health.hpp). Empty if the counter is not an XID, or the XID is unknown.
std::string advice_on(const std::string& counter);

}  // namespace shakedown
