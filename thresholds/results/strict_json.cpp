// Parses strict JSON without duplicate keys. An error gives the position and the reason.
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <future>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file_pieces.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "thresholds/results/json_field.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Builds the document like nlohmann::json::parse, but rejects an object in which a key occurs twice. A reader may use
// either value (RFC 8259), so such a file could show one value to a person and another to the judge.
class StrictDocument : public json::json_sax_t {
 public:
  StrictDocument(const fs::path& file, const std::function<void(json&, const std::string&)>& visit)
      : file_(file), visit_(visit) {}
  json take() { return std::move(root_); }
  std::size_t stopped_at = 0;  // number of bytes up to an error, including the wrong byte

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    const auto [member, fresh] = open_.back()->emplace(name, nullptr);
    if (!fresh) throw InputError(file_.string() + ": the key \"" + name + "\" occurs twice in one object");
    member_ = &*member;
    if (open_.size() == 1) list_ = name;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    stopped_at = position;
    return false;
  }

 private:
  json* place(json&& value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_array()) return &open_.back()->emplace_back(std::move(value));
    return &(*member_ = std::move(value));
  }
  bool add(json&& value) {
    place(std::move(value));
    return completed();
  }
  bool open(json&& value) {
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return completed();
  }
  // Calls the visitor if an array of the document is the innermost one that is open, so that its last element is
  // complete.
  bool completed() {
    if (visit_ && open_.size() == 2 && open_.front()->is_object() && open_.back()->is_array()) visit_(root_, list_);
    return true;
  }

  const fs::path& file_;
  const std::function<void(json&, const std::string&)>& visit_;
  std::string list_;  // name of the member of the document that is read
  json root_;
  std::vector<json*> open_;
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

/// A file that the parser reads in pieces. Its digest takes a quarter of the time of the parser, so another thread
/// computes it meanwhile.
class Source {
 public:
  explicit Source(const fs::path& file) : pieces_(file) {}

  /// Returns the next characters; empty at the end of the file.
  std::string_view next() {
    const std::string_view piece = pieces_.next();
    hash(piece);
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
  std::string sha256() {
    if (hashing_.valid()) hashing_.get();
    return hash_.digest();
  }

 private:
  void hash(std::string_view piece) {
    if (hashing_.valid()) hashing_.get();
    constexpr std::size_t least_for_a_thread = 1 << 18;
    if (piece.size() < least_for_a_thread) return hash_.add(piece);
    hashed_ = piece;
    try {
      hashing_ = std::async(std::launch::async, [this] { hash_.add(hashed_); });
    } catch (const std::system_error&) {  // no more threads
      hash_.add(hashed_);
    }
  }

  FilePieces pieces_;
  Sha256 hash_;
  std::string hashed_;  // a copy of the piece, whose memory the next piece overwrites
  std::size_t count_ = 0;
  bool is_blank_ = true;
  std::future<void> hashing_;  // the last member, because its destructor waits for the thread
};

/// The characters of a source, for the parser. The end has no source.
class Characters {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  Characters() = default;
  explicit Characters(Source& source) : source_(&source) {}

  char operator*() const { return *at_; }
  Characters& operator++() {
    ++at_;
    return *this;
  }
  /// True if there is another character, which may be in the next piece.
  bool operator!=(const Characters&) { return at_ != end_ || read(); }
  bool operator==(const Characters& end) { return !(*this != end); }

 private:
  bool read() {
    const std::string_view piece = source_->next();
    at_ = piece.data();
    end_ = at_ + piece.size();
    return !piece.empty();
  }

  Source* source_ = nullptr;
  const char *at_ = nullptr, *end_ = nullptr;
};

}  // namespace

json read_json(const fs::path& file) { return read_json(file, {}).document; }

HashedJson read_json(const fs::path& file, const std::function<void(json&, const std::string&)>& visit) {
  Source source(file);
  StrictDocument document(file, visit);
  const bool parsed = json::sax_parse(Characters(source), Characters(), &document);
  source.skip_all();
  if (parsed) return {document.take(), source.sha256()};
  if (source.is_blank()) {
    throw InputError(file.string() + ": is empty; the run that should have written it did not finish");
  }
  // Some versions of the JSON library give the end of the text as the position, others the place after it.
  if (document.stopped_at >= source.count()) {
    throw InputError(file.string() + ": is cut off: not valid JSON at its end");
  }
  throw InputError(file.string() + ": is not strict JSON in " +
                   place_in(read_file(file), std::max<std::size_t>(document.stopped_at, 1) - 1) +
                   "; measure again, or name a result file");
}

}  // namespace shakedown
