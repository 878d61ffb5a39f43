// Training examples from texts and dialogues.
#include "kernels/finetune/dialogue.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/temporary_folder.hpp"
#include "finetune_data.hpp"
#include "kernels/reference.hpp"

namespace shakedown::finetune {
namespace {

using Json = nlohmann::json;

class DialogueTest : public testing::Test {
 protected:
  std::vector<Example> read(std::string_view text, ChatTemplate chat = ChatTemplate::qwen2) const {
    write_file(path_, text);
    return read_examples(path_, chat == ChatTemplate::llama3 ? llama_ : tokenizer_, chat);
  }
  /// Returns the text of an example with [ and ] around the parts that are in the loss.
  std::string shown(const Example& example, const Tokenizer& tokenizer) const {
    std::string text;
    for (std::size_t begin = 0, end = 0; begin < example.tokens.size(); begin = end) {
      while (end < example.tokens.size() && example.in_loss[end] == example.in_loss[begin]) ++end;
      const auto part = tokenizer.decode(std::span(example.tokens).subspan(begin, end - begin));
      text += example.in_loss[begin] != 0 ? "[" + part + "]" : part;
    }
    return text;
  }
  std::string shown(std::string_view text, ChatTemplate chat = ChatTemplate::qwen2) const {
    const auto examples = read(text, chat);
    EXPECT_EQ(examples.size(), 1U);
    return shown(examples.at(0), chat == ChatTemplate::llama3 ? llama_ : tokenizer_);
  }
  void expect_refused(std::string_view text, const std::string& words, ChatTemplate chat = ChatTemplate::qwen2) const {
    const auto error = input_error_of([&] { read(text, chat); });
    EXPECT_TRUE(error.starts_with(path_.string() + words)) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }

  const TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "data";
  const Tokenizer tokenizer_{stored("tiny_qwen2")}, llama_{stored("tiny_llama")};
};

TEST_F(DialogueTest, GivesTheIdsAndTheMaskOfTransformers) {
  const auto cases = stored_lines("chat.jsonl");
  ASSERT_EQ(cases.size(), 24U);
  const auto examples = read_examples(stored("chat.jsonl"), tokenizer_, ChatTemplate::qwen2);
  ASSERT_EQ(examples.size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(examples[i].tokens, cases[i]["ids"].get<std::vector<std::int32_t>>()) << i;
    EXPECT_EQ(examples[i].in_loss, cases[i]["mask"].get<std::vector<std::uint8_t>>()) << i;
  }
}

TEST_F(DialogueTest, JoinsPromptAndCompletion) {
  EXPECT_EQ(shown(R"({"prompt": "2 + 2 =", "completion": " 4"})"), "2 + 2 =[ 4<|endoftext|>]");
  EXPECT_EQ(shown(R"({"text": "all"})"), "[all<|endoftext|>]");
  EXPECT_EQ(shown(R"({"text": "hi"})", ChatTemplate::llama3), "<|begin_of_text|>[hi<|end_of_text|>]");
}

TEST_F(DialogueTest, WritesTheHeadersOfLlama3) {
  EXPECT_EQ(shown(R"({"messages": [{"role": "user", "content": " hi "}, {"role": "assistant", "content": "yes\n"}]})",
                  ChatTemplate::llama3),
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n[yes<|eot_id|>]");
}

TEST_F(DialogueTest, WritesToolsAndCallsOfQwen25) {
  const auto text = shown(
      R"({"tools": [{"name": "f", "x": [1, 2.0, true]}], "messages": [{"role": "user", "content": "q"},)"
      R"({"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"c": "K\u00f6ln"}}}]},)"
      R"({"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}, {"role": "assistant", "content": "a"}]})",
      ChatTemplate::qwen2_5);
  const std::string system =
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.\n\n# Tools";
  EXPECT_TRUE(text.starts_with(system));
  EXPECT_NE(text.find("<tools>\n{\"name\": \"f\", \"x\": [1, 2.0, true]}\n</tools>"), std::string::npos) << text;
  const auto user = text.find("<|im_start|>user\nq");
  ASSERT_NE(user, std::string::npos);
  EXPECT_EQ(
      text.substr(user),
      "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n[<tool_call>\n{\"name\": \"f\", \"arguments\": {\"c\": "
      "\"K\xc3\xb6ln\"}}\n</tool_call><|im_end|>]\n<|im_start|>user\n<tool_response>\n1\n</tool_response>\n"
      "<tool_response>\n2\n</tool_response><|im_end|>\n<|im_start|>assistant\n[a<|im_end|>]\n");
  const auto of_text = shown(
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{\"n\": 1}"}]}]})",
      ChatTemplate::qwen2_5);
  EXPECT_NE(of_text.find(R"([<tool_call>)"
                         "\n"
                         R"({"name": "f", "arguments": {"n": 1}})"),
            std::string::npos)
      << of_text;
}

TEST_F(DialogueTest, ReadsThePlainTextOfFunctionCallingSets) {
  const std::string one =
      "SYSTEM: Be brief.\nUSER: Rome?\n\n\nASSISTANT: <functioncall> {} <|endoftext|>\n\n\nFUNCTION RESPONSE: "
      "20\n\n\nASSISTANT: 20 C\nnow <|endoftext|>\n\n\n";
  const std::string expected =
      "<|im_start|>system\nBe "
      "brief.<|im_end|>\n<|im_start|>user\nRome?<|im_end|>\n<|im_start|>assistant\n[<functioncall> "
      "{}<|im_end|>]\n<|im_start|>tool\n20<|im_end|>\n<|im_start|>assistant\n[20 C\nnow<|im_end|>]\n";
  const auto examples = read(one + one);
  ASSERT_EQ(examples.size(), 2U);
  EXPECT_EQ(shown(examples[0], tokenizer_), expected);
  EXPECT_EQ(examples[1].tokens, examples[0].tokens);
  const auto user = one.find("USER:");
  const Json fields{{"system", one.substr(0, user)}, {"chat", one.substr(user)}};
  EXPECT_EQ(shown(fields.dump()), expected);
}

TEST_F(DialogueTest, NamesTheLineThatIsWrong) {
  const std::string good = R"({"text": "a"})"
                           "\n\n";
  expect_refused(good + "{", ":3: is not valid JSON at byte 2");
  expect_refused(good + "\xff", ":3: is not valid JSON");
  expect_refused(good + R"({"text": "\ud800"})", ":3: is not valid JSON");
  expect_refused(good + R"({"text": 1e999})", ":3: has a number that is too large");
  expect_refused(good + "[]", ":3: is not a JSON object");
  expect_refused(good + std::string(100'000, '['), ":3: ");
  expect_refused(R"({"texts": "a"})", ":1: has no \"messages\"");
  expect_refused(R"({"text": ""})", ":1: its text is empty");
  expect_refused(R"({"prompt": "a"})", ":1: \"completion\" must be a text");
  expect_refused(R"({"messages": []})", ":1: \"messages\" must be a list");
  expect_refused(R"({"messages": [1]})", ":1: a message must be an object");
  expect_refused(R"({"messages": [{"role": "robot", "content": "a"}]})", ":1: role \"robot\" is unknown");
  expect_refused(R"({"messages": [{"role": "user", "content": ["a"]}]})", ":1: \"content\" must be a text");
  expect_refused(R"({"messages": [{"role": "user", "content": "a"}]})", ":1: has no turn of the assistant");
  const std::string turn = R"({"messages": [{"role": "assistant", "content": "a"}])";
  expect_refused(turn + R"(, "tools": [{}]})", ":1: the chat template of this model has no tools");
  expect_refused(turn + R"(, "tools": 3})", ":1: \"tools\" must be a list", ChatTemplate::qwen2_5);
  expect_refused(turn + "}", ":1: the model has no chat template", ChatTemplate::none);
  expect_refused(R"({"messages": [{"role": "assistant", "tool_calls": [{"name": "f"}]}]})", ":1: a tool call must have",
                 ChatTemplate::qwen2_5);
  expect_refused(R"({"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{\"a\": )" +
                     std::string(200'000, '[') + std::string(200'000, ']') + R"(}"}]}]})",
                 ":1: ", ChatTemplate::qwen2_5);
  expect_refused("SYSTEM: a\nASSISTANT: b\nSYSTEM: c\nUSER: d\n", ":3: has no turn of the assistant");
  expect_refused(" \n", ": has no examples");
}

TEST_F(DialogueTest, ReadsOrRefusesDamagedLines) {
  const auto cases = stored_lines("chat.jsonl");
  std::size_t refused = 0;
  constexpr std::uint64_t rounds = 300;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    auto line = Json{{"messages", cases[round % cases.size()]["messages"]}}.dump();
    for (std::uint64_t i = 0; i <= round % 3; ++i)
      line[reference::mix(8 * round + i) % line.size()] = static_cast<char>(reference::mix(8 * round + i + 4));
    const auto error = input_error_of([&] { read(line); });  // any other exception ends the test
    EXPECT_TRUE(error.empty() || error.starts_with(path_.string() + ":")) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
    refused += error.empty() ? 0 : 1;
  }
  EXPECT_GT(refused, rounds / 10);
  EXPECT_LT(refused, rounds);
}

TEST_F(DialogueTest, ReadsTheTemplateOfAModel) {
  const auto config = folder_.path() / "tokenizer_config.json", jinja = folder_.path() / "chat_template.jinja";
  EXPECT_EQ(chat_template_of(folder_.path(), tokenizer_), ChatTemplate::qwen2);  // by its special tokens
  EXPECT_EQ(chat_template_of(folder_.path(), llama_), ChatTemplate::llama3);
  write_file(
      config,
      R"({"chat_template": "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."})");
  EXPECT_EQ(chat_template_of(folder_.path(), tokenizer_), ChatTemplate::qwen2_5);
  EXPECT_THROW(chat_template_of(folder_.path(), llama_), InputError);
  write_file(jinja, "<|im_start|>system\nYou are a helpful assistant.");
  EXPECT_EQ(chat_template_of(folder_.path(), tokenizer_), ChatTemplate::qwen2);
  write_file(jinja, "<|im_start|>{{ other }}");
  EXPECT_THROW(chat_template_of(folder_.path(), tokenizer_), InputError);
}

}  // namespace
}  // namespace shakedown::finetune
