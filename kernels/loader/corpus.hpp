// Tokenised documents in one file: a header, the place of each document, and the tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/descriptor.hpp"

namespace shakedown::loader {

using Token = std::uint32_t;

/// The end of each document in a sequence. No document contains it.
inline constexpr Token end_of_document = 0;

/// Documents that a formula makes, so that each token can be checked.
struct MadeCorpus {
  std::size_t documents = 0;
  std::uint64_t seed = 1;

  /// Returns the tokens of a document without its end: 32 to 2,047.
  std::size_t length(std::size_t document) const;
  Token token(std::size_t document, std::size_t position) const;
};

/// Makes a file of documents in a folder. The file has no name, so it vanishes with the process. Errors: InputError.
Descriptor make_corpus(const std::filesystem::path& folder, const MadeCorpus&);

/// A file of documents that is open. Reads are safe from several threads.
class Corpus {
 public:
  /// Errors: InputError if the file cannot be read, is truncated, or has another format. `path` names it in errors.
  Corpus(Descriptor, std::filesystem::path);
  explicit Corpus(const std::filesystem::path&);

  std::size_t documents() const { return ends_.size(); }
  std::size_t length(std::size_t document) const;
  /// Reads out.size() tokens from token `first` of a document. Errors: InputError.
  void read(std::size_t document, std::size_t first, std::span<Token> out) const;
  /// Removes the file from the page cache, as far as the kernel permits it, so that the disk is read.
  void drop_cache() const;

 private:
  std::size_t begin_of(std::size_t document) const { return document == 0 ? 0 : ends_[document - 1]; }

  std::filesystem::path path_;
  Descriptor file_;
  std::vector<std::uint64_t> ends_;  // by document: the token after its last one, in the file
};

}  // namespace shakedown::loader
