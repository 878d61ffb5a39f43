// base/text.hpp: words, numbers and tables for human readers.
#include "base/text.hpp"

#include <gtest/gtest.h>

#include <set>

namespace shakedown::text_test {
namespace {

using Words = std::vector<std::string>;

TEST(Text, JoinsWords) {
  EXPECT_EQ(joined(Words{}), "");
  EXPECT_EQ(joined(std::set<std::string>{"b", "a"}), "a, b");
  EXPECT_EQ(joined(Words{"a", "b", "c"}, ", ", " and "), "a, b and c");
  EXPECT_EQ(joined(Words{"a", "b"}, "; "), "a; b");
  EXPECT_EQ(joined(Words{"", ""}, ","), ",") << "an empty word is a word";
}

TEST(Text, CountsInWords) {
  EXPECT_EQ(plural(1, "rank"), "1 rank");
  EXPECT_EQ(plural(std::size_t{0}, "rank"), "0 ranks");
  EXPECT_EQ(percent_text(0.1234), "12.3 %");
}

TEST(Text, MakesAnyBytesPrintable) {
  EXPECT_EQ(printable("node7.rack.example"), "node7.rack.example");
  EXPECT_EQ(printable("n\u00f6rd \u4e2d \U0001f600"), "n\u00f6rd \u4e2d \U0001f600");
  EXPECT_EQ(printable("a\033[2J\rb\tc\x7f"), "a?[2J?b?c?");
  EXPECT_EQ(printable("two\nlines"), "two\nlines");
  EXPECT_EQ(printable("\xff\xc3"), "??") << "a byte that is none, and a sequence that is cut off";
  EXPECT_EQ(printable("\xc0\xaf\xed\xa0\x80"), "?????") << "a long form and a surrogate";
  EXPECT_EQ(printable("\xc2\x9b"
                      "1m"),
            "??1m")
      << "an escape sequence of Latin-1";
}

TEST(Text, LetsNoNameTurnTheOrderOfReadingOrEndALine) {
  for (const std::string hidden : {"\u061c", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202e", "\u2066",
                                   "\u2069", "\xef\xbf\xbe", "\xef\xbf\xbf"}) {
    EXPECT_EQ(printable("n1" + hidden + "2"), "n1?2");
    EXPECT_EQ(one_line("n1" + hidden + "2\n"), "n1?2 ");
  }
  const std::string others = "\u061b\u200d\u2010\u2027\u202f\u2065\u206a\u05d0\ufffd \U0002028e";
  EXPECT_EQ(one_line(others), others) << "their neighbours, and letters that are read from the right";
}

TEST(Text, WrapsWhereAKeyOrASentenceHasAJoint) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(columns("n\u00f6rd"), 4u);
  EXPECT_EQ(wrapped("abcdefghij", 10), Lines{"abcdefghij"});
  EXPECT_EQ(wrapped("p2p/op:read/src:0 latency_us", 16), (Lines{"p2p/op:read/", "  src:0", "  latency_us"}));
  EXPECT_EQ(wrapped("rank 3 node0 x", 12), (Lines{"rank 3 node0", "  x"})) << "a blank needs no room at the end";
  EXPECT_EQ(wrapped("\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc", 4), (Lines{"\u00e4\u00f6\u00fc\u00e4", "  \u00f6\u00fc"}));
  EXPECT_EQ(wrapped("", 4), Lines{""});
}

TEST(Table, IsAsWideAsItsContentAndEndsNoLineInBlanks) {
  Table table({{"name"}, {"value"}});
  table.add_words({"a", "1"});
  table.add_words({"\u00e4\u00f6\u00fc\u00df\u00e4", ""});
  EXPECT_EQ(table.text({}), "name   value\na      1\n\u00e4\u00f6\u00fc\u00df\u00e4\n");
}

TEST(Table, OfAGridSetsNumbersToTheRightInColumnsOfOneWidth) {
  Table table({{"src"}, {"0"}, {"1"}});
  table.add_words({"0", "7", "12.25"});
  EXPECT_EQ(table.text({.gap = 1, .indent = "  ", .grid = true}), "  src     0     1\n  0       7 12.25\n");
}

TEST(Table, LetsTheWidestColumnGiveWay) {
  Table table;
  table.add_words({"abcdefghijklmnop", "12345678"});
  EXPECT_EQ(table.text({.width = 20}), "abcdefghij  12345678\n  klmnop\n");
}

TEST(Table, LetsNoControlCharacterThrough) {
  Table table;
  table.add_words({"a\033[2Jb"});
  EXPECT_EQ(table.text({}), "a?[2Jb\n");
}

}  // namespace
}  // namespace shakedown::text_test
