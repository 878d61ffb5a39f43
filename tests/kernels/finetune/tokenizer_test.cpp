// The tokenizer against the ids that the library tokenizers gave for odd texts.
#include "kernels/finetune/tokenizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/temporary_folder.hpp"
#include "finetune_data.hpp"
#include "kernels/finetune/unicode.hpp"

namespace shakedown::finetune {
namespace {

using Json = nlohmann::json;

const Tokenizer& qwen2() {
  static const Tokenizer tokenizer(stored("tiny_qwen2"));
  return tokenizer;
}
const Tokenizer& llama3() {
  static const Tokenizer tokenizer(stored("tiny_llama"));
  return tokenizer;
}

TEST(FinetuneTokenizer, GivesTheIdsOfTheLibraryForOddTexts) {
  const auto cases = stored_lines("corpus.jsonl");
  ASSERT_EQ(cases.size(), 402U);
  for (const auto& one : cases) {
    const auto text = one["text"].get<std::string>();
    EXPECT_EQ(qwen2().encode(text), one["qwen2"].get<std::vector<std::int32_t>>()) << one["text"].dump(-1, ' ', true);
    auto ids = llama3().prefix();
    const auto own = llama3().encode(text);
    ids.insert(ids.end(), own.begin(), own.end());
    EXPECT_EQ(ids, one["llama3"].get<std::vector<std::int32_t>>()) << one["text"].dump(-1, ' ', true);
  }
}

TEST(FinetuneTokenizer, DecodesTheIdsAsTheLibraryDoes) {
  for (const auto& one : stored_lines("corpus.jsonl"))
    EXPECT_EQ(qwen2().decode(one["qwen2"].get<std::vector<std::int32_t>>()), one["qwen2_decoded"].get<std::string>());
  EXPECT_EQ(qwen2().decode(std::array<std::int32_t, 3>{127, -1, 1 << 30}),
            "\xef\xbf\xbd");  // half of a character, no tokens
}

TEST(FinetuneTokenizer, EncodesPartsLikeTheWholeTextAndNamesThePartOfEachToken) {
  const std::array<std::string, 4> parts{"<|im_start|>assistant\n", "\n yes", "<|im_end|>", "\n"};
  std::vector<std::int32_t> ids;
  std::array<int, parts.size()> of_part{};
  for (const auto& [id, part] : qwen2().encode(parts)) {
    ids.push_back(id);
    ++of_part.at(part);
  }
  EXPECT_EQ(ids, qwen2().encode("<|im_start|>assistant\n\n yes<|im_end|>\n"));
  EXPECT_GT(of_part[1], 0);
  EXPECT_EQ(of_part[2], 1);
  EXPECT_EQ(of_part[3], 1);
}

TEST(FinetuneTokenizer, ReplacesBytesThatAreNoUtf8) {
  // Rows of the Unicode Standard, table 3-8 and following: a maximal part becomes one U+FFFD.
  EXPECT_EQ(unicode::from_utf8("\xc0\xaf\xe0\x80\xbf"), std::u32string(5, 0xfffd));
  EXPECT_EQ(unicode::from_utf8("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"), U"\xfffd\xfffd\xfffd\xfffd\x41");
  EXPECT_EQ(unicode::from_utf8("\xed\xa0\x80"), std::u32string(3, 0xfffd));
  EXPECT_EQ(qwen2().encode("\xff"), qwen2().encode("\xef\xbf\xbd"));
}

TEST(FinetuneTokenizer, ComposesTextsAsPythonDoes) {
  const auto cases = stored_lines("nfc.jsonl");
  ASSERT_EQ(cases.size(), 600U);
  for (const auto& one : cases) {
    const auto codes = unicode::composed(unicode::from_utf8(one["text"].get<std::string>()));
    EXPECT_EQ(unicode::to_utf8(codes), one["nfc"].get<std::string>()) << one.dump(-1, ' ', true);
  }
}

TEST(FinetuneTokenizer, TakesTimeInProportionToTheLengthOfAWord) {
  const auto seconds = [](std::size_t letters) {
    std::string word;
    for (std::size_t i = 0; i < letters; ++i) word += static_cast<char>('a' + i * i % 23);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(qwen2().encode(word).empty());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  EXPECT_LT(seconds(400'000), 20);  // at the square of the length it would be hours
}

TEST(FinetuneTokenizer, RefusesOtherTokenizers) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "tokenizer.json";
  const auto good = Json::parse(read_file(stored("tiny_qwen2/tokenizer.json")));
  const auto error = [&](const auto& change) {
    auto json = good;
    change(json);
    write_file(path, json.dump());
    return input_error_of([&] { Tokenizer{path}; });
  };
  EXPECT_EQ(error([](Json&) {}), "");
  const auto expect = [&](const char* words, const auto& change) {
    const auto text = error(change);
    EXPECT_NE(text.find(words), std::string::npos) << text;
    EXPECT_TRUE(text.starts_with(path.string()));
  };
  expect("no model of type BPE", [](Json& j) { j["model"]["type"] = "Unigram"; });
  expect("no model of type BPE", [](Json& j) { j["model"] = 7; });
  expect("no token for the byte 33", [](Json& j) { j["model"]["vocab"].erase("!"); });
  expect("is not a number from 0", [](Json& j) { j["model"]["vocab"]["!"] = -1; });
  expect("is not a number from 0", [](Json& j) { j["added_tokens"][0]["id"] = 1ULL << 40; });
  expect("merge 0 does not have two parts", [](Json& j) { j["model"]["merges"][0] = "x"; });
  expect("merge 1 has parts that are not in", [](Json& j) { j["model"]["merges"][1] = {"nope", "nope"}; });
  expect("pre_tokenizer", [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\w+"; });
  expect("normalizer", [](Json& j) { j["normalizer"]["type"] = "NFKC"; });
  expect("lstrip", [](Json& j) { j["added_tokens"][0]["lstrip"] = true; });
  expect("is not a JSON object", [](Json& j) { j = Json::array(); });
  expect("both", [](Json& j) { j["model"]["vocab"]["!!"] = j["model"]["vocab"]["!"]; });
  expect("both", [](Json& j) { j["added_tokens"][0]["id"] = j["added_tokens"][1]["id"]; });
  expect("JSON", [](Json& j) {
    for (int i = 0; i < 100; ++i) j["post_processor"] = {{"processors", Json::array({j["post_processor"]})}};
  });
}

}  // namespace
}  // namespace shakedown::finetune
