// The events of one launch, as the front door receives them (base/event.hpp): over a socket that the job inherits, and
// over listening sockets for ranks that do not inherit it.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/door.hpp"
#include "base/event.hpp"

namespace shakedown {

/// Splits a stream into events by lines. Keeps at most max_event_bytes, and resumes at the next line that is an event.
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
  /// The descriptor of the socket in the job.
  static constexpr int descriptor_in_job = 8;

  /// `over_tcp`: a launcher starts the ranks, which may not inherit a descriptor. Never fails: without a channel,
  /// why_not() returns the reason.
  explicit EventChannel(bool over_tcp);

  /// Returns the value of SHAKEDOWN_EVENTS for the job.
  const std::string& address() const { return address_; }
  int descriptor() const { return theirs_.get(); }
  const std::string& why_not() const { return why_not_; }

  /// Reads pending data, within limits for each connection. True if there were events. Does not block.
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
