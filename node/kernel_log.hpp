// What the driver has said about GPUs in the kernel's log: XID errors. Readable where the system lets users read it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shakedown {

/// "NVRM: Xid (PCI:0000:1b:00): 79, ...".
struct Xid {
  std::string pci;  // "0000:1b:00.0"
  int code = 0;
  std::string file = {};  // of a log that any user can write; empty for the kernel's own
};

/// Errors since the log began; nothing where no log can be read (/dev/kmsg, then /var/log/{kern.log,messages,syslog}).
std::optional<std::vector<Xid>> read_xids(const std::filesystem::path& root);

}  // namespace shakedown
