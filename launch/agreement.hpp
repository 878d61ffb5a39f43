// The discovery, the hosts that it leaves out, and the launch on the others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/choice.hpp"
#include "launch/job.hpp"
#include "launch/options.hpp"

namespace shakedown {

/// Thrown if the driver of no remaining host answers.
struct DriverHangs : CannotRun {
  explicit DriverHangs(std::vector<AbsentHost> hung) : CannotRun(hung.front().reason), hosts(std::move(hung)) {}
  std::vector<AbsentHost> hosts;
};

/// Returns the launch on the hosts that answer. Hosts that do not answer are reported and left out, and stay expected.
/// Does not ask hosts that are known to be lost. Errors: CannotRun if no host answers within the time limit of the
/// start.
Launch agreed_launch(const AcceptOptions&, const Environment&, Signals&, const std::vector<std::string>& lost = {});

/// Returns the same launch; nullopt with the reason if no host answers.
std::optional<Launch> launch_that_answers(const AcceptOptions&, const Environment&, Signals&,
                                          const std::vector<std::string>& lost, std::string& why);

/// Returns the hosts of a launch by the names that ranks have reported: host names, or node names of pods.
std::vector<std::string> promised_hosts(const Launch&, const std::vector<std::string>& named);

/// True if a program is in a folder of PATH and can be executed.
bool on_path(const Environment&, const std::string& program);

/// Prints "shakedown: TEXT" on standard error.
void say(const std::string& line);

/// Throws CannotRun if a signal has arrived.
void stop_if_told(Signals&);

}  // namespace shakedown
