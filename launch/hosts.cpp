#include "launch/hosts.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <sstream>

#include "base/text.hpp"

namespace shakedown {
namespace {

/// At commas outside of brackets.
std::vector<std::string> parts_of(std::string_view list) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : list) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  std::erase(parts, "");
  return parts;
}

/// "08-11": 08, 09, 10, 11; anything else is one word.
std::vector<std::string> range(const std::string& text) {
  const auto dash = text.find('-');
  unsigned first = 0, last = 0;
  const auto number = [&text](std::size_t begin, std::size_t end, unsigned& value) {
    const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, value);
    return error == std::errc() && stop == text.data() + end;
  };
  constexpr unsigned most = 1000000;  // hosts; more is no list of a scheduler
  if (dash == std::string::npos || !number(0, dash, first) || !number(dash + 1, text.size(), last) || last < first ||
      last - first > most) {
    return {text};
  }
  std::vector<std::string> words;
  for (unsigned i = first; i <= last; ++i) {
    auto word = std::to_string(i);
    if (word.size() < dash) word.insert(0, dash - word.size(), '0');
    words.push_back(word);
  }
  return words;
}

}  // namespace

std::vector<std::string> expanded_hosts(std::string_view list) {
  std::vector<std::string> hosts;
  for (const std::string& part : parts_of(list)) {
    const auto open = part.find('['), close = part.find(']', open);
    if (open == std::string::npos || close == std::string::npos) {
      hosts.push_back(part);
      continue;
    }
    for (const auto& item : parts_of(part.substr(open + 1, close - open - 1))) {
      for (const auto& word : range(item)) {
        // What follows may have brackets too: "rack[1-2]node[1-4]".
        for (const auto& host : expanded_hosts(part.substr(0, open) + word + part.substr(close + 1))) {
          hosts.push_back(host);
        }
      }
    }
  }
  return hosts;
}

std::vector<ListedHost> hosts_of_file(std::string_view text) {
  std::vector<ListedHost> hosts;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    ListedHost host;
    if (!(words >> host.name)) continue;
    // Not of an IPv6 address, which has several.
    if (const auto colon = host.name.find(':'); colon != std::string::npos && colon == host.name.rfind(':')) {
      host.slots = std::max(1, std::atoi(host.name.c_str() + colon + 1));
      host.name.resize(colon);
    }
    for (std::string word; words >> word;) {
      if (word.rfind("slots=", 0) == 0) host.slots = std::max(1, std::atoi(word.c_str() + 6));
    }
    const auto known = std::find_if(hosts.begin(), hosts.end(), [&](const auto& h) { return h.name == host.name; });
    known == hosts.end() ? hosts.push_back(host) : void(known->slots += host.slots);
  }
  return hosts;
}

bool same_host_name(std::string_view a, std::string_view b) {
  const auto first = lower(a), second = lower(b);
  const auto dot = [](const std::string& host) { return host.find('.'); };
  if (first == second) return true;
  const bool one_is_short = (dot(first) == std::string::npos) != (dot(second) == std::string::npos);
  return one_is_short && first.substr(0, dot(first)) == second.substr(0, dot(second));
}

bool is_one_of(const std::string& host, const std::vector<std::string>& hosts) {
  return std::any_of(hosts.begin(), hosts.end(), [&](const auto& other) { return same_host_name(host, other); });
}

}  // namespace shakedown
