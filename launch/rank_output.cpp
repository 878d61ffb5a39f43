#include "launch/rank_output.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

namespace shakedown {

bool announces_end(std::string_view line) {
  return line.rfind("shakedown: timeout:", 0) == 0 || line.find("; the job cannot go on") != std::string_view::npos;
}

std::optional<std::vector<std::string>> lost_hosts_in(std::string_view line) {
  constexpr std::string_view start = "shakedown-lost: ";
  if (line.rfind(start, 0) != 0) return std::nullopt;
  std::istringstream words(std::string(line.substr(start.size())));
  return std::vector<std::string>(std::istream_iterator<std::string>(words), {});
}

bool is_for_people(std::string_view line) { return line.rfind("shakedown:", 0) == 0; }

std::string refusal_in(std::string_view line) {
  constexpr std::string_view start = "shakedown: ";
  if (line.rfind(start, 0) != 0) return "";
  const std::string said(line.substr(start.size()));
  if (said.find(" is in use by another measurement: ") != std::string::npos) return said + "; wait for it, or end it";
  return said.find(" lacks CUDA libraries: ") != std::string::npos ? said : "";
}

std::string document_in(const std::string& text) {
  const auto begin = text.rfind("{\n", 0) == 0 ? 0 : text.find("\n{\n");
  if (begin == std::string::npos) return "";
  auto document = text.substr(begin == 0 ? 0 : begin + 1);
  document.resize(document.rfind('}') + 1);
  return nlohmann::json::accept(document) ? document + "\n" : "";
}

std::optional<std::pair<std::string, std::string>> streamed(std::string_view line) {
  constexpr std::string_view start = "{\"family\": \"", middle = "\", \"result\": ";
  const auto begin = line.find(start);  // a launcher may put the rank before it
  const auto end = line.find(middle, begin);
  const auto last = line.rfind('}');
  if (begin == std::string_view::npos || end == std::string_view::npos || last <= end) return std::nullopt;
  const auto family = line.substr(begin + start.size(), end - begin - start.size());
  const auto document = line.substr(end + middle.size(), last - end - middle.size());
  const bool is_name = !family.empty() && std::all_of(family.begin(), family.end(),
                                                      [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  if (!is_name || !nlohmann::json::accept(document)) return std::nullopt;
  return std::pair(std::string(family), std::string(document) + "\n");
}

}  // namespace shakedown
