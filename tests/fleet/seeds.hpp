// Works through many made-up fleets or days, several at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fleet/flags.hpp"

namespace shakedown::fleet {

struct Seeds {
  std::uint64_t first, last;
};

/// "A..B" or "A", of one of the two kinds: those to tune the judge with, or those held out.
inline Seeds seeds_of(const std::string& flag, const std::string& text) {
  const auto dots = text.find("..");
  const auto first = Flags::whole(flag, text.substr(0, dots));
  const auto last = dots == std::string::npos ? first : Flags::whole(flag, text.substr(dots + 2));
  if (last < first || (first < 1000000 && last >= 1000000)) {
    throw std::runtime_error(flag + "=" + text + ": A..B, of those for tuning (1..999) or held out (1000000..)");
  }
  return {first, last};
}

/// keep(seed, work(seed)) of each; keep runs alone. The first error ends it and is thrown on as std::runtime_error.
template <class Work, class Keep>
void each_seed(const Seeds& seeds, int workers, Work work, Keep keep) {
  std::atomic<std::uint64_t> next{seeds.first};
  std::mutex mutex;
  std::string failure;
  std::vector<std::thread> threads;
  for (int i = 0; i < std::max(workers, 1); ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t seed = next++; seed <= seeds.last; seed = next++) {
        try {
          auto outcome = work(seed);
          const std::scoped_lock lock(mutex);
          keep(seed, std::move(outcome));
        } catch (const std::exception& error) {
          const std::scoped_lock lock(mutex);
          if (failure.empty()) failure = error.what();
          next = seeds.last + 1;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (!failure.empty()) throw std::runtime_error(failure);
}

}  // namespace shakedown::fleet
