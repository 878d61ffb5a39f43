// The text of a dialogue as a model sees it: its messages with the special tokens of a chat template.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/names.hpp"
#include "kernels/finetune/chat_template.hpp"

namespace shakedown::finetune {

enum class Role { system, user, assistant, tool };
constexpr auto words(Role) { return names("system", "user", "assistant", "tool"); }

struct Message {
  Role role;
  std::string content;
  std::vector<nlohmann::ordered_json> tool_calls;  // {"name", "arguments"}, or {"function": {"name", "arguments"}}
};

/// A part of the text. The model learns to write the parts that are in the loss: the turns of the assistant with their
/// end token.
struct ChatPiece {
  std::string text;
  bool in_loss;
};

/// Returns the text of a dialogue without the token that begins each text. `tools` is null or a list of functions.
/// Errors: std::invalid_argument if the template has no tools or a call has no name or arguments.
std::vector<ChatPiece> chat_text(ChatTemplate, const std::vector<Message>&, const nlohmann::ordered_json& tools);

}  // namespace shakedown::finetune
