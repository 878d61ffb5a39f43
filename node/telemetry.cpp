#include "node/telemetry.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace shakedown {

namespace {

constexpr std::array<std::pair<ClockReason, const char*>, 8> reason_names{
    {{ClockReason::sw_power_cap, "sw_power_cap"},
     {ClockReason::hw_slowdown, "hw_slowdown"},
     {ClockReason::sw_thermal, "sw_thermal"},
     {ClockReason::hw_thermal, "hw_thermal"},
     {ClockReason::hw_power_brake, "hw_power_brake"},
     {ClockReason::sync_boost, "sync_boost"},
     {ClockReason::applications_setting, "applications_setting"},
     {ClockReason::display_setting, "display_setting"}}};

template <class T>
std::optional<double> number(const Answer<T>& answer) {
  return answer ? std::optional(static_cast<double>(*answer)) : std::nullopt;
}

/// Returns the values of one field, without unknown ones.
std::vector<double> known(const std::vector<GpuSample>& samples, std::optional<double> GpuSample::*field) {
  std::vector<double> values;
  for (const auto& sample : samples) {
    if (sample.*field) values.push_back(*(sample.*field));
  }
  return values;
}

std::optional<double> mean(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

/// Returns the fraction of samples in which one of these reasons is set. Samples with unknown reasons are ignored;
/// nullopt if all are unknown.
std::optional<double> fraction(const std::vector<GpuSample>& samples, std::uint64_t bits) {
  std::size_t told = 0, had = 0;
  for (const auto& sample : samples) {
    if (!sample.reasons) continue;
    ++told;
    if ((*sample.reasons & bits) != 0) ++had;
  }
  return told == 0 ? std::nullopt : std::optional(static_cast<double>(had) / static_cast<double>(told));
}

/// Returns the mean power between the first and the last sample that have the energy counter; nullopt for a short
/// series.
std::optional<double> drawn_power(const std::vector<GpuSample>& samples) {
  const auto has_energy = [](const GpuSample& sample) { return sample.energy_j.has_value(); };
  const auto first = std::find_if(samples.begin(), samples.end(), has_energy);
  const auto last = std::find_if(samples.rbegin(), samples.rend(), has_energy);
  if (first == samples.end() || last->seconds - first->seconds < energy_seconds) return std::nullopt;
  return (*last->energy_j - *first->energy_j) / (last->seconds - first->seconds);
}

}  // namespace

GpuSample sample(const NvmlGpu& gpu) {
  GpuSample now{number(gpu.sm_mhz()), gpu.power_w(),      number(gpu.temperature_c()),
                std::nullopt,         gpu.mean_power_w(), gpu.energy_j()};
  now.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (const auto reasons = gpu.clock_reasons()) now.reasons = *reasons;
  if (const auto busy = gpu.utilization()) {
    now.gpu_busy_percent = busy->gpu;
    now.memory_busy_percent = busy->memory;
  }
  return now;
}

GpuSummary summary(const std::vector<GpuSample>& samples) {
  GpuSummary result;
  result.samples = samples.size();
  const auto heat = known(samples, &GpuSample::temperature_c);
  result.sm_mhz = mean(known(samples, &GpuSample::sm_mhz));
  result.power_w = mean(known(samples, &GpuSample::power_w));
  result.drawn_w = drawn_power(samples);
  if (!heat.empty()) result.temperature_c = *std::max_element(heat.begin(), heat.end());
  result.throttled = fraction(samples, power_or_thermal);
  auto later = samples;
  std::erase_if(later, [&](const auto& s) { return s.seconds - samples.front().seconds <= utilization_seconds; });
  result.gpu_busy_percent = mean(known(later, &GpuSample::gpu_busy_percent));
  result.memory_busy_percent = mean(known(later, &GpuSample::memory_busy_percent));
  for (const auto& [reason, name] : reason_names) {
    const auto part = fraction(samples, static_cast<std::uint64_t>(reason));
    if (part && *part > 0) result.throttle.emplace(name, *part);
  }
  return result;
}

std::vector<std::string> clock_limits(std::uint64_t reasons) {
  std::vector<std::string> names;
  for (const auto& [reason, name] : reason_names) {
    if ((reasons & static_cast<std::uint64_t>(reason)) != 0) names.emplace_back(name);
  }
  return names;
}

ErrorCounts error_counts(const NvmlGpu& gpu, unsigned links) {
  ErrorCounts counts;
  const auto add = [&](const std::string& name, const auto& count) {
    if (count) counts[name] += *count;
  };
  add("ecc_corrected", gpu.ecc_errors(EccErrors::corrected, EccSince::reset));
  add("ecc_uncorrected", gpu.ecc_errors(EccErrors::uncorrected, EccSince::reset));
  add("pcie_replays", gpu.pcie_replays());
  if (const auto rows = gpu.remapped_rows()) {
    counts["remapped_rows_corrected"] = rows->corrected;
    counts["remapped_rows_uncorrected"] = rows->uncorrected;
  }
  unsigned number = 0;
  for (const auto& link : gpu.link_errors(links)) {
    const auto name = "nvlink_" + std::to_string(number++);
    add(name + "_replays", link.replays);
    add(name + "_recoveries", link.recoveries);
    add(name + "_crc", link.crc);
  }
  return counts;
}

ErrorCounts grown(const ErrorCounts& before, const ErrorCounts& after) {
  ErrorCounts more;
  for (const auto& [name, count] : after) {
    const auto earlier = before.find(name);
    if (earlier == before.end() || count <= earlier->second) continue;
    more.emplace(name, count - earlier->second);
  }
  return more;
}

Telemetry::Telemetry(NvmlGpu gpu, std::chrono::milliseconds interval, std::chrono::milliseconds settling)
    : gpu_(std::move(gpu)),
      links_(gpu_.link_count()),
      interval_(interval),
      settling_(settling),
      xids_(gpu_),
      thread_([this] { watch(); }) {}

Telemetry::~Telemetry() {
  {
    const std::scoped_lock lock(mutex_);
    leave_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Telemetry::begin() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return counted_ == to_count_; });
    samples_.clear();
    ++series_;
  }
  changed_.notify_all();
}

GpuSummary Telemetry::end() {
  std::vector<GpuSample> samples;
  {
    const std::scoped_lock lock(mutex_);
    if (series_ % 2 == 1) ++series_;
    samples = std::exchange(samples_, {});
  }
  changed_.notify_all();
  return summary(samples);
}

void Telemetry::count() {
  {
    const std::scoped_lock lock(mutex_);
    ++to_count_;
  }
  changed_.notify_all();
}

ErrorCounts Telemetry::errors() {
  ErrorCounts errors;
  {
    std::unique_lock lock(mutex_);
    if (to_count_ == told_) {
      ++to_count_;
      changed_.notify_all();
    }
    changed_.wait(lock, [this] { return counted_ == to_count_; });
    told_ = counted_;
    errors = grown(std::exchange(before_, now_), now_);
  }
  for (const auto xid : xids_.take().value_or(std::vector<unsigned>{})) ++errors["xid_" + std::to_string(xid)];
  return errors;
}

/// Samples the GPU. Omits values that the driver may have cached before the series began.
GpuSample Telemetry::fresh_sample(const GpuSample& first, bool settled) const {
  auto now = sample(gpu_);
  if (settled) return now;
  if (now.mean_power_w == first.mean_power_w) {
    now.sm_mhz = now.temperature_c = now.energy_j = std::nullopt;
    now.reasons = std::nullopt;
  }
  if (now.power_w == first.power_w) now.power_w = std::nullopt;
  return now;
}

/// Main function of the thread. The thread samples during a series, and reads the error counters at the beginning and
/// on request.
void Telemetry::watch() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return leave_ || series_ % 2 == 1 || counted_ != to_count_; });
    if (leave_) return;
    if (series_ % 2 == 1) {
      sample_series(lock);
      continue;
    }
    const auto ordered = to_count_;
    lock.unlock();
    auto counts = error_counts(gpu_, links_);
    lock.lock();
    now_ = std::move(counts);
    if (counted_ == 0) before_ = now_;
    counted_ = ordered;
    changed_.notify_all();
  }
}

/// Samples during one series. Drops a sample if the series has ended before the sample was complete.
void Telemetry::sample_series(std::unique_lock<std::mutex>& lock) {
  const auto series = series_;
  const auto over = [&] { return leave_ || series_ != series; };
  lock.unlock();
  const auto first = sample(gpu_);
  const auto begun = std::chrono::steady_clock::now();
  lock.lock();
  auto next = begun + interval_;
  while (!changed_.wait_until(lock, next, over)) {
    lock.unlock();
    const auto now = fresh_sample(first, std::chrono::steady_clock::now() - begun >= settling_);
    lock.lock();
    if (over()) return;
    samples_.push_back(now);
    // If a sample takes longer than the interval, waits anyway, so that a slow driver is not queried all the time.
    next = std::chrono::steady_clock::now() + interval_;
  }
}

}  // namespace shakedown
