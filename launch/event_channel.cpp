#include "launch/event_channel.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "base/sha256.hpp"

namespace shakedown {
namespace {

constexpr std::size_t max_connections = 64;         // enough for rank 0 and for ranks that end the job
constexpr std::size_t max_bytes_of_turn = 1 << 18;  // bytes read from a connection at once, ten times a second

/// Returns a duplicate of a descriptor. The number of the duplicate is above those that jobs use, so that a job's
/// descriptors do not replace it.
Descriptor above_those_of_jobs(Descriptor one) { return Descriptor(fcntl(one.get(), F_DUPFD_CLOEXEC, 16)); }

}  // namespace

void EventLines::take(std::string_view bytes, const Hear& hear) {
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const auto part = bytes.substr(0, end);
    is_too_long_ = is_too_long_ || begun_.size() + part.size() > max_event_bytes;
    if (is_too_long_) {
      begun_.clear();
    } else {
      begun_ += part;
    }
    if (end == std::string_view::npos) return;
    if (const auto event = event_in(begun_)) hear(*event);
    begun_.clear();
    is_too_long_ = false;
    bytes.remove_prefix(end + 1);
  }
}

EventChannel::EventChannel(bool over_tcp)
    : key_(hexadecimal(random_bytes(32))), door_(key_, Door::Mode::once, 0, max_connections, 0) {
  EventAddress address;
  std::array<int, 2> ends{};
  struct stat facts {};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0) {
    sources_.push_back({Socket(ends[0])});
    theirs_ = above_those_of_jobs(Descriptor(ends[1]));
  }
  if (theirs_.is_open() && fstat(theirs_.get(), &facts) == 0) {
    address.descriptor = descriptor_in_job;
    address.inode = facts.st_ino;
  } else {
    why_not_ = std::string("socketpair: ") + std::strerror(errno);
  }
  if (over_tcp) {
    address.key = key_;
    address.addresses = listen();
  }
  address_ = address.text();
}

/// Listens on all addresses of this host, because it is unknown which address other hosts can reach. Returns all
/// addresses with their ports.
std::vector<std::string> EventChannel::listen() try {
  std::vector<std::string> all;
  for (const auto& address : own_addresses()) {
    int port = 0;
    auto listener = listen_at(address, port);
    if (!listener.is_open()) continue;
    listeners_.push_back(std::move(listener));
    all.push_back(address + ":" + std::to_string(port));
  }
  if (all.empty()) why_not_ = std::string("no port can be listened at: ") + std::strerror(errno);
  return all;
} catch (const std::exception& error) {
  why_not_ = error.what();
  return {};
}

bool EventChannel::read(const EventLines::Hear& hear) {
  for (auto& guest : door_.receive(listeners_)) {
    if (sources_.size() > max_connections || !send_all(guest.socket, guest.answer)) continue;
    sources_.push_back({std::move(guest.socket)});
  }
  bool heard = false;
  std::array<char, 16384> buffer{};
  for (auto& [socket, lines] : sources_) {
    for (std::size_t taken = 0; taken < max_bytes_of_turn;) {
      const auto count = recv(socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (count <= 0) socket.close_now();
      if (count <= 0) break;
      taken += static_cast<std::size_t>(count);
      lines.take({buffer.data(), static_cast<std::size_t>(count)}, [&](const Event& event) {
        heard = was_heard_ = true;
        hear(event);
      });
    }
  }
  std::erase_if(sources_, [](const Source& source) { return !source.socket.is_open(); });
  return heard;
}

}  // namespace shakedown
