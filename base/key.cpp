#include "base/key.hpp"

#include <algorithm>
#include <charconv>

namespace shakedown {

Key Key::parse(std::string_view text) {
  Key key(family_of(text));
  for (text.remove_prefix(key.family_.size()); !text.empty();) {
    text.remove_prefix(1);
    const auto part = text.substr(0, text.find('/'));
    const auto colon = std::min(part.find(':'), part.size());
    key.parts_.emplace_back(part.substr(0, colon), part.substr(std::min(colon + 1, part.size())));
    text.remove_prefix(part.size());
  }
  return key;
}

std::string Key::text() const {
  std::string text = family_;
  for (const auto& [name, value] : parts_) text += "/" + name + (value.empty() ? "" : ":") + value;
  return text;
}

std::string& Key::at(std::string_view name) {
  const auto found = std::find_if(parts_.begin(), parts_.end(), [&](const auto& part) { return part.first == name; });
  return found == parts_.end() ? parts_.emplace_back(name, "").second : found->second;
}

std::string family_of(std::string_view key) { return std::string(key.substr(0, key.find('/'))); }

std::string_view key_part(std::string_view key, std::string_view name) {
  while (!key.empty()) {
    const auto part = key.substr(0, key.find('/'));
    if (part.size() > name.size() && part.starts_with(name) && part[name.size()] == ':') {
      return part.substr(name.size() + 1);
    }
    key.remove_prefix(std::min(part.size() + 1, key.size()));
  }
  return {};
}

std::optional<long long> key_number(std::string_view key, std::string_view name) {
  const auto part = key_part(key, name);
  long long number = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
  return error == std::errc() && end == part.data() + part.size() ? std::optional(number) : std::nullopt;
}

std::string with_part(std::string_view key, std::string_view name, std::string_view value) {
  const auto part = key_part(key, name);
  std::string text(key);
  return part.empty() ? text : text.replace(static_cast<std::size_t>(part.data() - key.data()), part.size(), value);
}

}  // namespace shakedown
