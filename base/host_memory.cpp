#include "base/host_memory.hpp"

#include <algorithm>
#include <fstream>
#include <string_view>

#include "base/files.hpp"
#include "base/parse_number.hpp"

namespace shakedown {

namespace {

namespace fs = std::filesystem;

/// The files of a control group that limit memory, and where their folders are.
struct GroupFiles {
  const char* top;
  const char* most;
  const char* used;
  std::string_view cached;  // a field of memory.stat
};
constexpr GroupFiles version_1{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file"};
constexpr GroupFiles version_2{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};

/// Returns the number after `label` in a file of lines "label number"; nullopt without it.
std::optional<double> number_after(const fs::path& file, std::string_view label) {
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    if (word != label) continue;
    double number = 0;
    return in >> number ? std::optional(number) : std::nullopt;
  }
  return std::nullopt;
}

/// Returns a value of a meminfo file in bytes; the file has units of 1024 bytes.
std::optional<double> meminfo(const fs::path& file, const std::string& name) {
  const auto text = field_of(file, name);
  const auto kib = text ? leading_number<double>(*text) : std::nullopt;
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

/// Returns a value of /proc/meminfo without the memory of GPUs; `of_node` is the name of the same value in the meminfo
/// of a node.
std::optional<double> of_host(const fs::path& root, const std::string& name, const std::string& of_node) {
  auto total = meminfo(root / "proc/meminfo", name);
  for (const auto& node : gpu_memory_nodes(root)) {
    const auto field = "Node " + node.substr(4) + " " + of_node;
    const auto of_gpu = meminfo(root / "sys/devices/system/node" / node / "meminfo", field);
    if (total && of_gpu) *total -= *of_gpu;
  }
  return total;
}

/// Returns the least number of bytes below the limits of a control group and those above it; nullopt without a limit.
std::optional<double> below_limits(const fs::path& root, const GroupFiles& files, const std::string& group) {
  std::optional<double> least;
  for (auto path = fs::path(group).relative_path();; path = path.parent_path()) {
    const auto folder = root / files.top / path;
    const auto most = number_of(folder / files.most), used = number_of(folder / files.used);
    if (most && used) {
      const auto left = *most - *used + number_after(folder / "memory.stat", files.cached).value_or(0);
      least = std::min(least.value_or(left), left);
    }
    if (path.empty()) return least;
  }
}

/// Lowers `bytes` to the limits of the process's control groups.
double limited(const fs::path& root, double bytes) {
  const auto apply = [&](const GroupFiles& files, const std::string& group) {
    if (const auto left = below_limits(root, files, group)) bytes = std::min(bytes, std::max(0.0, *left));
  };
  apply(version_2, "");
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "0::/jobs/one" in version 2, "5:memory:/jobs/one" in version 1
    const auto controllers = line.find(':'), path = line.find(":/", controllers);
    if (path == std::string::npos) continue;
    const auto names = "," + line.substr(controllers + 1, path - controllers - 1) + ",";
    if (line.starts_with("0::")) apply(version_2, line.substr(path + 2));
    if (names.find(",memory,") != std::string::npos) apply(version_1, line.substr(path + 2));
  }
  return bytes;
}

}  // namespace

std::vector<std::string> gpu_memory_nodes(const fs::path& root) {
  std::vector<std::string> found;
  // JEP106 code 036b: NVIDIA.
  if (!line_of(root / "sys/devices/soc0/soc_id").value_or("").starts_with("jep106:036b:")) return found;
  const auto nodes = root / "sys/devices/system/node";
  for (const auto& name : names_in(nodes).value_or(std::vector<std::string>{})) {
    const bool is_node = name.starts_with("node") && whole_number<unsigned>(name.substr(4));
    if (is_node && !line_of(nodes / name / "cpulist")) found.push_back(name);
  }
  return found;
}

std::optional<double> total_host_memory(const fs::path& root) { return of_host(root, "MemTotal", "MemTotal"); }

std::optional<double> free_host_memory(const fs::path& root) { return of_host(root, "MemAvailable", "MemFree"); }

std::optional<double> available_memory(const fs::path& root) {
  const auto free = free_host_memory(root);
  return free ? std::optional(limited(root, std::max(0.0, *free))) : std::nullopt;
}

}  // namespace shakedown
