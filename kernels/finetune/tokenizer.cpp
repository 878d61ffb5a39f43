#include "kernels/finetune/tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <queue>
#include <utility>

#include "base/archive.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "kernels/finetune/unicode.hpp"

namespace shakedown::finetune {

namespace {

using SortedJson = nlohmann::json;
namespace fs = std::filesystem;

// The patterns by which Qwen2 and Llama 3 split a text into words. They differ in the digits of a number.
constexpr const char* pattern_of_qwen2 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)"
                                         R"(\p{N})"
                                         R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* pattern_of_llama3 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)"
                                          R"(\p{N}{1,3})"
                                          R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Returns the byte for which a character of the vocabulary is written; nullopt if it is not one of the 256. GPT-2
/// writes bytes that are no visible character as U+0100 and following.
std::optional<char> byte_of(char32_t c) {
  static const auto bytes = [] {
    std::array<std::optional<char>, 0x200> map;
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 0x100; ++byte) {
      const bool is_visible = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
      map.at(is_visible ? byte : next++) = static_cast<char>(byte);
    }
    return map;
  }();
  return c < bytes.size() ? bytes.at(c) : std::nullopt;
}

/// Returns the bytes of a token; nullopt if it has other characters.
std::optional<std::string> real_bytes_of(std::string_view token) {
  std::string bytes;
  for (const char32_t c : unicode::from_utf8(token)) {
    const auto byte = byte_of(c);
    if (!byte) return std::nullopt;
    bytes += *byte;
  }
  return bytes;
}

bool is_line_end(char32_t c) { return c == '\r' || c == '\n'; }
bool is_other(char32_t c) { return !unicode::is_space(c) && !unicode::is_letter(c) && !unicode::is_number(c); }

template <class Is>
std::size_t run_end(std::u32string_view text, std::size_t at, const Is& is) {
  while (at < text.size() && is(text[at])) ++at;
  return at;
}

/// Returns the end of a contraction such as 's or 'LL at a place; the place itself if there is none.
std::size_t contraction_end(std::u32string_view text, std::size_t at) {
  const auto lower_at = [&](std::size_t i) -> char32_t {
    if (i >= text.size()) return 0;
    if (text[i] == 0x17f) return 's';  // the long s, which is s without case
    return text[i] >= 'A' && text[i] <= 'Z' ? text[i] + ('a' - 'A') : text[i];
  };
  if (text[at] != '\'') return at;
  const char32_t one = lower_at(at + 1), two = lower_at(at + 2);
  if (one == 's' || one == 't' || one == 'm' || one == 'd') return at + 2;
  const bool is_pair = ((one == 'r' || one == 'v') && two == 'e') || (one == 'l' && two == 'l');
  return is_pair ? at + 3 : at;
}

/// Returns the end of the word that begins at a place, by the alternatives of the patterns in their order.
std::size_t word_end(std::u32string_view text, std::size_t at, std::size_t max_digits) {
  if (const auto end = contraction_end(text, at); end != at) return end;
  const char32_t c = text[at];
  const auto next_is = [&](const auto& is) { return at + 1 < text.size() && is(text[at + 1]); };
  if (unicode::is_letter(c)) return run_end(text, at, unicode::is_letter);
  if (unicode::is_number(c)) return std::min(run_end(text, at, unicode::is_number), at + max_digits);
  if (!is_line_end(c) && next_is(unicode::is_letter)) return run_end(text, at + 1, unicode::is_letter);
  if (is_other(c) || (c == ' ' && next_is(is_other)))
    return run_end(text, run_end(text, at + 1, is_other), is_line_end);
  const auto end = run_end(text, at, unicode::is_space);
  for (auto i = end; i > at; --i) {
    if (is_line_end(text[i - 1])) return i;
  }
  return end < text.size() && end > at + 1 ? end - 1 : end;  // the last blank belongs to the next word
}

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

/// Returns a member; null if it is absent or this is not an object.
const SortedJson& member(const SortedJson& json, const char* name) {
  static const SortedJson absent;
  const auto found = json.is_object() ? json.find(name) : json.end();
  return json.is_object() && found != json.end() ? *found : absent;
}

}  // namespace

Tokenizer::Tokenizer(const fs::path& path) : file_(is_folder(path) ? path / "tokenizer.json" : path) {
  const auto text = read_file(file_);
  digest_ = sha256(text);
  const auto json = document_of_text(text);
  if (!json.is_object()) refuse("is not a JSON object; download it again");
  read_model(member(json, "model"));
  read_merges(member(member(json, "model"), "merges"));
  read_added(member(json, "added_tokens"));
  read_splits(json);
  read_prefix(member(json, "post_processor"));
}

void Tokenizer::refuse(const std::string& what) const { throw InputError(file_.string() + ": " + what); }

std::int32_t Tokenizer::id_in(const SortedJson& json, const std::string& what) const {
  constexpr std::int64_t max_id = 10'000'000;  // no vocabulary is larger, and a wrong id must not take all memory
  if (!json.is_number_integer() || json.get<std::int64_t>() < 0 || json.get<std::int64_t>() > max_id)
    refuse(fmt::format("the id of {} is not a number from 0 to {}; download it again", one_line(what), max_id));
  return json.get<std::int32_t>();
}

void Tokenizer::set_text(std::int32_t id, const std::string& text) {
  if (text_of_.size() <= static_cast<std::size_t>(id)) text_of_.resize(static_cast<std::size_t>(id) + 1);
  auto& own = text_of_[static_cast<std::size_t>(id)];
  if (own && *own != text)
    refuse(fmt::format("id {} is both {} and {}; download it again", id, one_line(*own), one_line(text)));
  own = text;
}

void Tokenizer::read_model(const SortedJson& model) {
  if (member(model, "type") != "BPE" || !member(model, "vocab").is_object())
    refuse("has no model of type BPE; use a model with byte-level BPE, such as Qwen2 or Llama 3");
  for (const char* name : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto& value = member(model, name);
    if (!value.is_null() && value != "") refuse(fmt::format("its {} is not supported; use another model", name));
  }
  if (member(model, "byte_fallback") == true) refuse("its byte_fallback is not supported; use another model");
  takes_whole_words_ = member(model, "ignore_merges") == true;
  for (const auto& [token, value] : model["vocab"].items()) {
    const auto id = id_in(value, token);
    const auto bytes = real_bytes_of(token);
    if (bytes) ids_.emplace(*bytes, id);
    set_text(id, bytes.value_or(token));
  }
  for (int byte = 0; byte < 0x100; ++byte) {
    const auto found = ids_.find(std::string(1, static_cast<char>(byte)));
    if (found == ids_.end()) refuse(fmt::format("has no token for the byte {}; use a byte-level model", byte));
    byte_ids_.at(static_cast<std::size_t>(byte)) = found->second;
  }
}

void Tokenizer::read_merges(const SortedJson& merges) {
  if (!merges.is_array()) refuse("has no merges; download it again");
  std::int32_t rank = 0;
  for (const auto& merge : merges) {
    std::vector<std::string> sides;
    if (merge.is_string()) sides = split(merge.get<std::string>(), ' ');
    if (merge.is_array()) {
      for (const auto& side : merge) sides.push_back(side.is_string() ? side.get<std::string>() : "");
    }
    const auto id_of_bytes = [&](const std::string& bytes) {
      const auto found = ids_.find(bytes);
      if (found == ids_.end())
        refuse(fmt::format("merge {} has parts that are not in the vocabulary; download it again", rank));
      return found->second;
    };
    if (sides.size() != 2) refuse(fmt::format("merge {} does not have two parts; download it again", rank));
    const auto left = real_bytes_of(sides[0]).value_or(""), right = real_bytes_of(sides[1]).value_or("");
    merges_.emplace(pair_of(id_of_bytes(left), id_of_bytes(right)), Merge{rank, id_of_bytes(left + right)});
    ++rank;
  }
}

void Tokenizer::read_added(const SortedJson& tokens) {
  if (!tokens.is_array() && !tokens.is_null()) refuse("its added_tokens are not a list; download it again");
  for (const auto& token : tokens) {
    const auto& content = member(token, "content");
    if (!content.is_string() || content == "") refuse("an added token has no content; download it again");
    const auto text = content.get<std::string>();
    for (const char* name : {"lstrip", "rstrip", "single_word"}) {
      if (member(token, name) == true)
        refuse(fmt::format("{} of the added token {} is not supported; use another model", name, one_line(text)));
    }
    const auto id = id_in(member(token, "id"), text);
    set_text(id, text);
    added_.push_back({text, id});
    begins_added_.at(static_cast<unsigned char>(text.front())) = true;
  }
  std::stable_sort(added_.begin(), added_.end(),
                   [](const Added& a, const Added& b) { return a.text.size() > b.text.size(); });
}

void Tokenizer::read_splits(const SortedJson& json) {
  const auto& normalizer = member(json, "normalizer");
  is_composed_ = member(normalizer, "type") == "NFC";
  if (!normalizer.is_null() && !is_composed_) refuse("its normalizer is not NFC; use a Qwen2 or Llama 3 model");
  const auto& parts = member(member(json, "pre_tokenizer"), "pretokenizers");
  const bool are_two = parts.is_array() && parts.size() == 2;
  const auto& pattern = are_two ? member(member(parts[0], "pattern"), "Regex") : SortedJson();
  const bool is_qwen2 = pattern == pattern_of_qwen2;
  if (!are_two || (!is_qwen2 && pattern != pattern_of_llama3) || member(parts[0], "behavior") != "Isolated" ||
      member(parts[0], "invert") == true || member(parts[1], "type") != "ByteLevel" ||
      member(parts[1], "add_prefix_space") != false || member(parts[1], "use_regex") != false)
    refuse("its pre_tokenizer is neither that of Qwen2 nor that of Llama 3; use one of these models");
  constexpr std::size_t max_digits_of_llama3 = 3;
  max_digits_ = is_qwen2 ? 1 : max_digits_of_llama3;
}

void Tokenizer::read_prefix(const SortedJson& processor) {
  for (const auto& part : member(processor, "processors")) read_prefix(part);  // of a sequence
  if (member(processor, "type") != "TemplateProcessing") return;
  bool is_before_text = true;
  for (const auto& item : member(processor, "single")) {
    const auto& special = member(member(item, "SpecialToken"), "id");
    if (special.is_null()) {
      is_before_text = false;
      continue;
    }
    const auto id = special.is_string() ? id_of(special.get<std::string>()) : std::nullopt;
    if (!is_before_text || !id) refuse("its post_processor is not that of Llama 3; use another model");
    prefix_.push_back(*id);
  }
}

std::optional<std::int32_t> Tokenizer::id_of(std::string_view token) const {
  for (const auto& added : added_) {
    if (added.text == token) return added.id;
  }
  const auto found = ids_.find(std::string(token));
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::int32_t Tokenizer::end_of_text() const {
  for (const char* token : {"<|endoftext|>", "<|end_of_text|>"}) {
    if (const auto id = id_of(token)) return *id;
  }
  refuse("has neither <|endoftext|> nor <|end_of_text|>; use a Qwen2 or Llama 3 model");
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string bytes;
  for (const auto id : ids) {
    if (id >= 0 && static_cast<std::size_t>(id) < text_of_.size())
      bytes += text_of_[static_cast<std::size_t>(id)].value_or("");
  }
  return unicode::to_utf8(unicode::from_utf8(bytes));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  const std::array<std::string, 1> parts{std::string(text)};
  std::vector<std::int32_t> ids;
  for (const auto& token : encode(parts)) ids.push_back(token.id);
  return ids;
}

std::vector<Tokenizer::Token> Tokenizer::encode(std::span<const std::string> parts) const {
  std::vector<Token> tokens;
  std::string text;
  std::vector<std::size_t> ends;
  for (const auto& part : parts) ends.push_back((text += part).size());
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto* added = added_at(std::string_view(text).substr(at));
    if (added == nullptr) {
      ++at;
      continue;
    }
    add_words(text, begin, at, ends, tokens);
    begin = at += added->text.size();
    const auto part = std::lower_bound(ends.begin(), ends.end(), at) - ends.begin();
    tokens.push_back({added->id, static_cast<std::size_t>(part)});
  }
  add_words(text, begin, text.size(), ends, tokens);
  return tokens;
}

const Tokenizer::Added* Tokenizer::added_at(std::string_view text) const {
  if (!begins_added_.at(static_cast<unsigned char>(text.front()))) return nullptr;
  const auto found =
      std::find_if(added_.begin(), added_.end(), [&](const Added& a) { return text.starts_with(a.text); });
  return found == added_.end() ? nullptr : &*found;
}

void Tokenizer::add_words(std::string_view text, std::size_t begin, std::size_t end, std::span<const std::size_t> ends,
                          std::vector<Token>& tokens) const {
  // Each part is normalized by itself, so that the places of its ends are known.
  std::u32string codes;
  std::vector<std::pair<std::size_t, std::size_t>> places;  // end in bytes after normalization, part
  std::size_t bytes = 0;
  auto part = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin());
  for (; begin < end; begin = std::min(ends[part++], end)) {
    auto piece = unicode::from_utf8(text.substr(begin, std::min(ends[part], end) - begin));
    if (is_composed_) piece = unicode::composed(piece);
    codes += piece;
    places.emplace_back(bytes += unicode::to_utf8(piece).size(), part);
  }
  bytes = 0;
  auto place = places.begin();
  std::vector<std::int32_t> ids;
  for (std::size_t at = 0; at < codes.size();) {
    const auto next = word_end(codes, at, max_digits_);
    ids.clear();
    merge(unicode::to_utf8(std::u32string_view(codes).substr(at, next - at)), ids);
    for (const auto id : ids) {
      bytes += text_of_[static_cast<std::size_t>(id)]->size();
      while (place + 1 != places.end() && place->first < bytes) ++place;
      tokens.push_back({id, place->second});
    }
    at = next;
  }
}

void Tokenizer::merge(const std::string& word, std::vector<std::int32_t>& ids) const {
  if (takes_whole_words_) {
    if (const auto found = ids_.find(word); found != ids_.end()) {
      ids.push_back(found->second);
      return;
    }
  }
  // A list of symbols, in which each merge removes the right one, and a queue of possible merges by rank and place.
  // Words may be long (a file of one line without blanks), so the time must not grow with the square of the length.
  struct Symbol {
    std::int32_t id;
    std::size_t before, after;
  };
  constexpr auto none = std::numeric_limits<std::size_t>::max();
  constexpr std::int32_t removed = -1;
  std::vector<Symbol> symbols;
  for (std::size_t i = 0; i < word.size(); ++i)
    symbols.push_back({byte_ids_.at(static_cast<unsigned char>(word[i])), i == 0 ? none : i - 1,
                       i + 1 == word.size() ? none : i + 1});
  struct Candidate {
    std::int32_t rank;
    std::size_t left;
    std::uint64_t pair;
    bool operator>(const Candidate& other) const { return std::pair(rank, left) > std::pair(other.rank, other.left); }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](std::size_t left) {
    if (left == none || symbols[left].after == none) return;
    const auto pair = pair_of(symbols[left].id, symbols[symbols[left].after].id);
    if (const auto found = merges_.find(pair); found != merges_.end()) queue.push({found->second.rank, left, pair});
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) consider(i);
  while (!queue.empty()) {
    const auto [rank, left, pair] = queue.top();
    queue.pop();
    auto& symbol = symbols[left];
    const auto right = symbol.after;
    if (symbol.id == removed || right == none || pair_of(symbol.id, symbols[right].id) != pair) continue;
    symbol.id = merges_.at(pair).id;
    symbol.after = symbols[right].after;
    if (symbol.after != none) symbols[symbol.after].before = left;
    symbols[right].id = removed;
    consider(symbol.before);
    consider(left);
  }
  for (std::size_t i = symbols.empty() ? none : 0; i != none; i = symbols[i].after) ids.push_back(symbols[i].id);
}

}  // namespace shakedown::finetune
