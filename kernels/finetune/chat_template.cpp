#include "kernels/finetune/chat_template.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/archive.hpp"
#include "base/files.hpp"

namespace shakedown::finetune {

ChatTemplate chat_template_of(const std::filesystem::path& folder, const Tokenizer& tokenizer) {
  const auto jinja = folder / "chat_template.jinja", config = folder / "tokenizer_config.json";
  std::optional<std::string> text;
  if (path_exists(jinja)) {
    text = read_file(jinja);
  } else if (path_exists(config)) {
    const auto json = document_of_text(read_file(config));
    if (json.is_object() && json.contains("chat_template") && json["chat_template"].is_string())
      text = json["chat_template"].get<std::string>();
  }
  const bool has_chatml = tokenizer.id_of("<|im_start|>") && tokenizer.id_of("<|im_end|>");
  const bool has_headers = tokenizer.id_of("<|start_header_id|>") && tokenizer.id_of("<|eot_id|>");
  if (!text) {
    const auto chatml = tokenizer.id_of("<tool_call>") ? ChatTemplate::qwen2_5 : ChatTemplate::qwen2;
    return has_chatml ? chatml : has_headers ? ChatTemplate::llama3 : ChatTemplate::none;
  }
  const auto has = [&](const char* words) { return text->find(words) != std::string::npos; };
  if (has_chatml && has("<|im_start|>")) {
    if (has(system_of_qwen2_5)) return ChatTemplate::qwen2_5;
    if (has(system_of_qwen2)) return ChatTemplate::qwen2;
  }
  if (has_headers && has("<|start_header_id|>") && !has("Cutting Knowledge")) return ChatTemplate::llama3;
  throw InputError(folder.string() +
                   ": its chat template is not that of Qwen2, Qwen2.5 or Llama 3; use one of these models");
}

}  // namespace shakedown::finetune
