// Reads a whole file.
#include <string>

#include "base/file_pieces.hpp"
#include "base/files.hpp"

namespace shakedown {

std::string read_file(const std::filesystem::path& file) {
  FilePieces pieces(file);
  std::string text;
  text.reserve(pieces.size());
  for (auto piece = pieces.next(); !piece.empty(); piece = pieces.next()) text += piece;
  return text;
}

}  // namespace shakedown
