// base/names.hpp: the words of an enum, and the conversion back.
#include "base/names.hpp"

#include <gtest/gtest.h>

namespace shakedown::names_test {
namespace {

enum class Colour { red, green };
constexpr auto words(Colour) { return names("red", "dark green"); }

TEST(Names, AreFoundForAValueAndBack) {
  EXPECT_EQ(name(Colour::green), "dark green");
  EXPECT_EQ(named<Colour>("red"), Colour::red);
}

TEST(Names, OfWhatIsNoValueAreAQuestionMark) { EXPECT_EQ(name(static_cast<Colour>(2)), "?"); }

TEST(Names, StandForNothingWhereTheWordIsUnknown) {
  EXPECT_FALSE(named<Colour>("green"));
  EXPECT_FALSE(named<Colour>(""));
}

}  // namespace
}  // namespace shakedown::names_test
