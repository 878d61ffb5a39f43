// Events: what ranks tell the front door during a run, each as one line of JSON, on a descriptor of their own:
//
//   {"event": "plan", "key": "gemm", "rows": 120, "seconds": 23.5}
//   {"event": "row", "key": "gemm/dtype:bf16", "row": 12, "rows": 120, "seconds": 20.5}
//   {"event": "lost", "hosts": ["nodeb"], "ranks": [1], "text": "rank 1 (nodeb) ended unexpectedly in gemm (sample)"}
//
// An event changes what people see and whether ranks are started again. Results come on standard output, and the
// verdict is made from them alone.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.hpp"
#include "base/names.hpp"

namespace shakedown {

struct Event {
  enum class Kind { plan, row, note, lost, refused };
  friend constexpr auto words(Kind) { return names("plan", "row", "note", "lost", "refused"); }
  enum class Refusal { other, gpu_in_use, no_cuda_libraries };
  friend constexpr auto words(Refusal) { return names("other", "gpu_in_use", "no_cuda_libraries"); }

  Kind kind = Kind::note;
  std::string key = {};              // plan: the family; row: the key of the row that begins
  int row = 0, rows = 0;             // row: its number, from 1; plan and row: the number of rows of the family
  std::optional<double> seconds{};   // plan: of the family; row: what is left of it, with this row
  Refusal why = Refusal::other;      // refused: why the ranks end without a measurement
  std::vector<std::string> hosts{};  // lost: the hosts that ended the job; the ranks of all others still answer
  std::vector<int> ranks{};          // lost: the ranks that ended
  std::string text = {};             // note, lost, refused: a line for people
};
template <class Archive>
void members(Archive& archive, Event& event) {
  archive("event", event.kind).unless("key", event.key).unless("row", event.row).unless("rows", event.rows);
  archive("seconds", event.seconds)
      .unless("why", event.why)
      .unless("hosts", event.hosts)
      .unless("ranks", event.ranks)
      .unless("text", event.text);
}

/// The longest line that is read; longer ones are no events.
inline constexpr std::size_t max_event_bytes = 64 * 1024;

/// Returns the line of an event, with its newline.
std::string event_line(const Event&);
/// Returns the event of a line; nullopt for any other text. A row or a plan has a key and numbers that can be true.
std::optional<Event> event_in(std::string_view line);

/// The value of SHAKEDOWN_EVENTS: where a rank reaches the front door.
struct EventAddress {
  int descriptor = -1;  // of a socket, if launchers pass it on
  ino_t inode = 0;      // of that socket: other programs use the same numbers
  std::string key;      // for TCP; empty: no TCP
  std::vector<std::string> addresses;

  std::string text() const;
};
/// Returns the address from its text; nullopt for any other text.
std::optional<EventAddress> event_address(const std::string& text);

/// Sends the events of a rank. Connects with the first one. Each call takes at most some seconds, and a row no time if
/// the front door does not read. Threads may share it.
class EventSender {
 public:
  /// `address` is the value of SHAKEDOWN_EVENTS. Without one, nothing is sent.
  explicit EventSender(const char* address = nullptr);

  void send(const Event&) noexcept;
  /// Prints "shakedown: TEXT" on standard error, for people without a front door, and sends the event.
  void say(const Event& event) {
    if (!event.text.empty()) print(event.text);
    send(event);
  }
  static void print(const std::string& text);
  void note(const std::string& text) { say({.kind = Event::Kind::note, .text = text}); }

 private:
  void connect(const std::string& first_line);
  void flush(int patience_ms);

  std::mutex mutex_;
  std::optional<EventAddress> address_;
  int connects_left_ = 3;
  Descriptor socket_;
  std::string unsent_;  // begins within a line
};

}  // namespace shakedown
