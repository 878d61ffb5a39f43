#include "base/rank_values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace shakedown::rank_values_test {
namespace {

using List = std::vector<OptionalDouble>;

/// Columns of values that a program measures, and of values that no program should write.
std::vector<std::pair<std::string, List>> columns() {
  const double inf = std::numeric_limits<double>::infinity(), least = std::numeric_limits<double>::denorm_min();
  return {{"none", {}},
          {"one", {396.25}},
          {"equal", List(100, 0.0)},
          {"missing", List(100)},
          {"equal or missing", {1980, std::nullopt, 1980}},
          {"temperatures", {36, 41, 38, std::nullopt, 87}},
          {"rates", {700.123456789, 690.1, 698.7654321, 1.0 / 3 + 700}},
          {"rates or missing", {std::nullopt, 0.1, 0.11, 0.12, std::nullopt}},
          {"zero and others", {0.0, 0.4, 12.25, 0.1}},
          {"both signs", {-1.5, 1.5, -0.0, 0.0}},
          {"all orders", {least, 1e308, -inf, inf, std::nullopt}},
          {"not a number", {std::nan(""), std::nan("7"), 1, std::nullopt}}};
}

std::uint64_t bits(OptionalDouble value) { return std::bit_cast<std::uint64_t>(value); }

void expect_same(const RankValues& values, const List& expected, const std::string& name) {
  ASSERT_EQ(values.size(), expected.size()) << name;
  EXPECT_EQ(values.empty(), expected.empty()) << name;
  std::size_t i = 0;
  for (const OptionalDouble value : values) {
    EXPECT_EQ(bits(value), bits(expected[i])) << name << ", rank " << i;
    EXPECT_EQ(bits(values[i]), bits(expected[i])) << name << ", rank " << i;
    ++i;
  }
  EXPECT_EQ(i, expected.size()) << name;
}

TEST(RankValues, KeepEveryBitWhenCompressed) {
  for (const auto& [name, list] : columns()) {
    RankValues values(list);
    values.compress();
    expect_same(values, list, name);
    values.compress();
    expect_same(values, list, name + ", twice");
    expect_same(RankValues(values), list, name + ", a copy");
    for (auto& value : values) value = value;
    expect_same(values, list, name + ", restored");
  }
}

TEST(RankValues, CanBeChangedWhenCompressed) {
  for (const auto& [name, list] : columns()) {
    RankValues values(list);
    values.compress();
    List expected = list;
    values.push_back(7);
    expected.emplace_back(7);
    expect_same(values, expected, name);
    values.compress();
    values[0] = std::nullopt;
    expected[0] = std::nullopt;
    expect_same(values, expected, name);
    values.compress();
    const RankValues taken = std::move(values);
    expect_same(taken, expected, name);
    values = RankValues(2, 1.0);
    expect_same(values, {1.0, 1.0}, name);
  }
}

TEST(RankValues, AreFoundByRandomAccess) {
  RankValues restored{3.5, std::nullopt, 9.25, 1.125};
  restored.compress();
  const RankValues values = restored;
  EXPECT_EQ(std::max_element(values.begin(), values.end()) - values.begin(), 2);
  EXPECT_EQ(*(values.end() - 1), OptionalDouble(1.125));
  EXPECT_EQ(values.begin()[2], OptionalDouble(9.25));
  EXPECT_EQ(values.at(0), OptionalDouble(3.5));
  EXPECT_THROW(static_cast<void>(values.at(4)), std::out_of_range);
  EXPECT_EQ(values, (RankValues{3.5, std::nullopt, 9.25, 1.125}));
  EXPECT_NE(values, (RankValues{3.5, std::nullopt, 9.25}));
  EXPECT_NE(values, (RankValues{3.5, 2, 9.25, 1.125}));
}

}  // namespace
}  // namespace shakedown::rank_values_test
