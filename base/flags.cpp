#include "base/flags.hpp"

#include <algorithm>
#include <set>

#include "base/nearest_word.hpp"
#include "base/text.hpp"

namespace shakedown {
namespace {

std::string name_of(const std::string& word) { return word.substr(0, word.find('=')); }

/// Returns "baseline create" for "baseline_create", and "ledger add" for "ledger_add".
std::string shown_taker(std::string taker) {
  if (taker.starts_with("baseline_") || taker.starts_with("ledger_")) taker[taker.find('_')] = ' ';
  return taker == "bench" ? "the bench programs" : taker;
}

std::string takers_text(const FlagTable& table, const std::string& name) {
  std::set<std::string> takers;
  for (const auto& flag : table) {
    if (flag.name != name) continue;
    for (const auto& taker : split(flag.takers, ' ')) takers.insert(shown_taker(taker));
  }
  takers.erase("stored");
  return joined(takers);
}

[[noreturn]] void refuse_unknown(const FlagTable& table, const std::string& taker, const std::string& word) {
  std::vector<std::string> names;
  for (const auto& flag : table) {
    if (flag.is_taken_by(taker)) names.push_back(flag.name);
  }
  const std::string form = word.starts_with('-') ? "" : "flags begin with --; ";
  throw InputError("unknown flag \"" + word + "\"; " + form + "see --help" + did_you_mean(name_of(word), names));
}

void check_value(const Flag& flag, const std::optional<std::string>& value) {
  const auto refuse = [&](const std::string& why) { throw InputError(flag.name + ": " + why + "; see --help"); };
  if (flag.value.empty()) {
    if (value) refuse("takes no value");
  } else if (value ? value->empty() : flag.value.front() == '=') {
    refuse("needs a value: " + flag.name + flag.value.substr(flag.value.find('=')));
  } else if (value && flag.fault != nullptr) {
    if (const auto fault = flag.fault(flag, *value); !fault.empty()) refuse("'" + *value + "' " + fault);
  }
}

}  // namespace

bool Flag::is_taken_by(const std::string& taker) const {
  const auto has = [all = " " + takers + " "](const std::string& name) {
    return all.find(" " + name + " ") != all.npos;
  };
  return has(taker) || (taker.starts_with("bench_") && has("bench"));
}

std::vector<std::string> words_of_list(const std::string& text) { return split(text + ",", ','); }

void GivenFlags::read(const std::string& text, bool& value) {
  const std::set<std::string> no{"0", "f", "n", "false", "no", "off", "auto"};
  value = !no.contains(lower(text));
}

const Flag* find_flag(const FlagTable& table, const std::string& name, const std::string& taker) {
  const Flag* of_another = nullptr;
  for (const auto& flag : table) {
    if (flag.name != name) continue;
    if (flag.is_taken_by(taker)) return &flag;
    of_another = &flag;
  }
  return of_another;
}

std::vector<std::string> with_equals(const FlagTable& table, const std::string& taker,
                                     const std::vector<std::string>& words) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto& word = words[i];
    all.push_back(word == "-h" ? "--help" : word == "-V" ? "--version" : word);
    const Flag* const flag = find_flag(table, word, taker);
    const bool needs_value = flag != nullptr && flag->value.starts_with('=');
    if (needs_value && i + 1 < words.size() && !words[i + 1].starts_with("--")) all.back() += "=" + words[++i];
  }
  return all;
}

GivenFlags parse_flags(const FlagTable& table, const std::string& taker, const std::vector<std::string>& words) {
  std::map<std::string, std::string> values;
  for (const auto& word : with_equals(table, taker, words)) {
    const auto name = name_of(word);
    if (name == "--family") throw InputError(name + " is now called --families");
    const Flag* const flag = find_flag(table, name, taker);
    if (flag == nullptr) refuse_unknown(table, taker, word);
    if (!flag->is_taken_by(taker)) {
      throw InputError(name + ": " + shown_taker(taker) + " does not take it; it is a flag of " +
                       takers_text(table, name));
    }
    const auto value = word.size() > name.size() ? std::optional(word.substr(name.size() + 1)) : std::nullopt;
    if (!values.emplace(name, value.value_or("")).second) {
      throw InputError(name + " is given twice: give it once");
    }
    check_value(*flag, value);
  }
  return GivenFlags(std::move(values));
}

std::string flags_help(const FlagTable& table, const std::string& taker) {
  std::string text;
  for (auto title = table.begin(); title != table.end();) {
    const auto is_title = [](const Flag& flag) { return flag.takers.empty(); };
    const auto end = std::find_if(title + 1, table.end(), is_title);
    std::vector<Flag> flags;
    std::copy_if(title + 1, end, std::back_inserter(flags), [&](const Flag& flag) { return flag.is_taken_by(taker); });
    std::size_t width = 0;
    for (const auto& flag : flags) width = std::max(width, flag.name.size() + flag.value.size());
    if (!flags.empty()) text += "\n" + title->name + ":\n";
    for (const auto& flag : flags) {
      auto name = flag.name + flag.value;
      name.resize(width, ' ');
      text += "  " + name + "  " + flag.help + "\n";
    }
    title = end;
  }
  return text;
}

}  // namespace shakedown
