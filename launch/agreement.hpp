// The launch on which all hosts agree: the discovery, and the hosts that are left out because of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/choice.hpp"
#include "launch/job.hpp"
#include "launch/options.hpp"

namespace shakedown {

/// No host is left whose driver answers.
struct DriverHangs : CannotRun {
  explicit DriverHangs(std::vector<AbsentHost> hung) : CannotRun(hung.front().reason), hosts(std::move(hung)) {}
  std::vector<AbsentHost> hosts;
};

/// How programs are started here and now, as every host has confirmed: those that do not answer are named and left out,
/// and stay expected. Hosts that are known to be lost are not asked. Errors: CannotRun if none answers within the
/// start's limit.
Launch agreed_launch(const AcceptOptions&, const Environment&, Signals&, const std::vector<std::string>& lost = {});

/// The same; nothing, and why, if none answers.
std::optional<Launch> launch_that_answers(const AcceptOptions&, const Environment&, Signals&,
                                          const std::vector<std::string>& lost, std::string& why);

/// Returns the hosts of a launch that ranks have named, by their own names or those of their nodes.
std::vector<std::string> promised_hosts(const Launch&, const std::vector<std::string>& named);

/// Returns whether a program is in a folder of PATH, and can be run.
bool on_path(const Environment&, const std::string& program);

/// One line on standard error, "shakedown: ...".
void say(const std::string& line);

/// Errors: CannotRun if a signal has been taken.
void stop_if_told(Signals&);

}  // namespace shakedown
