// The chat templates that are known.
#pragma once

#include <filesystem>

#include "base/names.hpp"
#include "kernels/finetune/tokenizer.hpp"

namespace shakedown::finetune {

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

/// The system messages of dialogues without one.
inline constexpr const char* system_of_qwen2 = "You are a helpful assistant.";
inline constexpr const char* system_of_qwen2_5 = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";

}  // namespace shakedown::finetune
