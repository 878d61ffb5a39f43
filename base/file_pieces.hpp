// Reads a file in pieces.
#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>

namespace shakedown {

/// Reads a regular file in pieces, so that a large file is never in memory as a whole. Each piece has its own time
/// limit, because a server may be slow.
class FilePieces {
 public:
  /// Errors: InputError for other kinds of files, because a pipe or device may never end; CannotRead.
  explicit FilePieces(const std::filesystem::path& file);

  /// Returns the next bytes, which are valid until the next call; empty at the end of the file. Errors: CannotRead.
  std::string_view next();
  /// Returns the size of the file when it was opened. Files in /proc have size 0, and other files may grow.
  std::size_t size() const { return size_; }

 private:
  [[noreturn]] void refuse() const;

  std::filesystem::path file_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> in_;
  std::size_t size_ = 0;
  std::size_t piece_bytes_ = 0;
  std::unique_ptr<char[]> piece_;  // not a vector, which would set each byte to zero
};

}  // namespace shakedown
