#include "base/process.hpp"

#include <sstream>

#include "base/files.hpp"

namespace shakedown {

std::optional<ProcessStat> stat_of(int pid) {
  // "pid (name, which may hold anything) state parent ...", of which the start is the 22nd.
  const auto line = line_of("/proc/" + std::to_string(pid) + "/stat").value_or("");
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  ProcessStat stat;
  fields >> stat.state >> stat.parent;
  constexpr int from_parent_to_start = 22 - 4;
  for (int i = 0; i < from_parent_to_start; ++i) fields >> stat.started;
  return fields ? std::optional(stat) : std::nullopt;
}

}  // namespace shakedown
