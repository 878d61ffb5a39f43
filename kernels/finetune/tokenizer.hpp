// Byte-level BPE (Sennrich et al. 2016; Radford et al. 2019) as tokenizer.json of Qwen2 and Llama 3 describes it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace shakedown::finetune {

class Tokenizer {
 public:
  /// Reads a tokenizer.json, or that of a folder. Errors: InputError for other kinds of tokenizers, normalizers and
  /// patterns.
  explicit Tokenizer(const std::filesystem::path&);

  /// Returns the tokens of a text. Special tokens in the text become their own tokens. Bytes that are no UTF-8 become
  /// U+FFFD.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// Returns the tokens of the joined parts, each with the number of the part that has its last byte.
  struct Token {
    std::int32_t id;
    std::size_t part;
  };
  std::vector<Token> encode(std::span<const std::string> parts) const;
  /// Returns the text of tokens, with special tokens. Bytes that are no UTF-8 become U+FFFD, unknown tokens are left
  /// out.
  std::string decode(std::span<const std::int32_t>) const;

  /// Returns the id of a token, such as "<|im_end|>"; nullopt if it is unknown.
  std::optional<std::int32_t> id_of(std::string_view token) const;
  /// Returns the tokens that begin each text in training, such as Llama's <|begin_of_text|>.
  const std::vector<std::int32_t>& prefix() const { return prefix_; }
  /// Returns the token that ends a text: <|endoftext|> or <|end_of_text|>. Errors: InputError if there is neither.
  std::int32_t end_of_text() const;
  /// Returns the largest id plus one.
  std::size_t vocabulary() const { return text_of_.size(); }
  /// Returns the SHA-256 of the file, by which prepared data is recognized.
  const std::string& digest() const { return digest_; }

 private:
  struct Merge {
    std::int32_t rank, id;
  };
  struct Added {
    std::string text;
    std::int32_t id;
  };

  /// Errors: InputError if the id has another text.
  void set_text(std::int32_t id, const std::string& text);
  void read_model(const nlohmann::json&);
  void read_merges(const nlohmann::json&);
  void read_added(const nlohmann::json&);
  void read_splits(const nlohmann::json&);
  void read_prefix(const nlohmann::json&);
  [[noreturn]] void refuse(const std::string& what) const;
  std::int32_t id_in(const nlohmann::json&, const std::string& what) const;

  const Added* added_at(std::string_view text) const;
  void add_words(std::string_view text, std::size_t begin, std::size_t end, std::span<const std::size_t> ends,
                 std::vector<Token>&) const;
  void merge(const std::string& word, std::vector<std::int32_t>& ids) const;

  std::filesystem::path file_;
  std::string digest_;
  std::unordered_map<std::string, std::int32_t> ids_;  // by the bytes of a token, without added tokens
  std::vector<std::optional<std::string>> text_of_;    // by id: the bytes of a token
  std::unordered_map<std::uint64_t, Merge> merges_;    // by the ids of two neighbours
  std::vector<Added> added_;                           // the longest first
  std::vector<std::int32_t> prefix_;
  std::array<std::int32_t, 0x100> byte_ids_{};
  std::array<bool, 0x100> begins_added_{};  // by the first byte
  std::size_t max_digits_ = 1;              // of a word
  bool is_composed_ = false;                // by NFC
  bool takes_whole_words_ = false;          // without merges, if the vocabulary has them
};

}  // namespace shakedown::finetune
