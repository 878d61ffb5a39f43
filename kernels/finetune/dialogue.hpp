// Training examples from files of texts and dialogues. Only turns of the assistant are in the loss.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/names.hpp"
#include "kernels/finetune/tokenizer.hpp"

namespace shakedown::finetune {

/// Tokens, and for each of them whether it is a target. Both have the same length.
struct Example {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint8_t> in_loss;
};

/// The texts between the turns of a dialogue.
enum class ChatTemplate {
  none,     // files with dialogues are refused
  qwen2,    // ChatML; if a dialogue has no system message, it is "You are a helpful assistant."
  qwen2_5,  // ChatML with tools; its system message names Qwen
  llama3,
};
constexpr auto words(ChatTemplate) { return names("none", "qwen2", "qwen2_5", "llama3"); }

/// Returns the template of a model folder (chat_template.jinja or tokenizer_config.json). A folder without one has that
/// of Qwen2 or Llama 3 if its tokenizer has their special tokens. Errors: InputError for other templates.
ChatTemplate chat_template_of(const std::filesystem::path& folder, const Tokenizer&);

/// Reads a file in which each line is a JSON object, or a file of plain texts ("SYSTEM: ... USER: ... ASSISTANT: ...
/// <|endoftext|>"). Objects have {"messages", "tools"?}, {"prompt", "completion"}, {"system"?, "chat"} or {"text"}.
/// Errors: InputError "file:line: what is wrong; how to fix it".
std::vector<Example> read_examples(const std::filesystem::path&, const Tokenizer&, ChatTemplate);

}  // namespace shakedown::finetune
