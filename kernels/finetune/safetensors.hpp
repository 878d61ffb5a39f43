// Files of tensors in the safetensors format (github.com/huggingface/safetensors): 8 bytes with the length of a header,
// the header as JSON, and the bytes of the tensors, little-endian and in row-major order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.hpp"

namespace shakedown::finetune {

/// The types of elements that are read. A file with another type is refused.
enum class DType { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };
constexpr auto words(DType) { return names("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"); }
std::size_t size_of(DType);
/// True for the types of weights, which to_floats takes.
constexpr bool is_float(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }

struct Tensor {
  DType dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;

  std::size_t elements() const { return bytes.size() / size_of(dtype); }
};

/// Copies the elements of a tensor (F32, F16 or BF16) as f32. Errors: std::invalid_argument for other types and for
/// another number of elements.
void to_floats(const Tensor&, std::span<float> out);
/// Rounds numbers to F32, F16 or BF16, to nearest, ties to even. Errors: std::invalid_argument for other types.
std::vector<std::byte> from_floats(std::span<const float>, DType);

/// The tensors of a file, or of all files of a folder. The files are mapped, so that only parts that are used are read.
class SafetensorsFile {
 public:
  using Tensor = finetune::Tensor;

  /// Opens a file, or a folder with model.safetensors or model.safetensors.index.json. Errors: InputError if the header
  /// is damaged: tensors that overlap, leave gaps or end after the file, an unknown type, or a shape that does not have
  /// as many elements as the tensor.
  explicit SafetensorsFile(const std::filesystem::path&);

  /// Returns the names of all tensors, sorted.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  /// Errors: InputError if the file has no such tensor.
  const Tensor& at(std::string_view name) const;
  /// Returns the files, sorted.
  std::vector<std::filesystem::path> files() const;

 private:
  void open(const std::filesystem::path& file);
  void open_shards(const std::filesystem::path& index);

  std::filesystem::path path_;
  std::map<std::filesystem::path, std::shared_ptr<const void>> mapped_;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

/// Returns a SHA-256 by which the weights of a model folder are recognized: of the names, types and shapes of all
/// tensors, and the first and last 64 KiB of each. Errors: InputError.
std::string digest_of_weights(const std::filesystem::path& folder);

struct NamedTensor {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
};

/// Writes a file of tensors, one after another, so that only one of them has to be in memory: to a temporary name, to
/// which `bytes_of` supplies each tensor in the given order, then renames it. Errors: CannotWrite;
/// std::invalid_argument if the size of a tensor is not that of its shape.
void write_safetensors(const std::filesystem::path&, const std::vector<NamedTensor>&,
                       const std::function<std::vector<std::byte>(std::size_t)>& bytes_of);
void write_safetensors(const std::filesystem::path&, const std::map<std::string, Tensor>&);

}  // namespace shakedown::finetune
