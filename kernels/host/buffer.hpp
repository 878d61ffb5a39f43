// Page-aligned memory of a Work. The team that uses the pages touches them first, which places them on its NUMA node.
// This file also has the position-dependent words that copies move.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "kernels/check.hpp"
#include "kernels/host/team.hpp"
#include "kernels/reference.hpp"

namespace shakedown::host {

/// Unmaps the memory that it owns.
struct Unmap {
  std::size_t bytes = 0;
  void operator()(std::byte* begin) const { munmap(begin, bytes); }
};
using Mapping = std::unique_ptr<std::byte, Unmap>;

/// Maps `bytes` of the file, or anonymous memory if file is -1. Errors: std::bad_alloc.
inline Mapping map_memory(std::size_t bytes, int file = -1) {
  const int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (begin == MAP_FAILED) throw std::bad_alloc();
  return Mapping(static_cast<std::byte*>(begin), Unmap{bytes});
}

/// Sets word i of the buffer to copy_word(i, source). An incomplete last word is left unchanged.
inline void fill_words(std::span<std::byte> buffer, std::uint64_t source, Team& team) {
  team.each_range(buffer.size() / 8, [&](std::size_t begin, std::size_t end) {
    for (auto i = begin; i < end; ++i) {
      const auto word = reference::copy_word(i, source);
      std::memcpy(buffer.data() + 8 * i, &word, 8);
    }
  });
}

inline constexpr int poison_byte = 0xa5;

inline void poison(std::span<std::byte> buffer, Team& team) {
  team.each_range(buffer.size(), [&](std::size_t begin, std::size_t end) {
    std::memset(buffer.data() + begin, poison_byte, end - begin);
  });
}

/// Compares every word with copy_word(i, source).
inline Check check_words(std::span<const std::byte> buffer, std::uint64_t source) {
  Checker checker;
  for (std::size_t i = 0; i < buffer.size() / 8; ++i) {
    std::uint64_t got = 0;
    std::memcpy(&got, buffer.data() + 8 * i, 8);
    checker.expect_equal(i, got, reference::copy_word(i, source));
  }
  return checker.result();
}

inline void flip_one_bit(std::span<std::byte> buffer) { buffer[buffer.size() / 2] ^= std::byte{1}; }

}  // namespace shakedown::host
