// Work in several threads: order, errors, and how far work is ahead of its use.
#include "base/threads.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace shakedown::threads_test {
namespace {

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(WorkInOrder, IsUsedOnceInTheOrderOfTheNumbers) {
  std::vector<int> worked(500);
  std::vector<std::size_t> used;
  std::atomic<std::size_t> begun = 0;
  std::size_t most_ahead = 0;
  in_order(
      worked.size(),
      [&](std::size_t i) {
        ++begun;
        worked[i] = static_cast<int>(i) + 1;
      },
      [&](std::size_t i) {
        EXPECT_EQ(worked[i], static_cast<int>(i) + 1);
        most_ahead = std::max(most_ahead, begun - used.size());
        used.push_back(i);
      });
  ASSERT_EQ(used.size(), worked.size());
  for (std::size_t i = 0; i < used.size(); ++i) EXPECT_EQ(used[i], i);
  EXPECT_LE(most_ahead, 1 + 2 * std::max(1U, std::thread::hardware_concurrency())) << "bounds the memory";
  in_order(
      0, [](std::size_t) { FAIL(); }, [](std::size_t) { FAIL(); });
}

TEST(WorkInOrder, EndsWithTheFirstErrorOfWorkOrUse) {
  std::vector<std::size_t> used;
  const auto use = [&](std::size_t i) { used.push_back(i); };
  const auto fails_from_7 = [](std::size_t i) {
    if (i >= 7) throw std::runtime_error(std::to_string(i));
  };
  EXPECT_EQ(error_of([&] { in_order(100, fails_from_7, use); }), "7");
  EXPECT_EQ(used.size(), 7u);
  EXPECT_EQ(error_of([&] {
              in_order(
                  100, [](std::size_t) {}, fails_from_7);
            }),
            "7");
}

TEST(WorkInThreads, IsDoneForEachNumberAndThrowsTheErrorOfTheLowest) {
  const std::vector<std::size_t> numbers{3, 0, 2, 1};
  std::vector<std::atomic<int>> worked(numbers.size());
  const auto work = [&](std::size_t i) {
    ++worked[i];
    if (i > 0) throw std::runtime_error(std::to_string(i));
  };
  EXPECT_EQ(error_of([&] { in_threads(numbers, work); }), "1");
  EXPECT_EQ(error_of([&] { in_threads(numbers, work, 1); }), "1");
  for (const auto& count : worked) EXPECT_EQ(count, 2);
  in_threads({}, [](std::size_t) { FAIL(); });
}

}  // namespace
}  // namespace shakedown::threads_test
