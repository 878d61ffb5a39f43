// A stream of readings of one host for `shakedown top`. A process of its own takes them, because a driver, a mount or a
// network may hang: a child process for this host, and `shakedown top --json` over ssh for another.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/host_activity.hpp"
#include "base/time_limits.hpp"
#include "base/timed_call.hpp"

namespace shakedown {

/// How the readings are taken.
struct ReadingPlan {
  std::chrono::duration<double> interval{1};
  bool once = false;  // only one reading, whose rates are those of one interval
};

class HostStream {
 public:
  /// Starts the readings of this host, or of another one over ssh. A stream that cannot be started has the reason as
  /// its problem.
  static std::unique_ptr<HostStream> of_this_host(const std::string& name, const ReadingPlan&);
  static std::unique_ptr<HostStream> over_ssh(const std::string& host, const ReadingPlan&);

  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;
  /// Ends the process and does not wait for it.
  ~HostStream();

  /// Adds the descriptors at which data arrives.
  void add_to(std::vector<pollfd>&) const;
  /// Takes the data that has arrived. Does not wait.
  void take();

  /// True if no reading has arrived so far, and one may still arrive in time.
  bool is_waiting() const;
  /// Returns the latest reading. If the host has ended or has not answered in time, returns the reason instead.
  HostActivity latest() const;

 private:
  using Clock = std::chrono::steady_clock;

  HostStream(std::string host, const ReadingPlan& plan, bool is_here);
  void take_line(const std::string& line);
  void take_end();
  std::optional<std::string> problem() const;
  Seconds limit() const;

  const std::string host_;
  const ReadingPlan plan_;
  const bool is_here_;
  CallBoard board_;  // calls of the child process of this host
  pid_t process_ = 0;
  Descriptor out_, error_;
  std::string out_text_, error_text_;  // incomplete last lines
  std::vector<std::string> said_;      // first lines of the standard error
  std::optional<HostActivity> reading_;
  Clock::time_point heard_ = Clock::now();
  std::optional<std::string> end_;  // how the process ended, if it has
};

}  // namespace shakedown
