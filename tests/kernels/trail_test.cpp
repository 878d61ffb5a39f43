// A skipped or partial operation is detected, whichever operation it is; and no error is reported if all ran. The test
// simulates a buffer byte by byte.
#include "kernels/trail.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace shakedown::trail_test {
namespace {

constexpr int poison = 0xa5;

std::byte value(std::size_t i) { return static_cast<std::byte>(1 + i * i % 100 + i % 37); }

class Player {
 public:
  Player(const Trail& trail) : trail_(trail), whole_(trail.room(), static_cast<std::byte>(poison)) {}

  /// Simulates one series. Operation `left_out`, counted from 0, writes only `part` bytes.
  void play(int operations, std::optional<int> left_out = std::nullopt, std::size_t part = 0) {
    stage_trail(whole_, trail_, operations, poison);
    for (int i = 0; i < operations; ++i) {
      const auto at = trail_.next();
      const auto bytes = i == left_out ? part : trail_.bytes();
      for (std::size_t j = 0; j < bytes; ++j) whole_[at + j] = value(j);
    }
  }

  Check check() const {
    Check check;
    for (std::size_t j = 0; j < trail_.bytes(); ++j) {
      ++check.compared;
      if (whole_[trail_.last() + j] != value(j)) ++check.mismatched;
    }
    check_trail(whole_, trail_, check);
    return check;
  }

 private:
  Trail trail_;
  std::vector<std::byte> whole_;
};

const std::vector<Trail> trails{Trail(8), Trail(512), Trail(2000), Trail(20000), Trail(4, 4, 12), Trail(40, 4, 12)};

TEST(Trail, IsWholeWhereEveryOperationRan) {
  for (const auto& trail : trails) {
    Player player(trail);
    for (const int operations : {1, 5, 3, 7, 4, 4, 10, 1, 1, 1}) {
      player.play(operations);
      EXPECT_TRUE(player.check().passed()) << trail.bytes() << " bytes, " << operations << " operations";
    }
  }
}

TEST(Trail, ShowsWhicheverOperationOfTheLastSeriesWasLeftOut) {
  for (const auto& trail : trails) {
    for (int missing = 0; missing < 5; ++missing) {
      Player player(trail);
      for (int before = 0; before < missing; ++before) player.play(5);
      player.play(5, missing);
      EXPECT_FALSE(player.check().passed()) << trail.bytes() << " bytes, operation " << missing;
    }
  }
}

TEST(Trail, ShowsAnEarlierSeriesThatLeftOneOutWhileThereIsPlace) {
  Player player(Trail(2000));
  player.play(1);
  player.play(1, 0);
  player.play(1);
  const auto check = player.check();
  EXPECT_FALSE(check.passed());
  EXPECT_NE(check.first.find("operation 2 of the last 3"), std::string::npos) << check.first;
}

TEST(Trail, ShowsALastOperationThatDidOnlyAPartEvenIfOneBeforeWasWhole) {
  for (const auto& trail : trails) {
    Player player(trail);
    player.play(3);
    player.play(2, 1, trail.bytes() / 2);
    EXPECT_FALSE(player.check().passed()) << trail.bytes();
  }
}

TEST(Trail, HasAPlaceForEveryOperationThatTheTimingLoopQueues) {
  constexpr int most = Trail::max_operations;
  for (const std::size_t bytes : {8u, 512u, 2000u}) {
    for (const int missing : {0, most / 2, most - 1}) {
      Player player((Trail(bytes)));
      player.play(most);
      EXPECT_TRUE(player.check().passed());
      player.play(most, missing);
      EXPECT_FALSE(player.check().passed()) << bytes << " bytes, operation " << missing;
    }
  }
}

TEST(Trail, StaysWholeWhereMoreOperationsRanThanItHasPlaces) {
  for (const auto& trail : trails) {
    Player player(trail);
    player.play(30);
    EXPECT_TRUE(player.check().passed()) << trail.bytes();
  }
}

TEST(Trail, OfOutputsInPlaceKeepsThemApart) {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{1} << 20, std::size_t{1} << 30}) {
    const auto trail = Trail::apart(bytes);
    EXPECT_GE(trail.step(), bytes);
    EXPECT_EQ(trail.head(), bytes);
  }
  EXPECT_EQ(Trail::apart(std::size_t{8} << 30).room(), std::size_t{8} << 30);
}

}  // namespace
}  // namespace shakedown::trail_test
