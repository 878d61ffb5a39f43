#include "base/file_pieces.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/files.hpp"

namespace shakedown::file_pieces_test {
namespace {

TEST(FilePieces, AreThePartsOfAFileInItsOrder) {
  const auto file = std::filesystem::temp_directory_path() / ("shakedown_pieces_" + std::to_string(getpid()));
  constexpr std::size_t mib = std::size_t{1} << 20;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, mib, 3 * mib + 5}) {
    std::string text(size, 'x');
    for (std::size_t i = 0; i < size; i += 1000) text[i] = static_cast<char>('a' + i / 1000 % 26);
    replace_file(file, text);
    FilePieces pieces(file);
    EXPECT_EQ(pieces.size(), size);
    std::string read;
    for (auto piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
      EXPECT_LE(piece.size(), mib);
      read += piece;
    }
    EXPECT_TRUE(read == text) << size;
    EXPECT_TRUE(pieces.next().empty()) << "at the end";
    EXPECT_TRUE(read_file(file) == text) << size;
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace shakedown::file_pieces_test
