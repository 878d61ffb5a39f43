// Parses strict JSON without duplicate keys. An error gives the position and the reason.
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/file_pieces.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "thresholds/results/json_field.hpp"
#include "thresholds/results/json_tokens.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Builds the document, but rejects an object in which a key occurs twice. A reader may use either value (RFC 8259), so
// such a file could show one value to a person and another to the judge.
class StrictDocument {
 public:
  StrictDocument(const fs::path& file, JsonTokens& tokens, const std::function<void(json&, const std::string&)>& visit)
      : file_(file), tokens_(tokens), visit_(visit) {}

  /// Reads the whole text. Returns false at the first byte that is not strict JSON.
  bool read() {
    if (!tokens_.skip_mark() || !read_value()) return false;
    while (!open_.empty()) {
      const bool is_object = open_.back()->is_object();
      if (tokens_.take(is_object ? '}' : ']')) {
        close();
        continue;
      }
      if (!is_first_ && !tokens_.take(',')) return false;
      is_first_ = false;
      if ((is_object && !read_name()) || !read_value()) return false;
    }
    return !tokens_.peek();
  }
  json take() { return std::move(root_); }

 private:
  /// Reads a value without elements, or begins an array or an object.
  bool read_value() {
    switch (tokens_.peek().value_or('\0')) {
      case '{': return open(json::object());
      case '[': return open(json::array());
      case 'n': return tokens_.take_word("null") && add(nullptr);
      case 't': return tokens_.take_word("true") && add(true);
      case 'f': return tokens_.take_word("false") && add(false);
      case '"': return tokens_.read_string(text_) && add(text_);
      default: break;
    }
    const auto number = tokens_.read_number();
    return number && std::visit([&](auto value) { return add(value); }, *number);
  }

  bool read_name() {
    if (tokens_.peek() != '"' || !tokens_.read_string(text_) || !tokens_.take(':')) return false;
    const auto [member, fresh] = open_.back()->emplace(text_, nullptr);
    if (!fresh) throw InputError(file_.string() + ": the key \"" + text_ + "\" occurs twice in one object");
    member_ = &*member;
    if (open_.size() == 1) list_ = text_;
    return true;
  }

  json* place(json&& value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_array()) return &open_.back()->emplace_back(std::move(value));
    return &(*member_ = std::move(value));
  }
  bool add(json&& value) {
    place(std::move(value));
    completed();
    return true;
  }
  bool open(json&& value) {
    tokens_.take(value.is_object() ? '{' : '[');
    open_.push_back(place(std::move(value)));
    // Most arrays are columns of equal length, with a value of each rank.
    if (open_.back()->is_array() && open_.size() > 2) open_.back()->get_ref<json::array_t&>().reserve(last_size_);
    is_first_ = true;
    return true;
  }
  void close() {
    if (open_.back()->is_array()) last_size_ = std::min(open_.back()->size(), max_reserved);
    open_.pop_back();
    is_first_ = false;
    completed();
  }
  // Calls the visitor if an array of the document is the innermost one that is open, so that its last element is
  // complete.
  void completed() {
    if (visit_ && open_.size() == 2 && open_.front()->is_object() && open_.back()->is_array()) visit_(root_, list_);
  }

  static constexpr std::size_t max_reserved = 64;

  const fs::path& file_;
  JsonTokens& tokens_;
  const std::function<void(json&, const std::string&)>& visit_;
  std::string text_, list_;  // list_: name of the member of the document that is read
  json root_;
  std::vector<json*> open_;
  std::size_t last_size_ = 0;  // number of elements of the array that was closed last
  bool is_first_ = false;      // true: the innermost array or object has no element yet
  json* member_ = nullptr;
};

/// Returns "line 3, column 7, at "NaN"", the place of the byte at which a text stops being JSON.
std::string place_in(const std::string& text, std::size_t byte) {
  constexpr std::size_t max_shown = 20;
  const auto is_end = [](unsigned char c) { return std::isspace(c) != 0 || std::strchr(",:\"{}[]", c) != nullptr; };
  if (text.empty()) return "an empty file";  // the file has changed since it was read
  byte = std::min(byte, text.size() - 1);
  auto begin = byte;  // start of the word that has this byte
  while (begin > 0 && !is_end(text[begin - 1])) --begin;
  const auto end = std::find_if(text.begin() + static_cast<std::ptrdiff_t>(begin) + 1, text.end(), is_end);
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(begin), '\n');
  const auto column = begin == 0 ? 1 : begin - (text.rfind('\n', begin - 1) + 1) + 1;
  const std::string word(text.begin() + static_cast<std::ptrdiff_t>(begin), end);
  return "line " + std::to_string(line) + ", column " + std::to_string(column) + ", at \"" +
         shortened(one_line(word), max_shown) + "\"";
}

/// A file that the parser reads in pieces, and their digest.
class Source {
 public:
  explicit Source(const fs::path& file) : pieces_(file) {}

  /// Returns the next characters; empty at the end of the file.
  std::string_view next() {
    const std::string_view piece = pieces_.next();
    hash_.add(piece);
    count_ += piece.size();
    is_blank_ =
        is_blank_ && std::all_of(piece.begin(), piece.end(), [](unsigned char c) { return std::isspace(c) != 0; });
    return piece;
  }
  void skip_all() {
    while (!next().empty()) {
    }
  }
  /// Return the number of characters that were read, whether all are white space, and their digest.
  std::size_t count() const { return count_; }
  bool is_blank() const { return is_blank_; }
  std::string sha256() const { return hash_.digest(); }

 private:
  FilePieces pieces_;
  Sha256 hash_;
  std::size_t count_ = 0;
  bool is_blank_ = true;
};

}  // namespace

json read_json(const fs::path& file) { return read_json(file, {}).document; }

HashedJson read_json(const fs::path& file, const std::function<void(json&, const std::string&)>& visit) {
  Source source(file);
  JsonTokens tokens([&] { return source.next(); });
  StrictDocument document(file, tokens, visit);
  const bool parsed = document.read();
  const std::size_t stopped_at = tokens.position();
  source.skip_all();
  if (parsed) return {document.take(), source.sha256()};
  if (source.is_blank()) {
    throw InputError(file.string() + ": is empty; the run that should have written it did not finish");
  }
  if (stopped_at > source.count()) {
    throw InputError(file.string() + ": is cut off: not valid JSON at its end");
  }
  throw InputError(file.string() + ": is not strict JSON in " + place_in(read_file(file), stopped_at - 1) +
                   "; measure again, or name a result file");
}

}  // namespace shakedown
