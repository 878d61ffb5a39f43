// A process as the kernel shows it.
#pragma once

#include <optional>
#include <string>

namespace shakedown {

struct ProcessStat {
  char state = '?';
  int parent = 0;
  std::string started;  // ticks since the boot (sysconf(_SC_CLK_TCK) a second): tells it from a later one of its number
};

/// Of /proc/PID/stat (proc(5)); nothing where there is no such process, or it cannot be seen.
std::optional<ProcessStat> stat_of(int pid);

}  // namespace shakedown
