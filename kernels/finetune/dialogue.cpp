#include "kernels/finetune/dialogue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/files.hpp"
#include "base/limited_json.hpp"
#include "base/text.hpp"
#include "kernels/finetune/chat_text.hpp"
#include "kernels/finetune/unicode.hpp"

namespace shakedown::finetune {

namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

/// Throws a message without the place, which the reader of the file adds.
[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

std::string text_member(const Json& object, const char* name) {
  if (!object.contains(name) || !object[name].is_string())
    refuse(fmt::format("\"{}\" must be a text; correct the line", name));
  return object[name].get<std::string>();
}

std::vector<Message> messages_of(const Json& list) {
  if (!list.is_array() || list.empty()) refuse("\"messages\" must be a list that is not empty; correct the line");
  std::vector<Message> messages;
  for (const auto& item : list) {
    if (!item.is_object()) refuse("a message must be an object with role and content; correct the line");
    const auto word = text_member(item, "role");
    const auto role = named<Role>(word);
    if (!role)
      refuse(fmt::format("role \"{}\" is unknown; use {}", one_line(shortened(word, 40)), joined(words(Role{}))));
    Message message{*role, "", {}};
    const bool has_calls = item.contains("tool_calls") && !item["tool_calls"].is_null();
    if (has_calls) {
      if (*role != Role::assistant || !item["tool_calls"].is_array())
        refuse("\"tool_calls\" must be a list of an assistant's message; correct the line");
      for (const auto& call : item["tool_calls"]) message.tool_calls.push_back(call);
    }
    // A message that only calls functions may have no content.
    const bool is_empty = !item.contains("content") || item["content"].is_null();
    if (!has_calls || !is_empty) message.content = text_member(item, "content");
    messages.push_back(std::move(message));
  }
  return messages;
}

/// The markers of public function-calling sets in plain text, each at the beginning of a line.
constexpr std::array<std::pair<std::string_view, Role>, 4> markers{{{"SYSTEM:", Role::system},
                                                                    {"USER:", Role::user},
                                                                    {"ASSISTANT:", Role::assistant},
                                                                    {"FUNCTION RESPONSE:", Role::tool}}};
constexpr std::string_view end_of_turn = "<|endoftext|>";

/// Returns the marker at a place of a text; null if there is none.
const std::pair<std::string_view, Role>* marker_at(std::string_view text, std::size_t at) {
  if (at != 0 && text[at - 1] != '\n') return nullptr;
  const auto found = std::find_if(markers.begin(), markers.end(),
                                  [&](const auto& marker) { return text.substr(at).starts_with(marker.first); });
  return found == markers.end() ? nullptr : &*found;
}

std::vector<Message> plain_messages(std::string_view text) {
  std::vector<Message> messages;
  if (marker_at(text, 0) == nullptr) refuse("must begin with SYSTEM: or USER:; correct the text");
  for (std::size_t at = 0; at < text.size();) {
    const auto [marker, role] = *marker_at(text, at);
    const auto begin = at + marker.size();
    do {
      at = std::min(text.find('\n', at), text.size() - 1) + 1;
    } while (at < text.size() && marker_at(text, at) == nullptr);
    auto content = unicode::trimmed(text.substr(begin, at - begin));
    if (content.ends_with(end_of_turn))
      content = unicode::trimmed(std::string_view(content).substr(0, content.size() - end_of_turn.size()));
    messages.push_back({role, std::move(content), {}});
  }
  return messages;
}

class ExampleMaker {
 public:
  ExampleMaker(const Tokenizer& tokenizer, ChatTemplate chat) : tokenizer_(tokenizer), chat_(chat) {}

  Example of_object(const Json& object) const {
    if (!object.is_object()) refuse("is not a JSON object; write one object a line");
    if (object.contains("messages"))
      return of_messages(messages_of(object["messages"]), object.contains("tools") ? object["tools"] : Json());
    if (object.contains("chat")) {
      const auto system = object.contains("system") ? unicode::trimmed(text_member(object, "system")) + "\n" : "";
      return of_messages(plain_messages(system + unicode::trimmed(text_member(object, "chat"))), Json());
    }
    if (object.contains("prompt") || object.contains("completion")) {
      Example example;
      add(example, tokenizer_.prefix(), false);
      add(example, tokenizer_.encode(text_member(object, "prompt")), false);
      return ended(std::move(example), text_member(object, "completion"));
    }
    if (!object.contains("text"))
      refuse("has no \"messages\", \"prompt\" and \"completion\", \"chat\" or \"text\"; add one of them");
    Example example;
    add(example, tokenizer_.prefix(), false);
    return ended(std::move(example), text_member(object, "text"));
  }

  Example of_messages(const std::vector<Message>& messages, const Json& tools) const {
    const bool has_target =
        std::any_of(messages.begin(), messages.end(), [](const Message& m) { return m.role == Role::assistant; });
    if (!has_target) refuse("has no turn of the assistant, so it has no target; remove it");
    const auto pieces = chat_text(chat_, messages, tools);
    std::vector<std::string> texts;
    for (const auto& piece : pieces) texts.push_back(piece.text);
    Example example;
    if (chat_ == ChatTemplate::llama3) add(example, tokenizer_.prefix(), false);
    for (const auto& [id, part] : tokenizer_.encode(texts)) {
      example.tokens.push_back(id);
      example.in_loss.push_back(pieces[part].in_loss ? 1 : 0);
    }
    return example;
  }

 private:
  static void add(Example& example, const std::vector<std::int32_t>& tokens, bool in_loss) {
    example.tokens.insert(example.tokens.end(), tokens.begin(), tokens.end());
    example.in_loss.resize(example.tokens.size(), in_loss ? 1 : 0);
  }
  /// Adds a text that is in the loss, and the end.
  Example ended(Example example, const std::string& text) const {
    if (text.empty()) refuse("its text is empty, so it has no target; remove it");
    add(example, tokenizer_.encode(text), true);
    add(example, {tokenizer_.end_of_text()}, true);
    return example;
  }

  const Tokenizer& tokenizer_;
  ChatTemplate chat_;
};

/// Returns the object of a line.
Json object_of(std::string_view line) {
  try {
    return limited_json<Json>(line, WrongJson::throws);
  } catch (const Json::parse_error& error) {
    refuse(fmt::format("is not valid JSON at byte {}; correct the line", error.byte));
  } catch (const Json::out_of_range&) {
    refuse("has a number that is too large; correct the line");
  }
}

/// Calls `use(line, number)` for each line that is not empty.
template <class Use>
void each_line(std::string_view text, const Use& use) {
  std::size_t number = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) use(line, number);
  }
}

/// Adds "file:line: " to the error of a step.
template <class Step>
void with_place(const fs::path& file, std::size_t line, const Step& step) {
  try {
    step();
  } catch (const std::invalid_argument& error) {
    throw InputError(fmt::format("{}:{}: {}", file.string(), line, error.what()));
  }
}

/// Reads dialogues in plain text, each of which begins with "SYSTEM:".
std::vector<Example> plain_examples(const fs::path& file, std::string_view text, const ExampleMaker& maker) {
  std::vector<Example> examples;
  std::size_t begin = 0, first_line = 1, number = 0;
  const auto add = [&](std::size_t end) {
    const auto dialogue = unicode::trimmed(text.substr(begin, end - begin));
    if (dialogue.empty()) return;
    with_place(file, first_line, [&] { examples.push_back(maker.of_messages(plain_messages(dialogue), Json())); });
  };
  for (std::size_t at = 0; at < text.size(); at = std::min(text.find('\n', at), text.size() - 1) + 1) {
    ++number;
    const auto* marker = marker_at(text, at);
    if (at == 0 || marker == nullptr || marker->second != Role::system) continue;
    add(at);
    begin = at;
    first_line = number;
  }
  add(text.size());
  return examples;
}

}  // namespace

std::vector<Example> read_examples(const fs::path& file, const Tokenizer& tokenizer, ChatTemplate chat) {
  const auto text = read_file(file);
  const ExampleMaker maker(tokenizer, chat);
  const auto first = text.find_first_not_of(" \t\r\n");
  std::vector<Example> examples;
  if (first != std::string::npos && marker_at(std::string_view(text).substr(first), 0) != nullptr) {
    examples = plain_examples(file, text, maker);
  } else {
    each_line(text, [&](std::string_view line, std::size_t number) {
      with_place(file, number, [&] { examples.push_back(maker.of_object(object_of(line))); });
    });
  }
  if (examples.empty()) throw InputError(file.string() + ": has no examples; name a file of texts or dialogues");
  return examples;
}

}  // namespace shakedown::finetune
