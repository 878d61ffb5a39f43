#include "base/file_pieces.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/files.hpp"
#include "base/shown_path.hpp"
#include "base/timed_call.hpp"

namespace shakedown {

FilePieces::FilePieces(const std::filesystem::path& file) : file_(file), in_(nullptr, std::fclose) {
  std::error_code error;
  const TimedCall call("open", file);
  const auto status = std::filesystem::status(file, error);
  if (error) refuse_to_read(file, error);
  if (!std::filesystem::is_regular_file(status)) {
    throw InputError(shown(file).string() +
                     (std::filesystem::is_directory(status) ? ": is a folder" : ": is a pipe or a device") +
                     ", not a file");
  }
  in_.reset(std::fopen(file.c_str(), "rbe"));
  if (!in_) refuse();
  const auto size = std::filesystem::file_size(file, error);
  size_ = error ? 0 : static_cast<std::size_t>(size);
  // One byte more than the size of a small file, so that one read is enough. The C library returns larger blocks to the
  // system when they are freed, and would ask for them again for each file.
  constexpr std::size_t min_piece_bytes = 4096, max_piece_bytes = std::size_t{1} << 15;
  piece_bytes_ = std::clamp(size_ + 1, min_piece_bytes, max_piece_bytes);
  piece_ = std::make_unique_for_overwrite<char[]>(piece_bytes_);
}

std::string_view FilePieces::next() {
  if (std::feof(in_.get()) != 0) return {};
  const TimedCall call("read", file_);
  const auto count = std::fread(piece_.get(), 1, piece_bytes_, in_.get());
  if (std::ferror(in_.get()) != 0) refuse();
  return {piece_.get(), count};
}

void FilePieces::refuse() const { refuse_to_read(file_, {errno, std::generic_category()}); }

}  // namespace shakedown
