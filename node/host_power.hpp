// The energy of this host's processor packages, as the kernel's power capping framework reports it.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace shakedown {

/// A measurement of the mean power of all packages. Linux documents the files in
/// Documentation/power/powercap/powercap.rst; since 5.10 only root may read the counters.
class HostPower {
 public:
  /// Reads the counters for the first time. `folder` has a folder for each package: intel-rapl:0, also for AMD.
  explicit HostPower(std::filesystem::path folder = "/sys/class/powercap");

  /// Returns the mean power in watts since the construction; nullopt if a counter cannot be read. A counter may wrap
  /// once. `seconds` is the time that has passed.
  std::optional<double> watts(double seconds) const;
  /// The same with the time since the construction; nullopt if that is less than a second.
  std::optional<double> watts() const;

  /// Returns why there is no power; empty if there is.
  const std::string& obstacle() const { return obstacle_; }

 private:
  std::filesystem::path folder_;
  std::string obstacle_;
  std::map<std::filesystem::path, double> joules_;  // by package, at the construction
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace shakedown
