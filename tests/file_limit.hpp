// The soft limit of open files, lowered for a test.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <functional>

namespace shakedown::testing_support {

/// Lowers the limit to `files` for the call, and returns the limit at its end.
inline rlim_t file_limit_after(rlim_t files, const std::function<void()>& call) {
  rlimit before{};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  auto few = before;
  few.rlim_cur = files;
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  call();
  rlimit now{};
  getrlimit(RLIMIT_NOFILE, &now);
  setrlimit(RLIMIT_NOFILE, &before);
  return now.rlim_cur;
}

}  // namespace shakedown::testing_support
