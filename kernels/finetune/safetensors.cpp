#include "kernels/finetune/safetensors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/descriptor.hpp"
#include "base/files.hpp"
#include "base/limited_json.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "kernels/short_floats.hpp"

namespace shakedown::finetune {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t length_bytes = 8;
constexpr std::size_t max_header_bytes = 100'000'000;  // the limit of the library of Hugging Face

[[noreturn]] void refuse_file(const fs::path& file, const std::string& what) {
  throw InputError(fmt::format("{}: {}; download or write it again", file.string(), what));
}

/// A file in memory.
class MappedFile {
 public:
  explicit MappedFile(const fs::path& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat facts {};
    if (!file.is_open() || ::fstat(file.get(), &facts) != 0) refuse_to_read(path, {errno, std::generic_category()});
    if (!S_ISREG(facts.st_mode)) throw InputError(path.string() + ": is not a file; name a file of tensors");
    size_ = static_cast<std::size_t>(facts.st_size);
    if (size_ == 0) refuse_file(path, "is empty");
    void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (memory == MAP_FAILED) refuse_to_read(path, {errno, std::generic_category()});
    memory_ = static_cast<const std::byte*>(memory);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() { ::munmap(const_cast<std::byte*>(memory_), size_); }

  std::span<const std::byte> bytes() const { return {memory_, size_}; }

 private:
  const std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
};

/// A half-precision number as f32.
float from_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16, exponent = bits >> 10 & 0x1fU, fraction = bits & 0x3ffU;
  if (exponent == 0) {  // zero and subnormal numbers, in units of 2^-24
    const float size = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -size : size;
  }
  return std::bit_cast<float>(sign | (exponent == 31 ? 0x7f800000U : (exponent + 112) << 23) | fraction << 13);
}

/// Rounds to nearest, ties to even; what is too large becomes infinity.
std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  const std::uint32_t size = bits & 0x7fffffffU;
  if (size > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (size >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // from 65,520 on
  if (size < 0x38800000U) {  // below 2^-14: adding 0.5 leaves multiples of 2^-24 in the last bits
    const float sum = std::bit_cast<float>(size) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - std::bit_cast<std::uint32_t>(0.5F)));
  }
  return static_cast<std::uint16_t>(sign | ((size - 0x38000000U + 0xfffU + (size >> 13 & 1U)) >> 13));
}

/// A number that is at least 0, or nullopt.
std::optional<std::size_t> size_in(const Json& json) {
  if (!json.is_number_unsigned()) return std::nullopt;
  return json.get<std::size_t>();
}

/// Returns the bytes of a shape; nullopt if it is no shape or has more bytes than fit.
std::optional<std::size_t> size_of(const std::vector<std::int64_t>& shape, DType dtype) {
  std::size_t product = size_of(dtype);
  for (const auto length : shape) {
    if (length < 0) return std::nullopt;
    const auto factor = static_cast<std::size_t>(length);
    if (factor != 0 && product > std::numeric_limits<std::size_t>::max() / factor) return std::nullopt;
    product *= factor;
  }
  return product;
}

/// The tensor that a member of the header describes. `data`: the bytes after the header.
Tensor tensor_of(const fs::path& file, const std::string& name, const Json& json, std::span<const std::byte> data) {
  const auto wrong = [&](const std::string& what) {
    refuse_file(file, fmt::format("tensor {}: {}", one_line(name), what));
  };
  if (!json.is_object() || !json.contains("dtype") || !json.contains("shape") || !json.contains("data_offsets"))
    wrong("has no dtype, shape and data_offsets");
  const auto& type = json["dtype"];
  const auto dtype = type.is_string() ? named<DType>(type.get<std::string>()) : std::nullopt;
  if (!dtype) wrong(fmt::format("its dtype {} is not supported", one_line(type.dump())));
  Tensor tensor{*dtype, {}, {}};
  if (!json["shape"].is_array()) wrong("its shape is not a list");
  for (const auto& length : json["shape"]) {
    const auto size = size_in(length);
    if (!size || *size > std::numeric_limits<std::int64_t>::max()) wrong("its shape is not a list of sizes");
    tensor.shape.push_back(static_cast<std::int64_t>(*size));
  }
  const auto& offsets = json["data_offsets"];
  const auto begin = offsets.is_array() && offsets.size() == 2 ? size_in(offsets[0]) : std::nullopt;
  const auto end = begin ? size_in(offsets[1]) : std::nullopt;
  if (!end || *begin > *end) wrong("its data_offsets are not a begin and an end");
  if (*end > data.size()) wrong(fmt::format("ends at byte {} of the data, but the file has {}", *end, data.size()));
  if (size_of(tensor.shape, *dtype) != *end - *begin)
    wrong(fmt::format("has {} bytes, which its shape and dtype do not have", *end - *begin));
  tensor.bytes = data.subspan(*begin, *end - *begin);
  return tensor;
}

/// Throws if the tensors do not cover the data once.
void require_cover(const fs::path& file, std::vector<std::span<const std::byte>> parts,
                   std::span<const std::byte> data) {
  std::sort(parts.begin(), parts.end(),
            [](const auto& a, const auto& b) { return std::pair(a.data(), a.size()) < std::pair(b.data(), b.size()); });
  const std::byte* at = data.data();
  for (const auto part : parts) {
    if (part.data() != at) refuse_file(file, part.data() < at ? "its tensors overlap" : "its data has a gap");
    at += part.size();
  }
  if (at != data.data() + data.size()) refuse_file(file, "has data after its last tensor");
}

Json header_of(const fs::path& file, std::span<const std::byte> bytes) {
  std::uint64_t length = 0;
  if (bytes.size() < length_bytes) refuse_file(file, "is too short for a header");
  std::memcpy(&length, bytes.data(), length_bytes);
  if (length > max_header_bytes || length > bytes.size() - length_bytes)
    refuse_file(file, fmt::format("its header has {} bytes, but the file has {}", length, bytes.size()));
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + length_bytes;
  constexpr int max_depth = 4;
  bool is_deep = false;
  std::vector<std::string> seen;
  const auto header = Json::parse(
      text, text + length,
      [&](int depth, Json::parse_event_t event, Json& value) {
        is_deep = is_deep || depth > max_depth;
        if (event == Json::parse_event_t::key && depth == 1) seen.push_back(value.get<std::string>());
        return !is_deep;
      },
      false);
  std::sort(seen.begin(), seen.end());
  const bool is_double = std::adjacent_find(seen.begin(), seen.end()) != seen.end();
  if (is_deep || !header.is_object()) refuse_file(file, "its header is not a JSON object of tensors");
  if (is_double) refuse_file(file, "its header names a tensor twice");
  return header;
}

}  // namespace

std::size_t size_of(DType type) {
  switch (type) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16: return 2;
    case DType::i8:
    case DType::u8:
    case DType::boolean: return 1;
  }
  return 1;
}

void to_floats(const Tensor& tensor, std::span<float> out) {
  if (tensor.elements() != out.size()) throw std::invalid_argument("a tensor has another number of elements");
  if (tensor.dtype == DType::f32) {
    std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
  } else if (tensor.dtype == DType::bf16 || tensor.dtype == DType::f16) {
    const auto* from = tensor.bytes.data();
    for (float& value : out) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, from, sizeof bits);
      from += sizeof bits;
      value = tensor.dtype == DType::bf16 ? from_bf16(bits) : from_f16(bits);
    }
  } else {
    throw std::invalid_argument(fmt::format("a tensor of {} has no weights", name(tensor.dtype)));
  }
}

std::vector<std::byte> from_floats(std::span<const float> values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  if (dtype == DType::f32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  } else if (dtype == DType::bf16 || dtype == DType::f16) {
    auto* to = bytes.data();
    for (const float value : values) {
      const std::uint16_t bits = dtype == DType::bf16 ? to_bf16(value) : to_f16(value);
      std::memcpy(to, &bits, sizeof bits);
      to += sizeof bits;
    }
  } else {
    throw std::invalid_argument(fmt::format("weights cannot be {}", name(dtype)));
  }
  return bytes;
}

SafetensorsFile::SafetensorsFile(const fs::path& path) : path_(path) {
  if (!is_folder(path)) {
    open(path);
    return;
  }
  const auto one = path / "model.safetensors", index = path / "model.safetensors.index.json";
  if (path_exists(index)) {
    open_shards(index);
  } else if (path_exists(one)) {
    open(one);
  } else {
    throw InputError(path.string() +
                     ": has neither model.safetensors nor model.safetensors.index.json; name the "
                     "folder of a model");
  }
}

void SafetensorsFile::open(const fs::path& file) {
  const auto mapped = std::make_shared<const MappedFile>(file);
  const auto header = header_of(file, mapped->bytes());
  std::uint64_t length = 0;
  std::memcpy(&length, mapped->bytes().data(), length_bytes);
  const auto data = mapped->bytes().subspan(length_bytes + length);
  std::vector<std::span<const std::byte>> parts;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    auto tensor = tensor_of(file, name, value, data);
    parts.push_back(tensor.bytes);
    if (!tensors_.emplace(name, std::move(tensor)).second)
      refuse_file(file, fmt::format("tensor {} is also in another file", one_line(name)));
  }
  require_cover(file, std::move(parts), data);
  mapped_.emplace(file, std::shared_ptr<const void>(mapped, mapped.get()));
}

void SafetensorsFile::open_shards(const fs::path& index) {
  const auto json = limited_json<Json>(read_file(index));
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    refuse_file(index, "has no weight_map");
  for (const auto& [name, value] : json["weight_map"].items()) {
    const auto file = value.is_string() ? fs::path(value.get<std::string>()) : fs::path();
    if (file.empty() || file != file.filename() || file == "..")
      refuse_file(index, fmt::format("tensor {} is in no file of this folder", one_line(name)));
    if (!mapped_.contains(index.parent_path() / file)) open(index.parent_path() / file);
  }
  for (const auto& [name, value] : json["weight_map"].items()) {
    if (!contains(name)) refuse_file(index, fmt::format("tensor {} is not in its file", one_line(name)));
  }
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> all;
  for (const auto& [name, tensor] : tensors_) all.push_back(name);
  return all;
}

const Tensor& SafetensorsFile::at(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw InputError(fmt::format("{}: has no tensor {}; name the folder of a complete model", path_.string(), name));
  return found->second;
}

std::vector<fs::path> SafetensorsFile::files() const {
  std::vector<fs::path> all;
  for (const auto& [file, mapped] : mapped_) all.push_back(file);
  return all;
}

std::string digest_of_weights(const fs::path& folder) {
  constexpr std::size_t part = 1 << 16;
  const SafetensorsFile file(folder);
  Sha256 sha;
  const auto add = [&](std::span<const std::byte> bytes) {
    sha.add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  for (const auto& name : file.names()) {
    const auto& tensor = file.at(name);
    sha.add(fmt::format("{}\n{} {}\n", name, shakedown::name(tensor.dtype), fmt::join(tensor.shape, " ")));
    const auto bytes = std::min(tensor.bytes.size(), part);
    add(tensor.bytes.first(bytes));
    add(tensor.bytes.last(bytes));
  }
  return sha.digest();
}

namespace {

std::string header_text(const std::vector<NamedTensor>& tensors) {
  Json header = Json::object();
  header["__metadata__"] = {{"format", "pt"}};  // transformers refuses files without it
  std::size_t end = 0;
  for (const auto& tensor : tensors) {
    const auto bytes = size_of(tensor.shape, tensor.dtype);
    if (!bytes) throw std::invalid_argument("a tensor has no valid shape");
    header[tensor.name] = {
        {"dtype", name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {end, end + *bytes}}};
    end += *bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + length_bytes - 1) / length_bytes * length_bytes, ' ');  // aligns the data
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

/// A file under a temporary name, which the destructor removes if it was not renamed.
class NewFile {
 public:
  explicit NewFile(const fs::path& path)
      : path_(path),
        temporary_(path.string() + "." + std::to_string(::getpid()) + ".tmp"),
        file_(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644)) {
    if (!file_.is_open()) refuse();
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    if (!is_done_ && file_.is_open()) ::unlink(temporary_.c_str());
  }

  void write(std::string_view bytes) const {
    if (!write_all(file_.get(), bytes)) refuse();
  }
  void finish() {
    if (::fsync(file_.get()) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) refuse();
    is_done_ = true;
  }

 private:
  [[noreturn]] void refuse() const {
    throw CannotWrite(fmt::format("{}: cannot be written: {}", path_.string(), std::generic_category().message(errno)));
  }

  fs::path path_, temporary_;
  Descriptor file_;
  bool is_done_ = false;
};

}  // namespace

void write_safetensors(const fs::path& path, const std::vector<NamedTensor>& tensors,
                       const std::function<std::vector<std::byte>(std::size_t)>& bytes_of_tensor) {
  const auto header = header_text(tensors);
  NewFile file(path);
  file.write(header);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto bytes = bytes_of_tensor(i);
    if (bytes.size() != size_of(tensors[i].shape, tensors[i].dtype))
      throw std::invalid_argument("a tensor does not have the bytes of its shape");
    file.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  file.finish();
}

void write_safetensors(const fs::path& path, const std::map<std::string, Tensor>& tensors) {
  std::vector<NamedTensor> all;
  std::vector<std::span<const std::byte>> parts;
  for (const auto& [name, tensor] : tensors) {
    all.push_back({name, tensor.dtype, tensor.shape});
    parts.push_back(tensor.bytes);
  }
  write_safetensors(path, all, [&](std::size_t i) { return std::vector(parts[i].begin(), parts[i].end()); });
}

}  // namespace shakedown::finetune
