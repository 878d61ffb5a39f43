// Receives the events of one launch (base/event.hpp). The job inherits a socket for its events; ranks that do not
// inherit it connect to listening sockets.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/door.hpp"
#include "base/event.hpp"

namespace shakedown {

/// Splits a stream into lines and returns those that are events. Drops a line longer than max_event_bytes, and
/// continues at the next line that is an event.
class EventLines {
 public:
  using Hear = std::function<void(const Event&)>;
  void take(std::string_view bytes, const Hear&);

 private:
  std::string begun_;
  bool is_too_long_ = false;
};

class EventChannel {
 public:
  /// The number of the descriptor that the job inherits.
  static constexpr int descriptor_in_job = 8;

  /// `over_tcp`: also listens, because a launcher starts the ranks and they may not inherit a descriptor. Never fails:
  /// if there is no channel, why_not() returns the reason.
  explicit EventChannel(bool over_tcp);

  /// Returns the value of SHAKEDOWN_EVENTS for the job.
  const std::string& address() const { return address_; }
  int descriptor() const { return theirs_.get(); }
  const std::string& why_not() const { return why_not_; }

  /// Reads the data that has arrived, within a limit for each connection. True if there were events. Does not block.
  bool read(const EventLines::Hear&);
  bool was_heard() const { return was_heard_; }

 private:
  struct Source {
    Socket socket;
    EventLines lines = {};
  };
  std::vector<std::string> listen();

  std::string key_;
  Door door_;
  std::vector<Socket> listeners_;
  Descriptor theirs_;
  std::vector<Source> sources_;
  std::string address_, why_not_;
  bool was_heard_ = false;
};

}  // namespace shakedown
