// Discovers the hosts, leaves out those that do not answer, and returns the launch on the other hosts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/job.hpp"
#include "launch/launch.hpp"
#include "launch/options.hpp"

namespace shakedown {

/// Thrown if the driver responds on none of the remaining hosts.
struct DriverHangs : CannotRun {
  explicit DriverHangs(std::vector<AbsentHost> hung) : CannotRun(hung.front().reason), hosts(std::move(hung)) {}
  std::vector<AbsentHost> hosts;
};

/// Returns the launch on the hosts that answer. A host that does not answer is reported and left out of the launch, but
/// the judge still expects it. Hosts that are known to be lost are not asked. Errors: CannotRun if no host answers
/// within the time limit for the start.
Launch agreed_launch(const AcceptOptions&, const Environment&, Signals&, const std::vector<std::string>& lost = {});

/// Like agreed_launch, but returns nullopt with the reason if no host answers.
std::optional<Launch> launch_that_answers(const AcceptOptions&, const Environment&, Signals&,
                                          const std::vector<std::string>& lost, std::string& why);

/// Returns the hosts of a launch under the names that ranks have reported: host names, or node names of pods.
std::vector<std::string> promised_hosts(const Launch&, const std::vector<std::string>& named);

/// True if PATH has a folder with this program, and the program can be executed.
bool on_path(const Environment&, const std::string& program);

/// Prints "shakedown: TEXT" on standard error.
void say(const std::string& line);

/// Throws CannotRun if a signal has arrived that asks this process to end.
void stop_if_told(Signals&);

}  // namespace shakedown
