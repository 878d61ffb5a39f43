// base/archive.hpp: one member list writes files and messages, and reads them back.
#include "base/archive.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace shakedown::archive_test {
namespace {

enum class Colour { red, green };
constexpr auto words(Colour) { return names("red", "Dark Green"); }

struct Leaf {
  std::string name;
  std::optional<double> size;
};
template <class Archive>
void members(Archive& archive, Leaf& leaf) {
  archive("name", leaf.name)("size", leaf.size);
}

struct Tree {
  int age = 0;
  bool tall = false;
  Colour colour = Colour::red;
  std::vector<Leaf> leaves;
  std::optional<std::vector<std::string>> birds;
  std::map<std::string, std::vector<double>> rings;
  int hidden = 7;
};
template <class Archive>
void members(Archive& archive, Tree& tree) {
  archive("age", tree.age)("tall", tree.tall)("colour", tree.colour)("leaves", tree.leaves)("birds", tree.birds);
  archive("rings", tree.rings).derived("count", tree.leaves.size()).younger("hidden", tree.hidden);
}

const Tree oak{300, true, Colour::green, {{"first", 0.1}, {"second", {}}}, {}, {{"inner", {1, 2.5}}}, 8};
constexpr auto oak_text =
    R"({"age":300,"tall":true,"colour":"Dark Green","leaves":[{"name":"first","size":0.1},{"name":"second","size":null}],)"
    R"("birds":null,"rings":{"inner":[1.0,2.5]},"count":2,"hidden":8})";

template <class T>
T read(const std::string& text) {
  const std::filesystem::path file("tree.json");
  const auto document = nlohmann::json::parse(text);
  return read_as<T>(Field(file, "", document));
}

std::string refusal_of(const std::string& text) {
  try {
    read<Tree>(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string with(const std::string& old_part, const std::string& new_part) {
  std::string text = oak_text;
  return text.replace(text.find(old_part), old_part.size(), new_part);
}

TEST(Archive, WritesMembersInTheOrderOfTheirList) { EXPECT_EQ(json_text(oak, -1), oak_text); }

TEST(Archive, ReadsWhatItWrote) { EXPECT_EQ(json_text(read<Tree>(oak_text), -1), oak_text); }

TEST(Archive, TakesAnAbsentOptionalForNone) {
  EXPECT_FALSE(read<Tree>(with("\"birds\":null,", "")).birds);
  EXPECT_EQ(read<Tree>(with("\"birds\":null", "\"birds\":[]")).birds, std::vector<std::string>{});
}

TEST(Archive, KeepsTheDefaultOfAMemberThatOlderFilesDoNotHave) {
  EXPECT_EQ(read<Tree>(with(",\"hidden\":8", "")).hidden, 7);
}

TEST(Archive, NamesTheFileAndTheMemberThatIsWrong) {
  EXPECT_EQ(refusal_of(with("\"name\":\"second\"", "\"name\":3")), "tree.json: leaves[1].name: expected a string");
  EXPECT_EQ(refusal_of(with("\"age\":300,", "")), "tree.json: age: is missing");
  EXPECT_EQ(refusal_of(with("[1.0,2.5]", "1")).rfind("tree.json: rings.inner: ", 0), 0U);
  EXPECT_EQ(refusal_of(with("Dark Green", "blue")), "tree.json: colour: \"blue\" is not known to this release");
  EXPECT_NE(refusal_of(with("300", "-1")), "");
}

TEST(Archive, WritesANumberThatIsNoneAsNull) {
  EXPECT_EQ(json_text(Leaf{"a", NAN}, -1), R"({"name":"a","size":null})");
}

TEST(Document, HasAtMost64Levels) {
  const auto nested = [](std::size_t levels) { return std::string(levels, '[') + "1" + std::string(levels, ']'); };
  EXPECT_TRUE(document_of_text(nested(64)).is_array());
  EXPECT_TRUE(document_of_text(nested(65)).is_discarded());
  EXPECT_TRUE(document_of_text(nested(100'000)).is_discarded());
  EXPECT_TRUE(document_of_text("{").is_discarded());
}

TEST(Archive, KeepsEveryBitBetweenRanks) {
  const auto back = unpacked<Leaf>(packed(Leaf{"a:b\n\x1f\xff", INFINITY}), "rank 1");
  EXPECT_EQ(back.name, "a:b\n\x1f\xff");
  EXPECT_EQ(back.size, INFINITY);
  EXPECT_TRUE(std::isnan(unpacked<double>(packed(NAN), "rank 1")));
  const RankValues figures{0.1, std::nullopt, NAN, -INFINITY};
  const auto same = unpacked<RankValues>(packed(figures), "rank 1");
  ASSERT_EQ(same.size(), 4U);
  EXPECT_EQ(same[0], OptionalDouble(0.1));
  EXPECT_FALSE(same[1].has_value());
  EXPECT_TRUE(same[2].has_value() && std::isnan(*same[2])) << "a NaN is a value";
  EXPECT_EQ(same[3], OptionalDouble(-INFINITY));
  EXPECT_EQ(unpacked<double>(packed(0.1), "rank 1"), 0.1);
  EXPECT_EQ(unpacked<std::uint64_t>(packed(UINT64_MAX), "rank 1"), UINT64_MAX);
}

TEST(Archive, GathersAndBroadcastsInAGroup) {
  Alone group;
  EXPECT_EQ(gather(group, 3), std::vector<int>{3});
  EXPECT_EQ(broadcast(group, std::vector<std::string>{"a", ""}), (std::vector<std::string>{"a", ""}));
}

}  // namespace
}  // namespace shakedown::archive_test
