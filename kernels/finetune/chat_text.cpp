#include "kernels/finetune/chat_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "base/limited_json.hpp"
#include "base/text.hpp"
#include "kernels/finetune/unicode.hpp"

namespace shakedown::finetune {

namespace {

using Json = nlohmann::ordered_json;

/// Writes JSON with the blanks of Python's json.dumps, which the filter tojson of transformers uses.
std::string python_json(const Json& json) {
  std::vector<std::string> parts;
  if (json.is_object()) {
    for (const auto& [name, value] : json.items()) parts.push_back(Json(name).dump() + ": " + python_json(value));
    return "{" + joined(parts) + "}";
  }
  if (json.is_array()) {
    for (const auto& value : json) parts.push_back(python_json(value));
    return "[" + joined(parts) + "]";
  }
  if (!json.is_number_float()) return json.dump();
  const auto text = fmt::format("{}", json.get<double>());
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

/// Text that is collected in parts with and without loss.
class Pieces {
 public:
  void add(const std::string& text, bool in_loss = false) {
    if (pieces_.empty() || pieces_.back().in_loss != in_loss) pieces_.push_back({"", in_loss});
    pieces_.back().text += text;
  }
  std::vector<ChatPiece> take() { return std::move(pieces_); }

 private:
  std::vector<ChatPiece> pieces_;
};

std::string call_text(const Json& call) {
  const auto& function = call.is_object() && call.contains("function") ? call["function"] : call;
  if (!function.is_object() || !function.contains("name") || !function["name"].is_string() ||
      !function.contains("arguments"))
    throw std::invalid_argument("a tool call must have a name and arguments; correct the line");
  auto arguments = function["arguments"];
  if (arguments.is_string()) {  // as in the interface of OpenAI, where they are JSON in a string
    arguments = limited_json<Json>(arguments.get<std::string>());
    if (!arguments.is_object())
      throw std::invalid_argument("the arguments of a tool call are not a JSON object; correct the line");
  }
  return fmt::format("<tool_call>\n{{\"name\": \"{}\", \"arguments\": {}}}\n</tool_call>",
                     function["name"].get<std::string>(), python_json(arguments));
}

std::string tools_text(const Json& tools) {
  if (!tools.is_array()) throw std::invalid_argument("\"tools\" must be a list; correct the line");
  std::string text =
      "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with "
      "function "
      "signatures within <tools></tools> XML tags:\n<tools>";
  for (const auto& tool : tools) text += "\n" + python_json(tool);
  return text +
         "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
         "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "
         "<args-json-object>}\n</tool_call>";
}

/// ChatML: <|im_start|>role, a new line, the content, <|im_end|>, a new line.
std::vector<ChatPiece> chatml(bool is_qwen2_5, const std::vector<Message>& messages, const Json& tools) {
  Pieces pieces;
  const bool has_system = messages.front().role == Role::system;
  const char* system = is_qwen2_5 ? system_of_qwen2_5 : system_of_qwen2;
  pieces.add(fmt::format("<|im_start|>system\n{}", has_system ? messages.front().content : system));
  if (!tools.empty()) pieces.add(tools_text(tools));
  pieces.add("<|im_end|>\n");
  for (std::size_t i = has_system ? 1 : 0; i < messages.size(); ++i) {
    const auto& [role, content, calls] = messages[i];
    if (role == Role::tool && is_qwen2_5) {  // neighbouring results are one turn of the user
      if (i == 0 || messages[i - 1].role != Role::tool) pieces.add("<|im_start|>user");
      pieces.add("\n<tool_response>\n" + content + "\n</tool_response>");
      if (i + 1 == messages.size() || messages[i + 1].role != Role::tool) pieces.add("<|im_end|>\n");
      continue;
    }
    const bool is_assistant = role == Role::assistant;
    pieces.add(fmt::format("<|im_start|>{}\n", name(role)));
    std::string text = content;
    for (const auto& call : calls) text += (text.empty() ? "" : "\n") + call_text(call);
    pieces.add(text + "<|im_end|>", is_assistant);
    pieces.add("\n");
  }
  return pieces.take();
}

std::vector<ChatPiece> llama3(const std::vector<Message>& messages) {
  Pieces pieces;
  for (const auto& message : messages) {
    pieces.add(fmt::format("<|start_header_id|>{}<|end_header_id|>\n\n", name(message.role)));
    pieces.add(unicode::trimmed(message.content) + "<|eot_id|>", message.role == Role::assistant);
  }
  return pieces.take();
}

}  // namespace

std::vector<ChatPiece> chat_text(ChatTemplate chat, const std::vector<Message>& messages, const Json& tools) {
  const bool has_tools = !tools.empty() || std::any_of(messages.begin(), messages.end(),
                                                       [](const auto& m) { return !m.tool_calls.empty(); });
  if (chat == ChatTemplate::none)
    throw std::invalid_argument("the model has no chat template; use lines with prompt and completion");
  if (has_tools && chat != ChatTemplate::qwen2_5)
    throw std::invalid_argument("the chat template of this model has no tools; use a Qwen2.5 model");
  if (chat == ChatTemplate::llama3) return llama3(messages);
  return chatml(chat == ChatTemplate::qwen2_5, messages, tools);
}

}  // namespace shakedown::finetune
