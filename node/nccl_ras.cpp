#include "node/nccl_ras.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/parse_number.hpp"
#include "base/socket.hpp"
#include "base/text.hpp"

namespace shakedown {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t max_answer_bytes = 1 << 20;
constexpr std::size_t max_lines = 8;  // of each section

/// A conversation with the service that ends at a fixed time.
class Conversation {
 public:
  Conversation(const Socket& socket, Clock::time_point end) : socket_(socket), end_(end) {}

  bool say(std::string_view text) const {
    return send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }

  /// Reads until `is_complete` is true of the text or the service closes the connection; nullopt if the time is over.
  template <class IsComplete>
  std::optional<std::string> hear(const IsComplete& is_complete) const {
    std::string text;
    while (!is_complete(text) && text.size() < max_answer_bytes) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now());
      if (left.count() <= 0 || !readable(socket_, left)) return std::nullopt;
      std::array<char, 4096> piece{};
      const auto count = recv(socket_.get(), piece.data(), piece.size(), MSG_DONTWAIT);
      if (count < 0) return std::nullopt;
      if (count == 0) break;
      text.append(piece.data(), static_cast<std::size_t>(count));
    }
    return text;
  }

  std::optional<std::string> hear_line() const {
    return hear([](const std::string& text) { return text.ends_with('\n'); });
  }

 private:
  const Socket& socket_;
  Clock::time_point end_;
};

/// Returns the words of a line with one blank between them.
std::string squeezed(std::string_view line) {
  std::string text;
  for (const char c : line) {
    const bool blank = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!blank) text += c;
    if (blank && !text.empty() && text.back() != ' ') text += ' ';
  }
  if (text.ends_with(' ')) text.pop_back();
  return one_line(text);
}

bool is_underline(const std::string& line) { return !line.empty() && line.find_first_not_of('=') == std::string::npos; }

/// Returns the state that the service reports; nullopt if it does not answer in time or is another service.
std::optional<RasState> answer_of(const Conversation& service, std::chrono::milliseconds limit) {
  constexpr const char* protocol = "CLIENT PROTOCOL 2\n";
  if (!service.say(protocol)) return std::nullopt;
  const auto greeting = service.hear_line();
  if (!greeting || !lower(*greeting).starts_with("server protocol")) return std::nullopt;
  // The service waits this long for silent processes of the job, and reports them.
  const auto seconds = std::max<std::int64_t>(1, limit.count() / 2000);
  if (!service.say("TIMEOUT " + std::to_string(seconds) + "\n") || !service.hear_line()) return std::nullopt;
  if (!service.say("STATUS\n")) return std::nullopt;
  const auto text = service.hear([](const std::string&) { return false; });  // it closes the connection at the end
  return text && !text->empty() ? std::optional(ras_state_in(*text)) : std::nullopt;
}

}  // namespace

RasState ras_state_in(std::string_view text) {
  RasState state;
  std::vector<std::string>* section = nullptr;
  bool is_row_section = false;
  for (const auto& raw : split(std::string(text), '\n')) {
    const auto line = squeezed(raw);
    if (line.starts_with("NCCL version")) state.version = line;
    is_row_section = is_row_section || line.starts_with("Communicators");
    if (line == "Errors" || line == "Warnings") {
      section = line == "Errors" ? &state.errors : &state.warnings;
      is_row_section = false;
    } else if (line.empty() || is_underline(line)) {
      continue;
    } else if (is_row_section && std::isdigit(static_cast<unsigned char>(line.front())) != 0) {
      if (state.groups.size() < max_lines) state.groups.push_back(line);
    } else if (section != nullptr && section->size() < max_lines) {
      section->push_back(line);
    }
  }
  return state;
}

RasAddress ras_address_in(std::string_view value) {
  RasAddress found;
  const auto colon = value.rfind(':');
  if (colon == std::string_view::npos) return found;
  found.port = whole_number<std::uint16_t>(value.substr(colon + 1)).value_or(usual_ras_port);
  auto host = value.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (!host.empty() && lower(host) != "localhost") found.hosts = {std::string(host)};
  return found;
}

std::optional<RasState> ras_state(std::chrono::milliseconds limit, const RasAddress& address) {
  const auto end = Clock::now() + limit;
  for (const auto& host : address.hosts) {
    const auto socket = connect_to(host, address.port);
    if (!socket.is_open()) continue;
    auto state = answer_of(Conversation(socket, end), limit);
    if (!state) state.emplace().problem = ras_is_silent;
    return state;
  }
  return std::nullopt;
}

}  // namespace shakedown
