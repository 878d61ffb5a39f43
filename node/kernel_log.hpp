// XID errors that the driver has written to the kernel log. Readable only if the system permits it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shakedown {

/// An XID error: "NVRM: Xid (PCI:0000:1b:00): 79, ...".
struct Xid {
  std::string pci;  // "0000:1b:00.0"
  int code = 0;
  std::string file = {};  // name of a log that any user can write to; empty for the kernel's own
};

/// Returns the errors since the log began; nullopt if no log can be read (/dev/kmsg, then
/// /var/log/{kern.log,messages,syslog}).
std::optional<std::vector<Xid>> read_xids(const std::filesystem::path& root);

}  // namespace shakedown
