#include "report/live_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.hpp"

namespace shakedown {
namespace {

using Tone = Table::Tone;

std::string reading_text(const std::optional<double>& value, int digits = 0) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

/// Returns "57/72"; "57" if the second value is unknown, and "-" if both are.
std::string pair_text(const std::optional<double>& a, const std::optional<double>& b, int digits = 0) {
  return reading_text(a, digits) + (b ? "/" + reading_text(b, digits) : "");
}

std::string traffic_text(const TrafficRate& rate) {
  if (!rate.tx_gb_per_s && !rate.rx_gb_per_s) return "-";
  return reading_text(rate.tx_gb_per_s, 1) + "/" + reading_text(rate.rx_gb_per_s, 1);
}

/// The lines of the view.
class Lines {
 public:
  explicit Lines(const TerminalStyle& style) : style_(style) {}

  /// Adds a text, which wraps at the width. All its lines have the tone.
  void add(const std::string& text, Tone tone = Tone::plain) {
    for (const auto& line : wrapped(one_line(text), style_.width)) {
      const bool painted = style_.color && tone != Tone::plain;
      text_ += painted ? (tone == Tone::good ? "\033[1m" : "\033[31m") + line + "\033[0m\n" : line + "\n";
    }
  }
  /// Adds a heading, which is bold.
  void add_heading(const std::string& text) { add(text, Tone::good); }

  std::string text() && { return std::move(text_); }

 private:
  const TerminalStyle& style_;
  std::string text_;
};

std::string gpu_row(const std::string& gpu, const std::string& busy, const std::string& memory_busy,
                    const std::string& mhz, const std::string& power, const std::string& heat,
                    const std::string& memory, const std::string& nvlink, const std::string& pcie) {
  return fmt::format("{:>3} {:>5} {:>4} {:>5} {:>9} {:>6} {:>12} {:>12} {:>11}", gpu, busy, memory_busy, mhz, power,
                     heat, memory, nvlink, pcie);
}

void add_gpu(const GpuActivity& gpu, Lines& lines) {
  const auto number = std::to_string(gpu.gpu);
  if (gpu.problem) return lines.add(fmt::format("{:>3} {}", number, *gpu.problem), Tone::bad);
  lines.add(gpu_row(number, reading_text(gpu.busy_percent), reading_text(gpu.memory_busy_percent),
                    reading_text(gpu.sm_mhz), pair_text(gpu.power_w, gpu.power_limit_w),
                    pair_text(gpu.temperature_c, gpu.memory_temperature_c),
                    pair_text(gpu.memory_used_gb, gpu.memory_gb, 1), traffic_text(gpu.nvlink), traffic_text(gpu.pcie)));
  const auto limits = gpu.clock_limits.value_or(std::vector<std::string>{});
  const bool protects = std::any_of(limits.begin(), limits.end(), [](const auto& name) { return protects_gpu(name); });
  if (!limits.empty()) lines.add("    clock limited: " + joined(limits), protects ? Tone::bad : Tone::plain);
  const auto has_fault = [](const ErrorCounts& errors) {
    return std::any_of(errors.begin(), errors.end(), [](const auto& count) { return is_fault(count.first); });
  };
  if (!gpu.new_errors.empty()) {
    const auto tone = has_fault(gpu.new_errors) ? Tone::bad : Tone::plain;
    lines.add("    new errors: " + errors_text(gpu.new_errors), tone);
  }
  if (has_fault(gpu.errors)) lines.add("    errors since the driver was loaded: " + errors_text(gpu.errors));
}

void add_processes(const HostActivity& host, Lines& lines) {
  std::map<std::map<std::string, std::string>, std::vector<std::string>> pids_by_settings;
  for (const auto& gpu : host.gpus) {
    for (const auto& process : gpu.processes) {
      const auto memory = process.memory_gb ? fmt::format(", {:.1f} GB", *process.memory_gb) : "";
      lines.add(fmt::format("GPU {}: process {} {} of {}{}", gpu.gpu, process.pid, process.name.value_or("(hidden)"),
                            process.user.value_or("an unknown user"), memory));
      auto& pids = pids_by_settings[process.settings];
      const auto pid = std::to_string(process.pid);
      if (std::find(pids.begin(), pids.end(), pid) == pids.end()) pids.push_back(pid);
    }
  }
  for (const auto& [settings, pids] : pids_by_settings) {
    std::vector<std::string> words;
    for (const auto& [name, value] : settings) words.push_back(name + "=" + value);
    if (!words.empty()) lines.add("settings of " + joined(pids) + ": " + joined(words, " "));
  }
}

void add_ports(const HostActivity& host, Lines& lines) {
  std::vector<std::string> ports;
  for (const auto& port : host.ports) {
    const auto state = lower(port.state.value_or("unknown"));
    const bool has_rate = (state == "active" || state == "up" || state == "unknown") && port.traffic.tx_gb_per_s;
    auto text = port.port + " " + (has_rate ? traffic_text(port.traffic) : port.state.value_or("-"));
    if (!port.new_errors.empty()) text += " (new errors: " + errors_text(port.new_errors) + ")";
    ports.push_back(std::move(text));
  }
  if (!ports.empty()) lines.add("ports, GB/s out/in: " + joined(ports));
}

void add_host(const HostActivity& host, Lines& lines) {
  if (host.problem) return lines.add(host.host + ": " + *host.problem, Tone::bad);
  lines.add_heading(fmt::format("{}: CPU {} % of {}, load {}, memory {} GB", host.host, reading_text(host.cpu_percent),
                                reading_text(host.cpus), reading_text(host.load_1min, 1),
                                pair_text(host.memory_used_gb, host.memory_gb)));
  if (host.gpu_problem) lines.add("no GPU: " + *host.gpu_problem);
  if (!host.gpus.empty()) {
    lines.add(gpu_row("GPU", "busy%", "mem%", "MHz", "W", "C", "memory GB", "NVLink GB/s", "PCIe GB/s"));
  }
  for (const auto& gpu : host.gpus) add_gpu(gpu, lines);
  add_processes(host, lines);
  add_ports(host, lines);
  if (!host.ras) return;
  if (host.ras->problem) return lines.add("NCCL: " + *host.ras->problem);
  lines.add(host.ras->version + (host.ras->groups.empty() ? "" : "; groups: " + joined(host.ras->groups, "; ")));
  for (const auto& error : host.ras->errors) lines.add("NCCL error: " + error, Tone::bad);
  for (const auto& warning : host.ras->warnings) lines.add("NCCL warning: " + warning);
}

}  // namespace

std::string live_text(const Activity& activity, TerminalStyle style) {
  Lines lines(style);
  for (const auto& host : activity.hosts) add_host(host, lines);
  return std::move(lines).text();
}

}  // namespace shakedown
