#include "kernels/loader/corpus.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/files.hpp"
#include "kernels/reference.hpp"

namespace shakedown::loader {

namespace {

constexpr std::uint64_t format_of_file = 0x31736e656b6f7473;  // "stokens1"
constexpr std::size_t header_words = 2;                       // the format and the number of documents
constexpr std::size_t shortest = 32, longest = 2047;
constexpr Token vocabulary = 50'000;
constexpr const char* cannot_write = "a file of tokens cannot be written; free space there";

[[noreturn]] void refuse(const std::filesystem::path& path, const char* what) {
  throw InputError(fmt::format("{}: {}: {}", path.string(), what, std::generic_category().message(errno)));
}

template <class T>
void write_values(const Descriptor& file, const std::filesystem::path& folder, const std::vector<T>& values) {
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  if (!write_all(file.get(), bytes)) refuse(folder, cannot_write);
}

Descriptor nameless_file(const std::filesystem::path& folder) {
  Descriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.is_open()) return file;
  // NFS and others have no O_TMPFILE.
  std::string name = (folder / "shakedown-tokens.XXXXXX").string();
  file = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (!file.is_open()) refuse(folder, "no file can be made there; choose another folder");
  ::unlink(name.c_str());
  return file;
}

void read_bytes(const Descriptor& file, const std::filesystem::path& path, std::span<std::byte> out, std::size_t from) {
  const auto read = read_at(file.get(), out, from);
  if (!read) refuse(path, "cannot be read");
  if (*read < out.size()) {
    throw InputError(fmt::format("{}: ends after {} bytes, but has {} more by its header; write it again",
                                 path.string(), from + *read, out.size() - *read));
  }
}

}  // namespace

std::size_t MadeCorpus::length(std::size_t document) const {
  return shortest + reference::mix(reference::mix(seed) + document) % (longest - shortest + 1);
}

Token MadeCorpus::token(std::size_t document, std::size_t position) const {
  return 1 + static_cast<Token>(reference::mix((seed << 48) ^ (document << 16) ^ position) % (vocabulary - 1));
}

Descriptor make_corpus(const std::filesystem::path& folder, const MadeCorpus& made) {
  auto file = nameless_file(folder);
  std::vector<std::uint64_t> head{format_of_file, made.documents};
  std::uint64_t end = 0;
  for (std::size_t d = 0; d < made.documents; ++d) head.push_back(end += made.length(d));
  write_values(file, folder, head);
  std::vector<Token> tokens;
  for (std::size_t d = 0; d < made.documents; ++d) {
    tokens.resize(made.length(d));
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = made.token(d, i);
    write_values(file, folder, tokens);
  }
  if (::fsync(file.get()) != 0) refuse(folder, cannot_write);
  return file;
}

Corpus::Corpus(const std::filesystem::path& path)
    : Corpus(Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), path) {}

Corpus::Corpus(Descriptor file, std::filesystem::path path) : path_(std::move(path)), file_(std::move(file)) {
  if (!file_.is_open()) refuse(path_, "cannot be opened");
  std::array<std::uint64_t, header_words> head{};
  read_bytes(file_, path_, std::as_writable_bytes(std::span(head)), 0);
  if (head[0] != format_of_file) throw InputError(path_.string() + ": not a file of tokens; name another");
  const auto size = static_cast<std::uint64_t>(::lseek(file_.get(), 0, SEEK_END));
  const std::uint64_t most = (size - sizeof head) / sizeof(std::uint64_t);
  if (head[1] == 0 || head[1] > most) {
    throw InputError(
        fmt::format("{}: has {} documents by its header, but {} bytes; write it again", path.string(), head[1], size));
  }
  ends_.resize(head[1]);
  read_bytes(file_, path_, std::as_writable_bytes(std::span(ends_)), sizeof head);
  std::uint64_t last = 0;
  for (const auto end : ends_) {
    if (end < last) throw InputError(path_.string() + ": its documents are not in order; write it again");
    last = end;
  }
  const std::uint64_t needed = sizeof head + ends_.size() * sizeof(std::uint64_t) + last * sizeof(Token);
  if (last > size || size < needed) {
    throw InputError(fmt::format("{}: has {} of {} bytes; write it again", path_.string(), size, needed));
  }
}

std::size_t Corpus::length(std::size_t document) const { return ends_.at(document) - begin_of(document); }

void Corpus::read(std::size_t document, std::size_t first, std::span<Token> out) const {
  const std::size_t tokens = sizeof(std::uint64_t) * (header_words + ends_.size());
  read_bytes(file_, path_, std::as_writable_bytes(out), tokens + sizeof(Token) * (begin_of(document) + first));
}

void Corpus::drop_cache() const { static_cast<void>(::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED)); }

}  // namespace shakedown::loader
