// Training examples from files of texts and dialogues. Only turns of the assistant are in the loss.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "kernels/finetune/chat_template.hpp"
#include "kernels/finetune/tokenizer.hpp"

namespace shakedown::finetune {

/// Tokens, and for each of them whether it is a target. Both have the same length.
struct Example {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint8_t> in_loss;
};

/// Reads a file in which each line is a JSON object, or a file of plain texts ("SYSTEM: ... USER: ... ASSISTANT: ...
/// <|endoftext|>"). Objects have {"messages", "tools"?}, {"prompt", "completion"}, {"system"?, "chat"} or {"text"}.
/// Errors: InputError "file:line: what is wrong; how to fix it".
std::vector<Example> read_examples(const std::filesystem::path&, const Tokenizer&, ChatTemplate);

}  // namespace shakedown::finetune
