#include "base/key.hpp"

#include <algorithm>
#include <utility>

#include "base/parse_number.hpp"

namespace shakedown {

Key::Key(std::string_view text) {
  Content content{std::string(text), std::string(text.substr(0, text.find('/'))), {}};
  text.remove_prefix(content.family.size());
  content.parts.reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), '/')));
  while (!text.empty()) {
    text.remove_prefix(1);
    const auto part = text.substr(0, text.find('/'));
    const auto colon = std::min(part.find(':'), part.size());
    content.parts.emplace_back(part.substr(0, colon), part.substr(std::min(colon + 1, part.size())));
    text.remove_prefix(part.size());
  }
  content_ = std::make_shared<const Content>(std::move(content));
}

const Key::Content& Key::no_content() {
  static const Content none;
  return none;
}

Key& Key::set_all(std::initializer_list<std::pair<std::string_view, std::string>> values) {
  Content changed{"", family(), parts()};
  auto& all = changed.parts;
  for (const auto& [name, value] : values) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Part& part) { return part.first == name; });
    (found == all.end() ? all.emplace_back(name, "") : *found).second = value;
  }
  changed.text.reserve(text().size() + 8);
  changed.text += changed.family;
  for (const auto& [of, is] : all) {
    changed.text += '/';
    changed.text += of;
    if (is.empty()) continue;
    changed.text += ':';
    changed.text += is;
  }
  content_ = std::make_shared<const Content>(std::move(changed));
  return *this;
}

std::string_view Key::part(std::string_view name) const {
  const auto& all = parts();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Part& part) { return part.first == name; });
  return found == all.end() ? std::string_view() : found->second;
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
