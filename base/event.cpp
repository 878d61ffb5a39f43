#include "base/event.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <sstream>

#include "base/archive.hpp"
#include "base/door.hpp"

namespace shakedown {
namespace {

constexpr int max_rows = 1'000'000'000;
constexpr double max_seconds = 1e9;
constexpr std::size_t max_text_bytes = 4096, max_hosts = 1000, max_ranks = 1000;
constexpr std::chrono::seconds connect_limit{2};

bool is_possible(const Event& event) {
  const bool has_numbers = event.kind == Event::Kind::row    ? event.row >= 1 && event.row <= event.rows
                           : event.kind == Event::Kind::plan ? event.row == 0 && event.seconds
                                                             : true;
  const bool counts = event.kind == Event::Kind::row || event.kind == Event::Kind::plan;
  const double seconds = event.seconds.value_or(0);
  return has_numbers && (!counts || !event.key.empty()) && event.rows <= max_rows && seconds >= 0 &&
         seconds <= max_seconds;
}

/// Returns a line that fits into the first segment of a connection, because the kernel drops or resets the segments
/// after it while `shakedown` does not accept connections. Cuts the text, else omits hosts and ranks.
std::string line_of_first_segment(Event event) {
  event.text.resize(std::min(event.text.size(), max_text_bytes));
  const auto text = event.text;
  for (;;) {
    auto line = event_line(event);
    if (line.size() <= max_text_of_segment) return line;
    const auto excess = line.size() - max_text_of_segment;
    if (event.text.size() > excess) {
      event.text.resize(event.text.size() - excess);
    } else if (event.hosts.empty() && event.ranks.empty()) {
      return line;
    } else {
      event.hosts.clear();
      event.ranks.clear();
      event.text = text;
    }
  }
}

}  // namespace

std::string event_line(const Event& event) {
  auto shown = event;
  if (shown.text.size() > max_text_bytes) shown.text.resize(max_text_bytes);
  // Omits a long list of hosts, because `shakedown` asks all hosts anyway.
  if (shown.hosts.size() > max_hosts) shown.hosts.clear();
  if (shown.ranks.size() > max_ranks) shown.ranks.clear();
  auto document = Writer::written(shown);
  if (!shown.seconds) document.erase("seconds");
  return text_of_document(document, -1) + "\n";
}

std::optional<Event> event_in(std::string_view line) {
  if (line.size() > max_event_bytes || !line.starts_with("{\"event\"")) return std::nullopt;
  const auto document = document_of_text(line);
  if (!document.is_object()) return std::nullopt;
  std::optional<Event> event;
  const std::filesystem::path place("event");
  const auto wrong = input_error_of([&] { event = read_as<Event>(Field(place, "", document)); });
  return wrong.empty() && is_possible(*event) ? event : std::nullopt;
}

std::string EventAddress::text() const {
  auto text = std::to_string(descriptor) + " " + std::to_string(inode);
  if (!key.empty()) text += " " + key;
  for (const auto& address : addresses) text += " " + address;
  return text;
}

std::optional<EventAddress> event_address(const std::string& text) {
  EventAddress address;
  std::istringstream words(text);
  if (!(words >> address.descriptor >> address.inode)) return std::nullopt;
  words >> address.key;
  for (std::string word; words >> word;) address.addresses.push_back(word);
  return address;
}

EventSender::EventSender(const char* address) {
  if (address != nullptr) address_ = event_address(address);
  struct stat facts {};
  const int descriptor = address_ ? address_->descriptor : -1;
  if (descriptor <= STDERR_FILENO || fstat(descriptor, &facts) != 0) return;
  if (!S_ISSOCK(facts.st_mode) || facts.st_ino != address_->inode) return;
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  socket_ = Descriptor(descriptor);
}

/// Connects and sends the first line together with the Hello, because `shakedown` may be busy with a judgement for
/// longer than the limit.
void EventSender::connect(const std::string& first_line) {
  if (!address_ || address_->key.empty() || connects_left_-- <= 0) return;
  unsent_.clear();
  Hello hello;
  hello.from = hello.to = 0;
  socket_ = enter(address_->addresses, hello, address_->key, connect_limit, first_line);
}

void EventSender::flush(int patience_ms) {
  while (!unsent_.empty()) {
    const auto count = ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) unsent_.erase(0, static_cast<std::size_t>(count));
    if (count >= 0 || errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return socket_.close_now();
    pollfd writable{socket_.get(), POLLOUT, 0};
    if (patience_ms == 0 || poll(&writable, 1, std::exchange(patience_ms, 0)) != 1) return;
  }
}

void EventSender::send(const Event& event) noexcept try {
  constexpr int patience_ms = 1000;
  const std::lock_guard lock(mutex_);
  const auto line = event_line(event);
  if (line.size() > max_event_bytes) return;
  if (!socket_.is_open()) return connect(line_of_first_segment(event));
  const bool waits = event.kind != Event::Kind::row && unsent_.empty();
  flush(0);
  // A row event that cannot be sent is dropped, because the next one replaces it. Other events are queued after an
  // unsent one, up to a limit.
  const std::size_t unsent_limit = event.kind == Event::Kind::row ? 0 : max_event_bytes;
  if (!socket_.is_open() || unsent_.size() > unsent_limit) return;
  unsent_ += line;
  flush(waits ? patience_ms : 0);
} catch (...) {
  // A lost event changes no result, so the measurement continues.
}

void EventSender::print(const std::string& text) { write_all(STDERR_FILENO, "shakedown: " + text + "\n"); }

}  // namespace shakedown
