#include "node/host_power.hpp"

#include <utility>
#include <vector>

#include "base/files.hpp"

namespace shakedown {

namespace {

namespace fs = std::filesystem;

/// Returns a counter in joules; nullopt if the file cannot be read or has no number.
std::optional<double> joules_in(const fs::path& file) {
  const auto microjoules = number_of(file);
  return microjoules ? std::optional(*microjoules * 1e-6) : std::nullopt;
}

}  // namespace

HostPower::HostPower(fs::path folder) : folder_(std::move(folder)) {
  for (const auto& entry : names_in(folder_).value_or(std::vector<std::string>{})) {
    const auto package = folder_ / entry;
    if (!line_of(package / "name").value_or("").starts_with("package-")) continue;
    const auto counter = package / "energy_uj";
    const auto joules = joules_in(counter);
    if (!joules) {
      obstacle_ = counter.string() + " cannot be read; run as root, or let this user read it";
      return;
    }
    joules_[package] = *joules;
  }
  if (joules_.empty()) obstacle_ = folder_.string() + " has no processor package";
}

std::optional<double> HostPower::watts(double seconds) const {
  if (!obstacle_.empty() || seconds <= 0) return std::nullopt;
  double sum = 0;
  for (const auto& [package, before] : joules_) {
    const auto now = joules_in(package / "energy_uj"), range = joules_in(package / "max_energy_range_uj");
    if (!now || (*now < before && !range)) return std::nullopt;
    sum += *now - before + (*now < before ? *range : 0);
  }
  return sum / seconds;
}

std::optional<double> HostPower::watts() const {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  return seconds < 1 ? std::nullopt : watts(seconds);
}

}  // namespace shakedown
