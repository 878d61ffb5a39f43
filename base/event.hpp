// Events are messages from ranks to the program `shakedown` during a run. Each is one line of JSON on a descriptor that
// carries nothing else:
//   {"event": "plan", "key": "gemm", "rows": 120, "seconds": 23.5}
//   {"event": "row", "key": "gemm/dtype:bf16", "row": 12, "rows": 120, "seconds": 20.5}
//   {"event": "lost", "hosts": ["nodeb"], "ranks": [1], "text": "rank 1 (nodeb) ended unexpectedly in gemm (sample)"}
// An event changes only what the user sees and whether ranks are started again. Results are written to standard output,
// and the verdict depends on them alone.
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
  std::string key = {};             // plan: the family; row: the key of the row that begins
  int row = 0, rows = 0;            // row: its index, from 1; plan and row: the number of rows of the family
  std::optional<double> seconds{};  // plan: the time of the family; row: the time of this row and all later ones
  Refusal why = Refusal::other;     // refused: why the ranks do not measure
  /// Lost: the hosts whose loss ended the job; the ranks of all other hosts still answer.
  std::vector<std::string> hosts{};
  std::vector<int> ranks{};  // lost: the ranks that ended or hung
  bool hung = false;         // lost: the job ended because these ranks did not advance
  std::string text = {};     // note, lost, refused: a line for the user
};
template <class Archive>
void members(Archive& archive, Event& event) {
  archive("event", event.kind).unless("key", event.key).unless("row", event.row).unless("rows", event.rows);
  archive("seconds", event.seconds)
      .unless("why", event.why)
      .unless("hosts", event.hosts)
      .unless("ranks", event.ranks)
      .unless("hung", event.hung)
      .unless("text", event.text);
}

/// The maximum length of an event. A longer line is not an event.
inline constexpr std::size_t max_event_bytes = 64 * 1024;

/// Returns the line of an event, including its newline.
std::string event_line(const Event&);
/// Returns the event in a line; nullopt for other text. A row or a plan must have a key and plausible numbers.
std::optional<Event> event_in(std::string_view line);

/// The value of SHAKEDOWN_EVENTS: how a rank connects to the program `shakedown`.
struct EventAddress {
  int descriptor = -1;  // of the socket that ranks inherit, if the launcher passes it on
  ino_t inode = 0;      // identifies that socket, because the descriptor of another program may have the same number
  std::string key;      // for TCP; empty if TCP is not used
  std::vector<std::string> addresses;

  std::string text() const;
};
/// Parses an address; nullopt for other text.
std::optional<EventAddress> event_address(const std::string& text);

/// Sends the events of a rank. Connects when it sends the first event. A call takes a few seconds at most; a row event
/// takes no time if `shakedown` does not read. Threads may share the object.
class EventSender {
 public:
  /// `address` is the value of SHAKEDOWN_EVENTS. If it is null, no events are sent.
  explicit EventSender(const char* address = nullptr);

  void send(const Event&) noexcept;
  /// Prints "shakedown: TEXT" on standard error, for users that started the ranks by hand, and sends the event.
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
  std::string unsent_;  // the first line of it may already be sent in part
};

}  // namespace shakedown
