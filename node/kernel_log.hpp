// The messages of the kernel since the host started: errors of GPUs (XIDs) and NVSwitches (SXids), and faults of the
// driver, of PCIe and of NICs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "node/fact.hpp"

namespace shakedown {

/// An XID error: "NVRM: Xid (PCI:0000:1b:00): 79, ...".
struct Xid {
  std::string pci;  // "0000:1b:00.0"
  int code = 0;
  std::string file = {};  // name of the log if any user can write to it; empty for the kernel's own log
  /// The action of an XID 154, such as "Node Reboot Required".
  std::optional<std::string> action = std::nullopt;
};

/// An error of an NVSwitch: "nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 30 LTSSM Fault Up".
struct SwitchError {
  int number = 0, code = 0;
  bool is_fatal = false;
  std::string text;  // "Link 30 LTSSM Fault Up"
};

struct KernelLog {
  std::vector<Xid> xids;  // with the last XID 154 of a GPU only, unless it withdraws the action ("None")
  std::vector<SwitchError> switch_errors;
  std::vector<std::string> faults;  // for each kind of fault: its first line, and the number of its lines
};

/// Returns the contents of the log since the host started. Reads /dev/kmsg, else /var/log/{kern.log,messages,syslog},
/// whose lines from earlier starts are skipped. nullopt if no log can be read.
std::optional<KernelLog> read_kernel_log(const std::filesystem::path& root);

/// Returns facts of a host: sxids (fatal errors of NVSwitches), sxids_nonfatal, and kernel_log_faults (the number of
/// kinds of faults, with a line of each).
Facts kernel_log_facts(const std::optional<KernelLog>&);

}  // namespace shakedown
