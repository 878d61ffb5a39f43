// The kernel's reports since the host started: errors of GPUs (XIDs) and NVSwitches (SXids), and faults of the
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
  std::string file = {};  // name of a log that any user can write to; empty for the kernel's own
};

/// An error of an NVSwitch: "nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 30 LTSSM Fault Up".
struct SwitchError {
  int number = 0, code = 0;
  bool is_fatal = false;
  std::string text;  // "Link 30 LTSSM Fault Up"
};

struct KernelLog {
  std::vector<Xid> xids;
  std::vector<SwitchError> switch_errors;
  std::vector<std::string> faults;  // the first line of each kind of fault, with its number of lines
};

/// Returns what the log contains since the host started; nullopt if no log can be read (/dev/kmsg, then
/// /var/log/{kern.log,messages,syslog}, whose lines of earlier starts are left out).
std::optional<KernelLog> read_kernel_log(const std::filesystem::path& root);

/// Returns facts of a host: sxids (fatal errors of NVSwitches), sxids_nonfatal, and kernel_log_faults (kinds of faults,
/// with their lines).
Facts kernel_log_facts(const std::optional<KernelLog>&);

}  // namespace shakedown
