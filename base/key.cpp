#include "base/key.hpp"

#include <algorithm>

#include "base/parse_number.hpp"

namespace shakedown {

Key::Key(std::string_view text) : text_(text), family_(text.substr(0, text.find('/'))) {
  for (text.remove_prefix(family_.size()); !text.empty();) {
    text.remove_prefix(1);
    const auto part = text.substr(0, text.find('/'));
    const auto colon = std::min(part.find(':'), part.size());
    parts_.emplace_back(part.substr(0, colon), part.substr(std::min(colon + 1, part.size())));
    text.remove_prefix(part.size());
  }
}

Key& Key::put(std::string_view name, std::string value) {
  const auto found = std::find_if(parts_.begin(), parts_.end(), [&](const Part& part) { return part.first == name; });
  (found == parts_.end() ? parts_.emplace_back(name, "") : *found).second = std::move(value);
  text_ = family_;
  for (const auto& [of, is] : parts_) text_ += "/" + of + (is.empty() ? "" : ":") + is;
  return *this;
}

std::string_view Key::part(std::string_view name) const {
  const auto found = std::find_if(parts_.begin(), parts_.end(), [&](const Part& part) { return part.first == name; });
  return found == parts_.end() ? std::string_view() : found->second;
}

std::optional<long long> Key::number(std::string_view name) const { return whole_number<long long>(part(name)); }

Key Key::with(std::string_view name, std::string_view value) const {
  Key changed = *this;
  return part(name).empty() ? changed : changed.put(name, std::string(value));
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
  return whole_number<long long>(key_part(key, name));
}

}  // namespace shakedown
