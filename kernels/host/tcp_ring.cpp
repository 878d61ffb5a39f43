#include "kernels/host/tcp_ring.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "base/door.hpp"
#include "base/interfaces.hpp"
#include "base/text.hpp"
#include "kernels/ops/operation.hpp"

namespace shakedown::host {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto connect_limit = std::chrono::seconds(20);
/// A rank whose connection is closed waits for this time, so that the watchdog names the lost rank first.
constexpr auto watchdog_speaks = std::chrono::seconds(15);

/// Returns the addresses at which the next host may reach this rank. Loopback would bypass the interface.
std::vector<std::string> addresses(int port) {
  auto found = own_addresses();
  if (found.size() > 1) std::erase(found, "127.0.0.1");
  for (auto& address : found) address += ":" + std::to_string(port);
  return found;
}

/// Returns the next connection from `rank`. If there is none within the limit, the returned socket is not open.
Socket accept(Door& door, const std::vector<Socket>& listeners, int rank) {
  const auto end = Clock::now() + connect_limit;
  while (Clock::now() < end) {
    door.wait(listeners, std::chrono::milliseconds(200));
    for (auto& guest : door.receive(listeners)) {
      if (guest.hello.from == rank && send_all(guest.socket, guest.answer)) return std::move(guest.socket);
    }
  }
  return Socket();
}

/// Returns the name of the interface that has the local address of the connection; the address if no interface has it.
std::string interface_of(const Socket& socket) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  auto* const raw = reinterpret_cast<sockaddr*>(&own);
  const auto address = getsockname(socket.get(), raw, &size) == 0 ? number_of(raw) : "";
  for (const auto& interface : own_interfaces()) {
    if (interface.address == address) return interface.name;
  }
  return address;
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

[[noreturn]] void report_closed(const char* neighbour) {
  std::this_thread::sleep_for(watchdog_speaks);
  throw std::runtime_error("via:net: the TCP connection to the " + std::string(neighbour) +
                           " rank is closed: that rank or its network has failed");
}

}  // namespace

TcpRing::TcpRing(Group& group)
    : rank_(static_cast<std::size_t>(group.rank())), size_(static_cast<std::size_t>(group.size())) {
  if (size_ == 1) throw Unsupported("via:net: one rank sends nothing over the network; start at least two ranks");
  Nonce nonce = fresh_nonce();
  group.broadcast(std::as_writable_bytes(std::span(nonce)), 0);
  const std::string key(nonce.begin(), nonce.end());
  int port = 0;
  std::vector<Socket> listeners;
  listeners.push_back(listen_anywhere(port));
  const auto at = group.gather(joined(addresses(port), " "));

  const int rank = group.rank(), next = (rank + 1) % group.size(), previous = (rank + group.size() - 1) % group.size();
  Door door(key, Door::Mode::once, rank, size_, 0);
  const auto connect = [&] {
    const Hello hello{.from = rank, .to = next};
    next_ = enter(split(at[static_cast<std::size_t>(next)], ' '), hello, key, connect_limit);
  };
  // A listener answers only while it accepts, so even ranks connect first and odd ranks accept first.
  if (rank % 2 == 0) connect();
  previous_ = accept(door, listeners, previous);
  if (rank % 2 == 1) connect();
  group.barrier();  // no rank gives up while others still connect
  if (!next_.is_open() || !previous_.is_open()) {
    constexpr bool asked_by_name = true;
    throw Unsupported("via:net: no TCP connection to the next rank at " + at[static_cast<std::size_t>(next)] +
                          ", or none from the previous rank, within 20 s; check the firewall, or name an interface "
                          "(--interface)",
                      asked_by_name);
  }
  interface_ = interface_of(next_);
}

void TcpRing::exchange(std::span<const std::byte> out, std::span<std::byte> in) {
  while (!out.empty() || !in.empty()) {
    std::array<pollfd, 2> entries{pollfd{out.empty() ? -1 : next_.get(), POLLOUT, 0},
                                  pollfd{in.empty() ? -1 : previous_.get(), POLLIN, 0}};
    if (poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR)
      throw std::runtime_error("via:net: poll failed");
    if (entries[0].revents != 0) {
      const auto sent = send(next_.get(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && !would_block()) report_closed("next");
      if (sent > 0) out = out.subspan(static_cast<std::size_t>(sent));
    }
    if (entries[1].revents != 0) {
      const auto got = recv(previous_.get(), in.data(), in.size(), MSG_DONTWAIT);
      if (got == 0 || (got < 0 && !would_block())) report_closed("previous");
      if (got > 0) in = in.subspan(static_cast<std::size_t>(got));
    }
  }
}

/// In the first n - 1 steps a rank adds the part that it receives to its own and passes the sum on; in the next n - 1
/// steps it passes complete parts on.
template <class T>
void TcpRing::sum(std::span<const T> in, std::span<T> out) {
  if (in.data() != out.data()) std::memcpy(out.data(), in.data(), out.size_bytes());
  const auto part = [&](std::size_t index) {
    const auto first = index % size_ * out.size() / size_;
    return out.subspan(first, (index % size_ + 1) * out.size() / size_ - first);
  };
  received_.resize((out.size() / size_ + 1) * sizeof(T));
  for (std::size_t step = 0; step + 1 < size_; ++step) {
    const auto to = part(rank_ + size_ - step - 1);
    const auto arrived = std::span(received_).first(to.size_bytes());
    exchange(std::as_bytes(part(rank_ + size_ - step)), arrived);
    for (std::size_t i = 0; i < to.size(); ++i) {
      T value;
      std::memcpy(&value, arrived.data() + i * sizeof(T), sizeof(T));
      to[i] += value;
    }
  }
  for (std::size_t step = 0; step + 1 < size_; ++step) {
    exchange(std::as_bytes(part(rank_ + size_ + 1 - step)), std::as_writable_bytes(part(rank_ + size_ - step)));
  }
}

template void TcpRing::sum(std::span<const float>, std::span<float>);
template void TcpRing::sum(std::span<const double>, std::span<double>);

}  // namespace shakedown::host
