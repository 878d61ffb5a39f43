// What the kernel says of a process.
#include "base/process.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

namespace shakedown::process_test {
namespace {

TEST(Process, HasItsParentAndWhenItBegan) {
  const auto mine = stat_of(getpid()), parent = stat_of(getppid());
  ASSERT_TRUE(mine && parent);
  EXPECT_EQ(mine->parent, getppid());
  EXPECT_EQ(mine->state, 'R');
  EXPECT_GE(std::atoll(mine->started.c_str()), std::atoll(parent->started.c_str()));
}

TEST(Process, ThatThereIsNotHasNothing) { EXPECT_FALSE(stat_of(-1)); }

}  // namespace
}  // namespace shakedown::process_test
