// A port for a test that passes the number on before it listens.
#pragma once

#include <random>

#include "base/socket.hpp"

namespace shakedown {

/// Returns a port of 127.0.0.1 at which no program listens. It is below the ports that Linux gives to outgoing
/// connections (32768 and more), since another test could get such a port in between.
inline int free_port() {
  std::random_device random;
  std::uniform_int_distribution<int> ports(10'000, 32'000);
  for (;;) {
    int port = ports(random);
    if (listen_at("127.0.0.1", port).is_open()) return port;
  }
}

}  // namespace shakedown
