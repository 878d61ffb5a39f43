#include "base/path_mtu.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/socket.hpp"

namespace shakedown {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int first_port = 33434;  // traceroute's ports: no program listens there
constexpr int rounds = 3;

/// A UDP socket that is connected to one port of a host, so that the kernel reports "port unreachable" to it.
class Probe {
 public:
  Probe(const std::string& address, int port) : socket_(datagrams_to(address, port)) {
    const bool v6 = address.find(':') != std::string::npos;
    // "Probe" forbids fragments and ignores a smaller MTU that the kernel remembers.
    const int level = v6 ? IPPROTO_IPV6 : IPPROTO_IP, discover = v6 ? IPV6_PMTUDISC_PROBE : IP_PMTUDISC_PROBE;
    setsockopt(socket_.get(), level, v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &discover, sizeof discover);
    socklen_t size = sizeof mtu_;
    if (getsockopt(socket_.get(), level, v6 ? IPV6_MTU : IP_MTU, &mtu_, &size) != 0) mtu_ = 0;
    headers_ = v6 ? 48 : 28;  // of IP and UDP
  }

  int mtu() const { return mtu_; }
  int descriptor() const { return socket_.get(); }
  bool answered() const { return answered_; }

  /// Sends an IP packet of this size.
  void send(int bytes) {
    answered_ = false;
    const std::vector<char> data(static_cast<std::size_t>(std::max(bytes - headers_, 0)));
    // The kernel refuses a packet above the MTU that a router reported.
    if (::send(socket_.get(), data.data(), data.size(), MSG_NOSIGNAL) < 0 && errno == EMSGSIZE) answered_ = true;
  }
  void receive() {
    char any;
    if (recv(socket_.get(), &any, sizeof any, 0) < 0 && errno != EAGAIN && errno != EWOULDBLOCK) answered_ = true;
  }

 private:
  Socket socket_;
  int mtu_ = 0, headers_ = 0;
  bool answered_ = false;
};

/// The probes of one host, and how often each size was answered.
struct Path {
  std::string host;
  Socket connection;  // to the port that accepts connections
  Probe small, large;
  int segment = 0;  // largest IP packet of the connection in bytes; 0 if the host has not accepted it
  int small_answers = 0;
  bool large_arrives = false;
};

std::optional<Path> path_to(const std::string& host, int port) {
  const auto addresses = addresses_of(host);
  if (addresses.empty()) return std::nullopt;
  const auto& address = addresses.front();
  Path path{host, begin_connection("", address, port), Probe(address, first_port), Probe(address, first_port + 1)};
  return path.connection.is_open() && path.small.mtu() > 0 ? std::optional(std::move(path)) : std::nullopt;
}

/// Waits until the connections are made, and notes the size of their segments.
void note_segments(std::vector<Path>& paths, std::chrono::milliseconds patience) {
  constexpr int headers = 40, timestamps = 12;  // of IPv4 and TCP
  const auto deadline = Clock::now() + patience;
  for (Path& path : paths) {
    pollfd writable{path.connection.get(), POLLOUT, 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (poll(&writable, 1, static_cast<int>(std::max<long>(left, 0))) != 1) continue;
    tcp_info info{};
    socklen_t size = sizeof info;
    if (connection_error(path.connection) != 0) continue;
    if (getsockopt(path.connection.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    const int options = (info.tcpi_options & TCPI_OPT_TIMESTAMPS) != 0 ? timestamps : 0;
    path.segment = std::min(static_cast<int>(info.tcpi_snd_mss) + headers + options, path.large.mtu());
  }
  for (Path& path : paths) path.connection.close_now();
  std::erase_if(paths, [](const Path& path) { return path.segment == 0; });
}

void await_answers(const std::vector<Probe*>& probes, std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  while (true) {
    std::vector<pollfd> waiting;
    std::vector<Probe*> whose;
    for (Probe* probe : probes) {
      if (probe->answered()) continue;
      waiting.push_back({probe->descriptor(), POLLIN, 0});
      whose.push_back(probe);
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (waiting.empty() || left <= 0) return;
    if (poll(waiting.data(), waiting.size(), static_cast<int>(left)) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents != 0) whose[i]->receive();
    }
  }
}

/// Sends both sizes to all hosts, and notes the answers.
void try_all(std::vector<Path>& paths, std::chrono::milliseconds patience) {
  constexpr int small_bytes = 64;  // bytes
  std::vector<Probe*> probes;
  for (Path& path : paths) {
    path.large.send(path.segment);
    path.small.send(small_bytes);
    probes.insert(probes.end(), {&path.large, &path.small});
  }
  await_answers(probes, patience);
  for (Path& path : paths) {
    path.small_answers += path.small.answered() ? 1 : 0;
    path.large_arrives |= path.large.answered();
  }
}

}  // namespace

std::map<std::string, int> hosts_losing_large_packets(const std::vector<std::string>& hosts,
                                                      std::chrono::milliseconds patience, int port) {
  constexpr std::size_t max_paths = 300;
  constexpr std::chrono::seconds name_limit(2);  // a name server that does not answer must not delay the start
  std::vector<Path> paths;
  const auto start = Clock::now();
  for (const auto& host : hosts) {
    if (paths.size() == max_paths || Clock::now() - start > name_limit) break;
    if (auto path = path_to(host, port)) paths.push_back(std::move(*path));
  }
  note_segments(paths, patience);
  // A host limits its answers (six at once, then one per second): each round asks only those whose large packets got
  // no answer, and a host is accused only if its small packets were answered in every round.
  for (int round = 1; round <= rounds && !paths.empty(); ++round) {
    try_all(paths, patience);
    std::erase_if(paths, [round](const Path& path) { return path.large_arrives || path.small_answers < round; });
  }
  std::map<std::string, int> lost;
  for (const Path& path : paths) lost.emplace(path.host, path.segment);
  return lost;
}

}  // namespace shakedown
