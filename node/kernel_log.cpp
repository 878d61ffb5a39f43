#include "node/kernel_log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <regex>
#include <sstream>
#include <string_view>

#include "base/known_events.hpp"
#include "base/parse_number.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"

namespace shakedown {

namespace {

/// Reads all data that is available, without blocking. /dev/kmsg returns one record per call, and EPIPE for records
/// that were overwritten. At its end, a blocking read would wait for the next record.
std::optional<std::string> read_now(const std::filesystem::path& file) {
  const TimedCall call("read", file);
  const int descriptor = open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  std::string text;
  std::array<char, 16384> block{};
  constexpr std::size_t max_bytes = std::size_t{64} << 20;
  ssize_t size = 0;
  while (text.size() < max_bytes && ((size = read(descriptor, block.data(), block.size())) > 0 ||
                                     (size < 0 && (errno == EPIPE || errno == EINTR)))) {
    if (size > 0) text.append(block.data(), static_cast<std::size_t>(size));
  }
  const bool failed = size < 0 && errno != EAGAIN;
  close(descriptor);
  return failed ? std::nullopt : std::optional(text);
}

/// Reads "Xid (PCI:0000:1b:00): 79". For a MIG instance the line is "Xid (PCI:0000:1b:00 GPU-I:05): 94", and drivers
/// before 300 write "Xid (0000:1b:00): 79".
void read_xid(const std::string& line, const std::string& file, KernelLog& log) {
  static const std::regex form(
      R"(NVRM:.* Xid \((?:PCI:)?([0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F]+)(?:\.[0-9])?( [^)]{0,40})?\): ([0-9]+))");
  static const std::regex new_action(R"(recovery action changed from .* to 0x[0-9a-fA-F]+ \(([^)]{1,60})\))");
  std::smatch found;
  if (!std::regex_search(line, found, form)) return;
  const auto code = whole_number<int>(found[3].str());
  if (!code) return;
  Xid xid{lower(found[1].str()) + ".0", *code, file};
  if (std::smatch changed; code == 154 && std::regex_search(line, changed, new_action)) {
    std::erase_if(log.xids, [&](const Xid& other) { return other.action && other.pci == xid.pci; });
    if (changed[1] == "None") return;
    xid.action = changed[1].str();
  }
  log.xids.push_back(std::move(xid));
}

/// Reads the line of an NVSwitch error. Skips the lines that the driver adds with details ("..., Severity 1 Engine
/// instance 30 ...").
void read_switch_error(const std::string& line, KernelLog& log) {
  static const std::regex form(
      R"(nvidia-nvswitch([0-9]{1,4}): SXid \([^)]{0,40}\): ([0-9]+), (Fatal|Non-fatal)(?:, (.*))?)");
  std::smatch found;
  if (!std::regex_search(line, found, form)) return;
  const auto number = whole_number<int>(found[1].str()), code = whole_number<int>(found[2].str());
  if (number && code) log.switch_errors.push_back({*number, *code, found[3] == "Fatal", found[4]});
}

const LogShape* fault_in(std::string_view line) {
  for (const auto& fault : log_shapes()) {
    const auto at = line.find(fault.driver);
    if (at != std::string_view::npos && line.find(fault.contains, at) != std::string_view::npos) return &fault;
  }
  return nullptr;
}

}  // namespace

std::optional<KernelLog> read_kernel_log(const std::filesystem::path& root) {
  std::optional<std::string> text;
  std::string file;
  for (const auto* name : {"dev/kmsg", "var/log/kern.log", "var/log/messages", "var/log/syslog"}) {
    text = read_now(root / name);
    file = std::string(name) == "dev/kmsg" ? "" : "/" + std::string(name);
    if (text) break;
  }
  if (!text) return std::nullopt;
  // The kernel writes this line first when it starts.
  const auto start = file.empty() ? std::string::npos : text->rfind("Linux version ");
  KernelLog log;
  // By kind of fault: its first line, and the number of its lines.
  std::map<const LogShape*, std::pair<std::string, int>> faults;
  std::istringstream lines(start == std::string::npos ? *text : text->substr(start));
  constexpr std::size_t max_line_bytes = 400;
  for (std::string line; std::getline(lines, line);) {
    const std::string said = line.substr(0, max_line_bytes);
    if (said.find("Xid (") != std::string::npos) {
      read_xid(said, file, log);
      read_switch_error(said, log);
      continue;
    }
    const auto* const fault = fault_in(said);
    if (fault == nullptr) continue;
    auto& [first, count] = faults[fault];
    if (count++ == 0) first = said.substr(said.find(fault->driver));
  }
  for (const auto& [fault, found] : faults) {
    log.faults.push_back(fmt::format("{} ({}): {}", fault->means, plural(found.second, "line"), one_line(found.first)));
  }
  return log;
}

Facts kernel_log_facts(const std::optional<KernelLog>& log) {
  Facts facts;
  for (const auto* name : {"sxids", "sxids_nonfatal", "kernel_log_faults"}) {
    facts[name] = number_fact(std::nullopt, "the kernel's log cannot be read");
  }
  if (!log) return facts;
  for (const bool is_fatal : {true, false}) {
    std::map<std::string, int> times;  // by line: how often it occurs
    double sum = 0;
    for (const auto& error : log->switch_errors) {
      if (error.is_fatal != is_fatal) continue;
      ++sum;
      ++times[fmt::format("NVSwitch {}: SXid {}{}{}", error.number, error.code, error.text.empty() ? "" : ", ",
                          error.text)];
    }
    std::vector<std::string> words;
    for (const auto& [what, count] : times) words.push_back((count > 1 ? std::to_string(count) + " x " : "") + what);
    facts[is_fatal ? "sxids" : "sxids_nonfatal"] = number_fact(sum, joined(words, "; "));
  }
  facts["kernel_log_faults"] = number_fact(static_cast<double>(log->faults.size()), joined(log->faults, "; "));
  return facts;
}

}  // namespace shakedown
