// Work that several threads share.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

namespace shakedown {

/// More threads read files no faster, and the watch of calls that may hang has room for so many (base/timed_call.hpp).
inline constexpr std::size_t max_reading_threads = 8;

/// Returns 0, 1, ..., count - 1.
std::vector<std::size_t> numbers_below(std::size_t count);

/// Calls `work` with each of the numbers, which begin in this order, in this and up to `max_threads` - 1 other threads:
/// one for each core. Errors: the exception of the lowest number, after all numbers were worked on.
void in_threads(const std::vector<std::size_t>& numbers, const std::function<void(std::size_t)>& work,
                std::size_t max_threads = std::numeric_limits<std::size_t>::max());

/// Calls `work` with each number below `count` in up to max_reading_threads other threads, and `use` in this thread in the order of the numbers,
/// each after its work. Few numbers are worked on before they are used, so that few results are in memory. Errors: the
/// first exception in that order; later numbers are then not used.
void in_order(std::size_t count, const std::function<void(std::size_t)>& work,
              const std::function<void(std::size_t)>& use);

}  // namespace shakedown
