#include "launch/discover.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <tuple>

#include "base/archive.hpp"
#include "base/files.hpp"
#include "base/host_list.hpp"
#include "base/host_name.hpp"
#include "base/process.hpp"
#include "launch/hosts.hpp"
#include "launch/visible_gpus.hpp"
#include "node/nvml.hpp"

namespace shakedown {
namespace {

/// Returns the UUIDs that NVML reports, or the name of the driver call that hangs.
Apart gpus_of_driver(const Environment& environment) {
  return run_apart([&] {
    std::string lines;
    for (const auto& gpu : Nvml(nvml_library(environment)).gpus()) {
      if (const auto uuid = gpu.uuid()) lines += *uuid + "\n";
    }
    return lines;
  });
}

/// Finds GPUs by NVML, else on the PCI bus, else by the driver's device nodes, because a container may not show the
/// bus.
void find_gpus(HostAnswer& answer, const Environment& environment) {
  const auto made_up = environment("SHAKEDOWN_SYSFS");
  const std::filesystem::path root = environment("SHAKEDOWN_ROOT").value_or("/");
  const std::filesystem::path sysfs = made_up ? std::filesystem::path(*made_up) : root / "sys";
  answer.gpus = read_pci_bus(sysfs).value_or(PciBus{}).gpus;
  if (made_up) return;
  const auto driver = gpus_of_driver(environment);
  if (!driver.text) answer.driver_hangs = driver.why_not;
  std::istringstream lines(driver.text.value_or(""));
  const std::vector<std::string> uuids(std::istream_iterator<std::string>(lines), {});
  if (!uuids.empty() && uuids.size() >= answer.gpus.size()) answer.gpus = uuids;
  if (!answer.gpus.empty()) return;
  for (const auto& name : names_in(root / "dev").value_or(std::vector<std::string>{})) {
    const bool numbered = name.rfind("nvidia", 0) == 0 && name.size() > 6 &&
                          std::all_of(name.begin() + 6, name.end(), [](unsigned char c) { return std::isdigit(c); });
    if (numbered) answer.gpus.push_back("/dev/" + name);
  }
}

}  // namespace

HostAnswer answer_of_this_host(const Environment& environment) {
  HostAnswer answer;
  answer.host = system_host_name();
  answer.node = given_host_name(environment);
  answer.boot_id = line_of("/proc/sys/kernel/random/boot_id");
  find_gpus(answer, environment);
  const auto mask = gpu_mask(environment);
  answer.usable_gpus = static_cast<int>(answer.gpus.size());
  if (mask) answer.mask = mask->text;
  if (const auto list = environment("CUDA_VISIBLE_DEVICES")) {
    const auto visible = visible_gpus(*list, answer.gpus);
    answer.usable_gpus = visible.count;
    if (!visible.ignored.empty()) answer.mask_ignored = visible.ignored;
  } else if (mask) {  // the scheduler's list has numbers of its own, which are not indices of CUDA
    answer.usable_gpus = std::min(answer.usable_gpus, static_cast<int>(mask->devices.size()));
  }
  return answer;
}

std::string answer_line(const HostAnswer& answer) { return json_text(answer, -1); }

std::optional<HostAnswer> answer_in(std::string_view line) {
  const auto begin = line.find("{\"host\":");  // some launchers print the rank at the start of the line
  if (begin == std::string_view::npos) return std::nullopt;
  const auto document = document_of_text(line.substr(begin));
  if (document.is_discarded() || !document.is_object()) return std::nullopt;
  const std::filesystem::path place("answer of a host");
  return read_as<HostAnswer>(Field(place, "", document));
}

std::vector<HostAnswer> distinct_hosts(std::vector<HostAnswer> answers) {
  const auto identity = [](const HostAnswer& answer) { return std::tie(answer.boot_id, answer.host); };
  std::stable_sort(answers.begin(), answers.end(),
                   [&](const auto& a, const auto& b) { return identity(a) < identity(b); });
  // The user's launch prefix starts one process for each rank, so a host gives the same answer several times.
  std::vector<HostAnswer> hosts;
  for (auto& answer : answers) {
    if (hosts.empty() || identity(hosts.back()) != identity(answer)) {
      hosts.push_back(std::move(answer));
    } else {
      hosts.back().usable_gpus = std::max(hosts.back().usable_gpus, answer.usable_gpus);
    }
  }
  return hosts;
}

std::vector<std::string> absent_hosts(const std::vector<std::string>& promised,
                                      const std::vector<HostAnswer>& answers) {
  if (answers.size() >= promised.size()) return {};
  std::vector<std::string> absent;
  for (const auto& host : promised) {
    const bool here = std::any_of(answers.begin(), answers.end(),
                                  [&](const HostAnswer& answer) { return same_host(answer.host, host); });
    if (!here) absent.push_back(host);
  }
  return absent;
}

}  // namespace shakedown
