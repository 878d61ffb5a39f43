#include "base/host_list.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <utility>

#include "base/files.hpp"
#include "base/parse_number.hpp"
#include "base/text.hpp"

namespace shakedown {
namespace {

constexpr std::size_t max_hosts_of_list = 100'000;

struct List {
  std::string_view text, where;
};

[[noreturn]] void refuse(const List& list, const std::string& what) {
  throw InputError(std::string(list.where) + "host list \"" + one_line(list.text) + "\": " + what);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Splits a list at the commas that are not in brackets.
std::vector<std::string_view> parts(std::string_view list) {
  std::vector<std::string_view> all;
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') inside = true;
    if (i < list.size() && list[i] == ']') inside = false;
    if (i < list.size() && (list[i] != ',' || inside)) continue;
    all.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  return all;
}

unsigned long number(const List& list, std::string_view digits) {
  const auto value = whole_number<unsigned long>(digits);
  if (!value) refuse(list, "\"" + one_line(digits) + "\" is not a number; write ranges as [1-3,7]");
  return *value;
}

// Expands "1-3,07" to 1, 2, 3 and 07. All numbers of a range get the width of its first one.
std::vector<std::string> numbers(const List& list, std::string_view inside) {
  std::vector<std::string> all;
  for (const std::string_view range : parts(inside)) {
    const auto dash = range.find('-');
    const std::string_view from = range.substr(0, dash);
    const unsigned long first = number(list, from);
    const unsigned long last = dash == std::string_view::npos ? first : number(list, range.substr(dash + 1));
    if (last < first) refuse(list, "the range " + std::string(range) + " is descending");
    if (last - first >= max_hosts_of_list)
      refuse(list, "the range " + std::string(range) + " has more than 100,000 hosts");
    for (unsigned long n = first; n <= last; ++n) {
      std::string digits = std::to_string(n);
      if (digits.size() < from.size()) digits.insert(0, from.size() - digits.size(), '0');
      all.push_back(std::move(digits));
    }
  }
  return all;
}

void expand(const List& list, const std::string& before, std::string_view rest, std::vector<std::string>& hosts) {
  const auto open = rest.find('[');
  if (open == std::string_view::npos) {
    if (rest.find(']') != std::string_view::npos) refuse(list, "a bracket is closed but was not opened");
    if (hosts.size() == max_hosts_of_list) refuse(list, "it has more than 100,000 hosts");
    hosts.push_back(before + std::string(rest));
    return;
  }
  const auto close = rest.find(']', open);
  if (close == std::string_view::npos) refuse(list, "a bracket is not closed");
  for (const std::string& digits : numbers(list, rest.substr(open + 1, close - open - 1))) {
    expand(list, before + std::string(rest.substr(0, open)) + digits, rest.substr(close + 1), hosts);
  }
}

// Settings of Open MPI and MPICH in a host file that do not affect the number of slots.
constexpr std::array ignored_settings{"max_slots",
                                      "max-slots",
                                      "slots_max",
                                      "slots-max",
                                      "count_max",
                                      "count-max",
                                      "cpu_max",
                                      "cpu-max",
                                      "user",
                                      "username",
                                      "user_name",
                                      "user-name",
                                      "port",
                                      "boards",
                                      "sockets_per_board",
                                      "sockets-per-board",
                                      "cores_per_socket",
                                      "cores-per-socket",
                                      "binding",
                                      "ifname"};

[[noreturn]] void refuse_word(const std::string& where, std::string_view word, const char* what) {
  throw InputError(where + "\"" + one_line(word) + "\" is not " + what +
                   "; write \"host\", \"host 8\", \"host slots=8\" or \"host:8\"");
}

int number_of_slots(const std::string& where, std::string_view word, std::string_view digits) {
  const auto slots = whole_number<int>(digits);
  if (slots.value_or(0) < 1) refuse_word(where, word, "a number of ranks");
  return *slots;
}

// Returns the words of a line; "slots = 8" is one word.
std::vector<std::string> words_of(std::string_view line) {
  std::istringstream in{std::string(line.substr(0, line.find('#')))};
  std::vector<std::string> words;
  for (std::string word; in >> word;) {
    const bool goes_on = words.size() > 1 && (word.front() == '=' || words.back().back() == '=');
    goes_on ? words.back() += word : words.emplace_back(word);
  }
  return words;
}

// Returns the number of slots that the words after the host give. Grid Engine writes "host 8 queue@host processors".
std::optional<int> slots_of_words(const std::vector<std::string>& words, const std::string& where) {
  std::optional<int> slots;
  const bool of_grid_engine = words.size() == 4 && words[2].find('@') != std::string::npos;
  for (std::size_t i = 1; i < (of_grid_engine ? 2 : words.size()); ++i) {
    const std::string& word = words[i];
    const auto equals = word.find('=');
    const std::string setting = word.substr(0, equals);
    if (equals == std::string::npos) {
      if (slots) refuse_word(where, word, "understood");
      slots = number_of_slots(where, word, word);
    } else if (setting == "slots" || setting == "count" || setting == "cpu") {
      slots = number_of_slots(where, word, std::string_view(word).substr(equals + 1));
    } else if (std::find(ignored_settings.begin(), ignored_settings.end(), setting) == ignored_settings.end()) {
      refuse_word(where, word, "understood");
    }
  }
  return slots;
}

}  // namespace

bool is_host_name(std::string_view host) { return is_plain(host, ".-_") && host.front() != '-'; }

bool same_host(std::string_view a, std::string_view b) {
  const std::string first = lower(a), second = lower(b);
  if (first == second) return true;
  const auto dot = [](const std::string& host) { return host.find('.'); };
  const bool one_is_short = (dot(first) == std::string::npos) != (dot(second) == std::string::npos);
  return one_is_short && first.substr(0, dot(first)) == second.substr(0, dot(second));
}

std::string host_in_command(const std::string& host) { return is_host_name(host) ? host : "HOST"; }

std::vector<std::string> expand_hosts(std::string_view list, std::string_view where) {
  std::vector<std::string> hosts;
  for (const std::string_view part : parts(list)) {
    const auto first = part.find_first_not_of(" \t");
    if (first == std::string_view::npos) refuse({list, where}, "a name is empty");
    expand({list, where}, "", part.substr(first, part.find_last_not_of(" \t") + 1 - first), hosts);
  }
  return hosts;
}

std::vector<ListedHost> listed_hosts(std::string_view list, const std::string& where) {
  std::vector<ListedHost> hosts;
  for (const std::string_view part : parts(list)) {
    const auto colon = part.find(':');
    // An IPv6 address has several colons.
    const bool has_slots = colon != std::string_view::npos && colon == part.rfind(':');
    std::optional<int> slots;
    if (has_slots && part.substr(colon + 1) != "*") slots = number_of_slots(where, part, part.substr(colon + 1));
    const auto names = expand_hosts(has_slots ? part.substr(0, colon) : part, where);
    for (const std::string& name : names) hosts.push_back({name, slots, where});
  }
  return hosts;
}

std::vector<ListedHost> hosts_of_file(std::string_view text, const std::string& file) {
  std::vector<ListedHost> hosts;
  std::istringstream in{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::string where = file + ":" + std::to_string(number) + ":1: ";
    const auto words = words_of(line);
    if (words.empty()) continue;
    const auto slots = slots_of_words(words, where);
    for (ListedHost& host : listed_hosts(words.front(), where)) {
      if (slots) host.slots = slots;
      hosts.push_back(std::move(host));
    }
  }
  return hosts;
}

std::string host_ranges(std::vector<std::string> hosts) {
  // Names in the same group differ only in their last number. If that number has leading zeros, it also has the same
  // number of digits.
  struct Like {
    std::string before, after;
    std::size_t width;
    auto operator<=>(const Like&) const = default;
  };
  std::map<Like, std::vector<unsigned long>> groups;
  std::vector<std::string> words;
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  for (const std::string& host : hosts) {
    auto end = host.size();
    while (end > 0 && !is_digit(host[end - 1])) --end;
    auto begin = end;
    while (begin > 0 && is_digit(host[begin - 1])) --begin;
    if (begin == end || end - begin > 9) {
      words.push_back(host);
      continue;
    }
    const std::string digits = host.substr(begin, end - begin);
    groups[{host.substr(0, begin), host.substr(end), digits.front() == '0' ? digits.size() : 0}].push_back(
        std::stoul(digits));
  }
  for (auto& [like, numbers] : groups) {
    std::sort(numbers.begin(), numbers.end());
    const auto digits = [&like = like](unsigned long n) {
      const std::string text = std::to_string(n);
      return text.size() < like.width ? std::string(like.width - text.size(), '0') + text : text;
    };
    std::vector<std::string> ranges;
    for (std::size_t i = 0; i < numbers.size();) {
      std::size_t j = i;
      while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1 &&
             digits(numbers[j + 1]).size() == std::max(like.width, digits(numbers[i]).size())) {
        ++j;
      }
      ranges.push_back(i == j ? digits(numbers[i]) : digits(numbers[i]) + "-" + digits(numbers[j]));
      i = j + 1;
    }
    const bool single = numbers.size() == 1;
    words.push_back(like.before + (single ? "" : "[") + joined(ranges, ",") + (single ? "" : "]") + like.after);
  }
  return joined(words, ",");
}

}  // namespace shakedown
