#include "node/gpu_claim.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <thread>
#include <utility>

#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

namespace shakedown {

namespace {

/// Returns an abstract socket address. The name of an abstract socket begins with a zero byte and ends at the length of
/// the address.
std::pair<sockaddr_un, socklen_t> address_of(const std::string& gpu) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto name = ("shakedown/" + gpu).substr(0, sizeof address.sun_path - 1);
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

int new_socket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

/// Returns the credentials of the process that listens at this address, as they were when it began to listen. The
/// process is 0 if the kernel does not report it.
ucred owner_of(const std::string& gpu) {
  ucred owner{};
  socklen_t length = sizeof owner;
  const int asking = new_socket();
  const auto [address, size] = address_of(gpu);
  const bool told = connect(asking, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                    getsockopt(asking, SOL_SOCKET, SO_PEERCRED, &owner, &length) == 0;
  close(asking);
  return told ? owner : ucred{0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
}

/// Returns the run time of a process as ", for 35 s"; empty if it is unknown.
std::string since(int process) {
  const auto stat = stat_of(process);
  double start = 0, up = 0;
  std::istringstream(line_of("/proc/uptime").value_or("")) >> up;
  if (!stat || !(std::istringstream(stat->started) >> start) || up <= 0) return "";
  return fmt::format(", for {:.0f} s", std::max(0.0, up - start / static_cast<double>(sysconf(_SC_CLK_TCK))));
}

std::string words(const ucred& owner) {
  if (owner.pid == 0 && owner.uid == static_cast<uid_t>(-1)) return "a process that does not answer";
  if (owner.pid == 0) return fmt::format("a process of another container, of user {}", owner.uid);
  const auto name = line_of(fmt::format("/proc/{}/comm", owner.pid));
  return fmt::format("process {}{} of user {}{}", owner.pid, name ? " (" + one_line(*name) + ")" : "", owner.uid,
                     since(owner.pid));
}

}  // namespace

GpuClaim::GpuClaim(const std::string& gpu, const std::set<int>& friends, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  const auto [address, size] = address_of(gpu);
  socket_ = new_socket();
  while (bind(socket_, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    if (errno != EADDRINUSE) return;  // the kernel does not support such sockets, so no process can hold one
    const auto owner = owner_of(gpu);
    if (owner.pid != 0 && friends.contains(owner.pid)) return;
    if (std::chrono::steady_clock::now() > end) {
      refusal_ = gpu + " is in use by another measurement: " + words(owner);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  listen(socket_, SOMAXCONN);  // no connection is ever accepted, but a client can read the credentials of the listener
}

GpuClaim::GpuClaim(GpuClaim&& other) noexcept { *this = std::move(other); }

GpuClaim& GpuClaim::operator=(GpuClaim&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(refusal_, other.refusal_);
  return *this;
}

GpuClaim::~GpuClaim() {
  if (socket_ >= 0) close(socket_);
}

}  // namespace shakedown
