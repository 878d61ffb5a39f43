// The reader of strict JSON against the parser of the JSON library, on damaged documents and on long ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/results/json_field.hpp"

namespace shakedown::strict_json_test {
namespace {

using nlohmann::json;
using testing_support::Folder;

/// Returns the document, or "twice" for a key that occurs twice, which the library accepts; nullopt if it is refused.
std::optional<json> ours(const Folder& folder, const std::string& text) {
  try {
    return read_json(folder.write("a.json", text));
  } catch (const InputError& error) {
    if (std::string_view(error.what()).find("occurs twice") != std::string_view::npos) return "twice";
    return std::nullopt;
  }
}

std::optional<json> of_the_library(const std::string& text) {
  auto document = json::parse(text, nullptr, false);
  return document.is_discarded() ? std::nullopt : std::optional(std::move(document));
}

TEST(StrictJson, IsWhatTheJsonLibraryAcceptsIfOneOrTwoBytesAreChanged) {
  const std::string text =
      "\xef\xbb\xbf{\"a\": [0, -1, 1.5e-3, 12E+2, -0.0, 18446744073709551615, 18446744073709551616, 1e-400],\r\n\t"
      "\"b\\\"\": {\"\\u00e9\\ud83d\\ude00\\n\": null, \"c\": true}, \"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\": [[], "
      "{}, "
      "false, \"\\/\\b\"]}";
  const std::string_view bytes = "{}[],:\"\\ 0159.-+eEutrfalsn\n\t\x01\x7f\x80\xbf\xc3\xe0\xed\xa0\xf0\xf4\xff";
  std::mt19937_64 random(86'001);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const Folder folder;
  ASSERT_EQ(ours(folder, text), of_the_library(text));
  int accepted = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string changed = text;
    for (std::size_t changes = 1 + below(2); changes > 0; --changes) {
      const std::size_t at = below(changed.size()), how = below(3);
      if (how == 0) changed.erase(at, 1);
      if (how == 1) changed.insert(at, 1, bytes[below(bytes.size())]);
      if (how == 2) changed[at] = bytes[below(bytes.size())];
    }
    const auto read = ours(folder, changed), expected = of_the_library(changed);
    if (read == "twice") continue;
    EXPECT_EQ(read, expected) << changed;
    accepted += read ? 1 : 0;
  }
  EXPECT_GT(accepted, 30);
}

TEST(StrictJson, HasTheValueOfTheJsonLibraryForNumbersOfAllLengths) {
  std::mt19937_64 random(86'003);
  std::string text = "[-0.0, 0.0, 9007199254740993, 900719925474099.3, 0.000000000000001";
  for (int i = 0; i < 20000; ++i) {
    const auto digits = std::to_string(random());
    const auto length = 1 + random() % digits.size(), before = 1 + random() % length;
    const std::string whole = digits.substr(0, before), part = digits.substr(before, length - before);
    text += std::string(random() % 2 == 0 ? ", " : ", -") + whole + (part.empty() ? "" : "." + part);
  }
  const Folder folder;
  const auto read = ours(folder, text + "]"), expected = of_the_library(text + "]");
  ASSERT_TRUE(read && expected);
  for (std::size_t i = 0; i < expected->size(); ++i) {
    const auto bits = [&](const json& list) { return std::bit_cast<std::uint64_t>(list[i].get<double>()); };
    ASSERT_EQ(bits(*read), bits(*expected)) << (*expected)[i];
  }
}

TEST(StrictJson, HasTheSameValuesIfItIsReadInPieces) {
  std::mt19937_64 random(86'002);
  std::string text = "{\"numbers\":[0";
  while (text.size() < 5'000'000) {
    const double value = std::bit_cast<double>(random());
    const auto whole = static_cast<std::int64_t>(random());
    if (std::isfinite(value)) text += fmt::format(",{},{:.17e},{}", value, value, whole);
    text += fmt::format(", {:.6f}, {}, null", static_cast<double>(whole >> 40) * 1e-3, whole % 1000);
  }
  text += "],\"words\":[\"\"";
  while (text.size() < 8'000'000) text += fmt::format(",\"{}\\u20ac\xe2\x82\xac\"", random());
  text += "]}";
  const Folder folder;
  EXPECT_TRUE(ours(folder, text) == of_the_library(text));
  EXPECT_EQ(ours(folder, text.substr(0, text.size() - 1)), std::nullopt);
}

}  // namespace
}  // namespace shakedown::strict_json_test
