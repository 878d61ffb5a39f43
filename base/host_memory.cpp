#include "base/host_memory.hpp"

#include <algorithm>
#include <fstream>
#include <string>

namespace shakedown {

namespace {

namespace fs = std::filesystem;

/// Returns the number after `label` in a file of lines "label number"; nullopt without it, or if it is "max".
std::optional<double> number_after(const fs::path& file, const std::string& label) {
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    if (word != label) continue;
    double number = 0;
    return in >> number ? std::optional(number) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<double> number_in(const fs::path& file) {
  double number = 0;
  std::ifstream in(file);
  return in >> number ? std::optional(number) : std::nullopt;
}

/// Returns the bytes below the limit of a control group; nullopt without a limit.
std::optional<double> below_limit(const fs::path& group) {
  const auto most = number_in(group / "memory.max"), used = number_in(group / "memory.current");
  if (!most || !used) return std::nullopt;
  return *most - *used + number_after(group / "memory.stat", "inactive_file").value_or(0);
}

/// Returns the path of the process's control group; empty without one of version 2.
std::string own_group(const fs::path& root) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("0::/")) return line.substr(std::string_view("0::/").size());
  }
  return "";
}

}  // namespace

std::optional<double> available_memory(const fs::path& root) {
  constexpr double kib = 1024;
  auto available = number_after(root / "proc/meminfo", "MemAvailable:");
  if (!available) return std::nullopt;
  *available *= kib;
  const auto top = root / "sys/fs/cgroup";
  for (auto path = fs::path(own_group(root)).relative_path();; path = path.parent_path()) {
    if (const auto free = below_limit(top / path)) available = std::min(*available, std::max(0.0, *free));
    if (path.empty()) return available;
  }
}

}  // namespace shakedown
