// The memory of a host, which its ranks share.
#pragma once

#include <fmt/format.h>

#include <cstddef>

#include "base/host_memory.hpp"
#include "kernels/device.hpp"

namespace shakedown {

/// Errors: Unsupported, with the bytes needed and free, if the host has too little memory for its ranks, which each
/// request this many bytes.
inline void require_host_memory(std::size_t bytes, int ranks) {
  const auto available = available_memory();
  if (!available || static_cast<double>(bytes) * ranks <= *available) return;
  throw Unsupported(fmt::format("needs {:.1f} GB of the host's memory on each of {} ranks, {:.1f} GB free",
                                static_cast<double>(bytes) / 1e9, ranks, *available / 1e9));
}

}  // namespace shakedown
