#include "launch/rank_output.hpp"

#include <algorithm>
#include <cctype>

namespace shakedown {

std::string document_in(const std::string& text) {
  const auto begin = text.rfind("{\n", 0) == 0 ? 0 : text.find("\n{\n");
  if (begin == std::string::npos) return "";
  auto document = text.substr(begin == 0 ? 0 : begin + 1);
  document.resize(document.rfind('}') + 1);
  return document.empty() ? "" : document + "\n";
}

std::optional<std::pair<std::string, std::string>> streamed(std::string_view line) {
  constexpr std::string_view start = "{\"family\": \"", middle = "\", \"result\": ";
  const auto begin = line.find(start);  // some launchers print the rank at the start of the line
  const auto end = line.find(middle, begin);
  const auto last = line.rfind('}');
  if (begin == std::string_view::npos || end == std::string_view::npos || last == std::string_view::npos || last <= end)
    return std::nullopt;
  const auto family = line.substr(begin + start.size(), end - begin - start.size());
  const auto document = line.substr(end + middle.size(), last - end - middle.size());
  const bool is_name = !family.empty() && std::all_of(family.begin(), family.end(),
                                                      [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  if (!is_name) return std::nullopt;
  return std::pair(std::string(family), std::string(document) + "\n");
}

}  // namespace shakedown
