#include "node/host_facts.hpp"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "base/files.hpp"
#include "base/host_memory.hpp"
#include "base/parse_number.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"

namespace shakedown {

namespace {

using Path = std::filesystem::path;

/// True for "cpu12", but not for "cpufreq".
bool is_numbered(const std::string& name, std::string_view stem) {
  return name.size() > stem.size() && name.compare(0, stem.size(), stem) == 0 &&
         name.find_first_not_of("0123456789", stem.size()) == std::string::npos;
}

/// Returns GB of 1e9 bytes.
std::optional<double> memory_in_gb(std::optional<double> bytes) {
  return bytes ? std::optional(*bytes / 1e9) : std::nullopt;
}

/// Counts the processors (sockets) and cores that are online. A core is identified by its package and its number,
/// because each package counts from 0.
void count_cores(const Path& root, Facts& facts) {
  const auto cpus = root / "sys/devices/system/cpu";
  std::set<std::string> packages, cores;
  for (const auto& name : names_in(cpus).value_or(std::vector<std::string>{})) {
    if (!is_numbered(name, "cpu")) continue;
    const auto package = line_of(cpus / name / "topology/physical_package_id");
    const auto core = line_of(cpus / name / "topology/core_id");
    if (!package || !core) continue;
    packages.insert(*package);
    cores.insert(*package + " " + *core);
  }
  if (cores.empty()) return;
  facts["sockets"] = number_fact(static_cast<double>(packages.size()));
  facts["cores"] = number_fact(static_cast<double>(cores.size()));
}

/// Returns the distinct governors of all cores.
std::optional<std::string> governor(const Path& root) {
  const auto cpus = root / "sys/devices/system/cpu";
  std::set<std::string> governors;
  for (const auto& name : names_in(cpus).value_or(std::vector<std::string>{})) {
    if (!is_numbered(name, "cpu")) continue;
    if (const auto found = line_of(cpus / name / "cpufreq/scaling_governor")) governors.insert(*found);
  }
  if (governors.empty()) return std::nullopt;
  return joined(governors);
}

/// Returns the word in brackets, as in "always [madvise] never".
std::optional<std::string> chosen(const std::optional<std::string>& line) {
  if (!line) return std::nullopt;
  const auto open = line->find('['), close = line->find(']');
  return open == std::string::npos || close == std::string::npos
             ? std::nullopt
             : std::optional(line->substr(open + 1, close - open - 1));
}

std::optional<double> hugepages_gb(const Path& root) {
  const auto folder = root / "sys/kernel/mm/hugepages";
  const auto sizes = names_in(folder);
  if (!sizes) return std::nullopt;
  double bytes = 0;
  for (const auto& name : *sizes) {  // hugepages-2048kB
    const auto count = number_of(folder / name / "nr_hugepages");
    if (!count || name.rfind("hugepages-", 0) != 0) continue;
    bytes += *count * leading_number<double>(name.substr(10)).value_or(0) * 1024;
  }
  return bytes / 1e9;
}

/// Returns the sum of an error counter over all memory controllers. The text names the controllers whose counter is not
/// 0.
Fact edac_errors(const Path& root, const char* counter) {
  const auto folder = root / "sys/devices/system/edac/mc";
  std::optional<double> sum;
  std::vector<std::string> words;
  for (const auto& name : names_in(folder).value_or(std::vector<std::string>{})) {
    const auto count = is_numbered(name, "mc") ? number_of(folder / name / counter) : std::nullopt;
    if (!count) continue;
    sum = sum.value_or(0) + *count;
    if (*count > 0) words.push_back(fmt::format("{}: {:.0f}", name, *count));
  }
  return number_fact(sum, joined(words));
}

struct Dimm {
  std::string name;  // name of the socket, such as "P1_DIMM_A1"
  int mt_per_s = 0;
};

/// Reads the firmware's description of a memory module (SMBIOS specification, 7.18, type 17); nullopt if its socket is
/// empty.
std::optional<Dimm> read_dimm(const std::string& table) {
  constexpr std::size_t length = 1, size = 0x0c, locator = 0x10, speed = 0x15, configured = 0x20;
  const auto byte = [&](std::size_t at) { return at < table.size() ? static_cast<unsigned char>(table[at]) : 0; };
  const auto word = [&](std::size_t at) {
    return static_cast<int>(at) + 2 <= byte(length) ? byte(at) | byte(at + 1) << 8 : 0;
  };
  const int rate = word(configured) > 0 ? word(configured) : word(speed);
  if (word(size) == 0 || rate == 0 || rate == 0xffff) return std::nullopt;
  auto at = static_cast<std::size_t>(byte(length));
  for (int string = 1; string < byte(locator) && at < table.size(); ++string)
    at = std::min(table.find('\0', at), table.size()) + 1;
  return Dimm{at < table.size() ? one_line(table.c_str() + at) : "", rate};
}

void add_dimms(const Path& root, Facts& facts) {
  std::map<int, std::vector<std::string>> by_rate;
  const auto folder = root / "sys/firmware/dmi/entries";
  for (const auto& name : names_in(folder).value_or(std::vector<std::string>{})) {
    if (!name.starts_with("17-")) continue;
    const auto dimm = read_dimm(content_of(folder / name / "raw").value_or(""));
    if (dimm) by_rate[dimm->mt_per_s].push_back(dimm->name);
  }
  facts["dram_mt_per_s"] = facts["dimms_slow"] = {};
  if (by_rate.empty()) return;
  const auto usual = std::max_element(by_rate.begin(), by_rate.end(),
                                      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::vector<std::string> rates, slow;
  for (const auto& [rate, names] : by_rate) {
    rates.push_back(fmt::format("{} at {}", plural(names.size(), "DIMM"), rate));
    for (const auto& name : names) {
      if (rate < usual->first) slow.push_back(fmt::format("{} at {} MT/s, others {}", name, rate, usual->first));
    }
  }
  facts["dram_mt_per_s"] = number_fact(by_rate.begin()->first, joined(rates));
  facts["dimms_slow"] = number_fact(static_cast<double>(slow.size()), joined(slow, "; "));
}

struct Space {
  double total_gb, free_gb;
};
std::optional<Space> space_of(const Path& folder) {
  struct statvfs status {};
  if (statvfs(folder.c_str(), &status) != 0) return std::nullopt;
  const auto block = static_cast<double>(status.f_frsize);
  return Space{static_cast<double>(status.f_blocks) * block / 1e9, static_cast<double>(status.f_bavail) * block / 1e9};
}

/// Returns the soft limit from a line of /proc/self/limits: "Max locked memory 65536 65536 bytes".
std::optional<std::string> soft_limit(const Path& root, const std::string& name) {
  for (const auto& line : lines_of(root / "proc/self/limits").value_or(std::vector<std::string>{})) {
    if (line.compare(0, name.size(), name) != 0) continue;
    std::istringstream words(line.substr(name.size()));
    std::string limit, hard, unit;
    if (!(words >> limit)) return std::nullopt;
    words >> hard >> unit;
    return limit == "unlimited" || unit != "bytes" ? limit : limit + " bytes";
  }
  return std::nullopt;
}

/// Returns the mount that contains `folder`, such as "nfs4 server:/home on /home". The result is the mount with the
/// longest path; if several mounts have this path, the last one, which hides the others.
std::optional<std::string> mount_of(const Path& root, const std::string& folder) {
  std::optional<std::string> found;
  std::size_t longest = 0;
  for (const auto& line : lines_of(root / "proc/self/mounts").value_or(std::vector<std::string>{})) {
    std::istringstream words(line);
    std::string device, point, kind;
    if (!(words >> device >> point >> kind)) continue;
    const bool inside = point == "/" || folder == point || folder.compare(0, point.size() + 1, point + "/") == 0;
    if (!inside || point.size() < longest) continue;
    longest = point.size();
    found = kind + " " + device + " on " + point;
  }
  return found;
}

std::optional<std::string> unquoted(std::optional<std::string> text) {
  if (text && text->size() >= 2 && text->front() == '"' && text->back() == '"')
    return text->substr(1, text->size() - 2);
  return text;
}

}  // namespace

Facts cpu_facts(const Path& root) {
  Facts facts{{"sockets", {}}, {"cores", {}}};
  auto model = field_of(root / "proc/cpuinfo", "model name");
  if (!model) model = field_of(root / "proc/cpuinfo", "Model");
  facts["cpu"] = text_fact(model);
  count_cores(root, facts);
  facts["smt"] = number_fact(number_of(root / "sys/devices/system/cpu/smt/active"));
  facts["governor"] = text_fact(governor(root));
  return facts;
}

std::optional<double> free_memory_gb(const Path& root) { return memory_in_gb(free_host_memory(root)); }

Facts memory_facts(const Path& root) {
  Facts facts;
  facts["memory_gb"] = number_fact(memory_in_gb(total_host_memory(root)));
  facts["memory_free_gb"] = number_fact(free_memory_gb(root));
  facts["numa_nodes"] = {};
  if (const auto names = names_in(root / "sys/devices/system/node")) {
    const auto all =
        std::count_if(names->begin(), names->end(), [](const auto& name) { return is_numbered(name, "node"); });
    facts["numa_nodes"] = number_fact(static_cast<double>(all) - static_cast<double>(gpu_memory_nodes(root).size()));
  }
  facts["hugepages_gb"] = number_fact(hugepages_gb(root));
  facts["transparent_hugepages"] = text_fact(chosen(line_of(root / "sys/kernel/mm/transparent_hugepage/enabled")));
  return facts;
}

Facts dram_facts(const Path& root) {
  Facts facts{{"edac_uncorrected", edac_errors(root, "ue_count")}, {"edac_corrected", edac_errors(root, "ce_count")}};
  add_dimms(root, facts);
  return facts;
}

Facts limit_facts(const Path& root) {
  Facts facts;
  facts["memlock"] = text_fact(soft_limit(root, "Max locked memory"));
  facts["open_files"] = text_fact(soft_limit(root, "Max open files"));
  const auto shm = space_of(root / "dev/shm");
  facts["shm_gb"] = number_fact(shm ? std::optional(shm->total_gb) : std::nullopt);
  facts["shm_free_gb"] = number_fact(shm ? std::optional(shm->free_gb) : std::nullopt);
  return facts;
}

Facts disk_facts(const Path& root, const Path& folder) {
  Facts facts;
  const auto space = space_of(root / folder.relative_path());
  facts["disk_free_gb"] = number_fact(space ? std::optional(space->free_gb) : std::nullopt);
  facts["mount"] = text_fact(mount_of(root, folder));
  return facts;
}

namespace {

/// Returns the processes in state D, which wait in the kernel and cannot be killed.
std::set<std::string> waiting_in_kernel(const Path& proc) {
  std::set<std::string> waiting;
  for (const auto& name : names_in(proc).value_or(std::vector<std::string>{})) {
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto line = line_of(proc / name / "stat").value_or("");
    const auto name_end = line.rfind(')');
    if (name_end != std::string::npos && line.substr(name_end, 3) == ") D") waiting.insert(name);
  }
  return waiting;
}

/// Returns the processes that are in state D in several consecutive samples. One sample is not enough, because a normal
/// disk access blocks a process for a few ms.
Fact tasks_in_d_state(const Path& proc) {
  constexpr int looks = 4;
  auto waiting = waiting_in_kernel(proc);
  for (int i = 1; i < looks && !waiting.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    const auto now = waiting_in_kernel(proc);
    std::erase_if(waiting, [&](const std::string& process) { return !now.contains(process); });
  }
  std::string names;
  for (const auto& process : waiting) {
    names += (names.empty() ? "" : ", ") + line_of(proc / process / "comm").value_or("?") + " (" + process + ")";
  }
  return number_fact(static_cast<double>(waiting.size()), names);
}

}  // namespace

Facts system_facts(const Path& root) {
  Facts facts;
  constexpr double day_s = 86400;
  const auto up = number_of(root / "proc/uptime");
  facts["uptime_days"] = number_fact(up ? std::optional(*up / day_s) : std::nullopt);
  if (is_visible(root / "proc/uptime")) facts["tasks_in_d_state"] = tasks_in_d_state(root / "proc");
  facts["kernel"] = text_fact(line_of(root / "proc/sys/kernel/osrelease"));
  facts["os"] = text_fact(unquoted(field_of(root / "etc/os-release", "PRETTY_NAME", '=')));
  facts["clocksource"] = text_fact(line_of(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"));
  facts["vendor"] = text_fact(line_of(root / "sys/class/dmi/id/sys_vendor"));
  facts["product"] = text_fact(line_of(root / "sys/class/dmi/id/product_name"));
  return facts;
}

}  // namespace shakedown
