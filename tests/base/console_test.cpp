// Width and colour of output on a terminal and in a pipe.
#include "base/console.hpp"

#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <cstdlib>

#include "base/descriptor.hpp"

namespace shakedown::console_test {
namespace {

class Console : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* const name : {"COLUMNS", "NO_COLOR", "CLICOLOR_FORCE"}) unsetenv(name);
    setenv("TERM", "xterm", 1);
    winsize size{};
    size.ws_col = 93;
    int controller = -1, terminal = -1;
    ASSERT_EQ(openpty(&controller, &terminal, nullptr, nullptr, &size), 0);
    controller_ = Descriptor(controller);
    terminal_ = Descriptor(terminal);
    int ends[2] = {-1, -1};
    ASSERT_EQ(pipe(ends), 0);
    reader_ = Descriptor(ends[0]);
    pipe_ = Descriptor(ends[1]);
  }

  Descriptor controller_, terminal_, reader_, pipe_;
};

TEST_F(Console, KnowsTheWidthOfATerminalAndNoneOfAPipe) {
  EXPECT_EQ(columns_of(terminal_.get()), 93u);
  EXPECT_EQ(columns_of(pipe_.get()), std::nullopt);
}

TEST_F(Console, TakesTheWidthOfColumnsFirst) {
  setenv("COLUMNS", "77", 1);
  EXPECT_EQ(columns_of(terminal_.get()), 77u);
  EXPECT_EQ(columns_of(pipe_.get()), 77u);
  setenv("COLUMNS", "wide", 1);
  EXPECT_EQ(columns_of(terminal_.get()), 93u);
}

TEST_F(Console, HasColourOnATerminalUnlessNoColorIsSet) {
  EXPECT_TRUE(shows_color(terminal_.get()));
  EXPECT_FALSE(shows_color(pipe_.get()));
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(shows_color(terminal_.get()));
  setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(shows_color(terminal_.get())) << "an empty variable is none (no-color.org)";
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(shows_color(terminal_.get()));
}

TEST_F(Console, HasColourAnywhereWhereItIsForced) {
  setenv("CLICOLOR_FORCE", "1", 1);
  EXPECT_TRUE(shows_color(pipe_.get()));
  setenv("CLICOLOR_FORCE", "0", 1);
  EXPECT_FALSE(shows_color(pipe_.get()));
  setenv("CLICOLOR_FORCE", "1", 1);
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(shows_color(pipe_.get()));
}

}  // namespace
}  // namespace shakedown::console_test
