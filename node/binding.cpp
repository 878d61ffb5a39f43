#include "node/binding.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/files.hpp"
#include "base/text.hpp"

namespace shakedown {

namespace {

std::set<int> parsed(const std::string& list) {
  std::set<int> cpus;
  for (const auto& part : split(list, ',')) {
    const auto dash = part.find('-');
    const int first = std::atoi(part.c_str());
    const int last = dash == std::string::npos ? first : std::atoi(part.c_str() + dash + 1);
    for (int cpu = first; cpu <= last; ++cpu) cpus.insert(cpu);
  }
  return cpus;
}

/// Returns "core 0" or "cores 0, 4-7".
std::string named(const std::set<int>& cores) {
  std::vector<std::string> parts;
  for (auto at = cores.begin(); at != cores.end();) {
    const int first = *at;
    int last = first;
    for (++at; at != cores.end() && *at == last + 1; ++at) last = *at;
    parts.push_back(std::to_string(first) + (last > first ? "-" + std::to_string(last) : ""));
  }
  return (cores.size() == 1 ? "core " : "cores ") + joined(parts);
}

}  // namespace

Cpus own_cpus(const std::filesystem::path& root) {
  Cpus cpus{field_of(root / "proc/self/status", "Cpus_allowed_list").value_or(""), 1, std::nullopt};
  const auto own = parsed(cpus.list);
  cpus.cores = std::max(1, static_cast<int>(cores_of(root, cpus.list).size()));
  const auto nodes = root / "sys/devices/system/node";
  for (const auto& name : names_in(nodes).value_or(std::vector<std::string>{})) {
    const auto list = line_of(nodes / name / "cpulist");
    if (!name.starts_with("node") || !list || own.empty()) continue;
    const auto here = parsed(*list);
    if (std::includes(here.begin(), here.end(), own.begin(), own.end())) cpus.numa = std::atoi(name.c_str() + 4);
  }
  return cpus;
}

std::set<int> cores_of(const std::filesystem::path& root, const std::string& cpu_list) {
  std::set<int> cores;
  for (const int cpu : parsed(cpu_list)) {
    const auto siblings =
        line_of(root / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "topology/thread_siblings_list");
    cores.insert(siblings ? *parsed(*siblings).begin() : cpu);
  }
  return cores;
}

Fact ranks_per_core(const std::vector<std::set<int>>& cores, std::size_t own) {
  if (cores[own].empty()) return number_fact(std::nullopt, "the cores of this rank are unknown");
  double worst = 0;
  std::string text;
  // Counts the ranks whose cores are all in this set, because they cannot run on other cores.
  for (const auto& set : cores) {
    if (!std::includes(set.begin(), set.end(), cores[own].begin(), cores[own].end())) continue;
    const auto inside = std::count_if(cores.begin(), cores.end(), [&](const std::set<int>& other) {
      return !other.empty() && std::includes(set.begin(), set.end(), other.begin(), other.end());
    });
    const double each = static_cast<double>(inside) / static_cast<double>(set.size());
    if (each <= worst) continue;
    worst = each;
    text = each > 1 ? std::to_string(inside) + " ranks share " + named(set) : "";
  }
  return number_fact(worst, text);
}

std::string own_namespaces(const std::filesystem::path& root) {
  std::vector<std::string> names;
  for (const auto* kind : {"ipc", "pid"}) {
    std::error_code error;
    names.push_back(std::filesystem::read_symlink(root / "proc/self/ns" / kind, error).string());
    if (error) return "";
  }
  return joined(names, " ");
}

Fact ranks_apart(const std::vector<std::string>& namespaces, std::size_t own) {
  if (namespaces[own].empty()) return number_fact(std::nullopt, "the namespaces of this process are unknown");
  std::vector<std::string> apart;
  for (std::size_t rank = 0; rank < namespaces.size(); ++rank) {
    if (!namespaces[rank].empty() && namespaces[rank] != namespaces[own]) apart.push_back(std::to_string(rank));
  }
  const std::string ranks = apart.size() == 1 ? "local rank " : "local ranks ";
  return number_fact(static_cast<double>(apart.size()),
                     apart.empty() ? ""
                                   : ranks + joined(apart) + (apart.size() == 1 ? " is" : " are") +
                                         " in other containers (IPC or process namespaces)");
}

}  // namespace shakedown
