#include "kernels/finetune/packing.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string_view>

#include "base/files.hpp"
#include "base/sha256.hpp"
#include "kernels/finetune/safetensors.hpp"
#include "kernels/loader/packing.hpp"

namespace shakedown::finetune {

Packing::Packing(std::span<const Example> examples, const PackingOptions& options, std::uint64_t epoch)
    : examples_(examples), options_(options), order_(examples.size()) {
  if (options.seq == 0) throw std::invalid_argument("a row must have a token");
  std::iota(order_.begin(), order_.end(), 0U);
  if (options.shuffle) order_ = loader::shuffled(examples.size(), options.seed, epoch);
  std::size_t used = 0;
  for (std::size_t place = 0; place < order_.size(); ++place) {
    const auto tokens = examples_[order_[place]].tokens.size();
    const auto kept = std::min(tokens, options.seq);
    if (kept < tokens) ++cut_;
    if (place == 0 || !options.pack || used + kept > options.seq) {
      begins_.push_back(place);
      used = 0;
    }
    used += kept;
  }
  begins_.push_back(order_.size());
}

Example Packing::row(std::size_t index) const {
  Example row;
  row.tokens.reserve(options_.seq);
  for (auto place = begins_.at(index); place < begins_.at(index + 1); ++place) {
    const auto& example = examples_[order_[place]];
    const auto first = row.tokens.size();
    const auto count = std::min(example.tokens.size(), options_.seq);
    row.tokens.insert(row.tokens.end(), example.tokens.begin(),
                      example.tokens.begin() + static_cast<std::ptrdiff_t>(count));
    row.in_loss.insert(row.in_loss.end(), example.in_loss.begin(),
                       example.in_loss.begin() + static_cast<std::ptrdiff_t>(count));
    if (count > 0) row.in_loss[first] = 0;
  }
  row.tokens.resize(options_.seq, options_.padding);
  row.in_loss.resize(options_.seq, 0);
  return row;
}

std::size_t Packing::targets() const {
  std::size_t targets = 0;
  for (const auto& example : examples_) {
    const auto kept = std::min(example.in_loss.size(), options_.seq);
    for (std::size_t i = 1; i < kept; ++i) targets += example.in_loss[i] != 0 ? 1 : 0;
  }
  return targets;
}

// Prepared examples are a file of tensors: "tokens" and "in_loss" of all examples, "ends" with the place after each
// example, "origin", and "sha256" of the others. Its name has the version.
namespace {

constexpr const char* format_name = "shakedown.examples.1";

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string digest_of(const std::map<std::string, Tensor>& tensors) {
  Sha256 sha;
  for (const auto& [name, tensor] : tensors) sha.add(text_of(tensor.bytes));
  return sha.digest();
}

template <class T>
std::vector<T> values_of(const Tensor& tensor, DType dtype, const std::filesystem::path& path) {
  if (tensor.dtype != dtype)
    throw InputError(path.string() + ": a part has another type; prepare the data again (--prepare)");
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace

void write_prepared(const std::filesystem::path& path, std::span<const Example> examples, const std::string& origin) {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint8_t> in_loss;
  std::vector<std::int64_t> ends;
  for (const auto& example : examples) {
    tokens.insert(tokens.end(), example.tokens.begin(), example.tokens.end());
    in_loss.insert(in_loss.end(), example.in_loss.begin(), example.in_loss.end());
    ends.push_back(static_cast<std::int64_t>(tokens.size()));
  }
  const auto tensor = [](DType dtype, std::span<const std::byte> bytes) {
    return Tensor{dtype, {static_cast<std::int64_t>(bytes.size() / size_of(dtype))}, bytes};
  };
  std::map<std::string, Tensor> parts;
  parts.emplace("ends", tensor(DType::i64, std::as_bytes(std::span(ends))));
  parts.emplace("in_loss", tensor(DType::u8, std::as_bytes(std::span(in_loss))));
  parts.emplace("origin", tensor(DType::u8, bytes_of(origin)));
  parts.emplace("tokens", tensor(DType::i32, std::as_bytes(std::span(tokens))));
  const auto digest = digest_of(parts);
  parts.emplace(format_name, tensor(DType::u8, bytes_of(digest)));
  write_safetensors(path, parts);
}

std::vector<Example> read_prepared(const std::filesystem::path& path, const std::string& origin) {
  const auto refuse = [&](const char* what) {
    throw InputError(path.string() + ": " + what + "; prepare the data again (--prepare)");
  };
  const SafetensorsFile file(path);
  if (!file.contains(format_name)) refuse("is not a file of prepared examples of this version");
  std::map<std::string, Tensor> parts;
  for (const char* name : {"ends", "in_loss", "origin", "tokens"}) parts.emplace(name, file.at(name));
  if (digest_of(parts) != text_of(file.at(format_name).bytes)) refuse("is damaged (its digest is wrong)");
  if (text_of(parts.at("origin").bytes) != origin) refuse("was made from other data or with another tokenizer");
  const auto ends = values_of<std::int64_t>(parts.at("ends"), DType::i64, path);
  const auto tokens = values_of<std::int32_t>(parts.at("tokens"), DType::i32, path);
  const auto in_loss = values_of<std::uint8_t>(parts.at("in_loss"), DType::u8, path);
  std::vector<Example> examples;
  std::int64_t begin = 0;
  for (const auto end : ends) {
    if (end < begin || end > std::ssize(tokens) || tokens.size() != in_loss.size())
      refuse("its examples do not fit its tokens");
    examples.push_back(
        {{tokens.begin() + begin, tokens.begin() + end}, {in_loss.begin() + begin, in_loss.begin() + end}});
    begin = end;
  }
  if (begin != std::ssize(tokens)) refuse("its examples do not fit its tokens");
  return examples;
}

bool is_prepared(const std::filesystem::path& path) {
  // A file of tensors begins with the length of its header and the header; a file of texts begins with a text.
  std::ifstream in(path, std::ios::binary);
  std::array<char, 9> begin{};
  in.read(begin.data(), begin.size());
  constexpr std::uint64_t max_length = 1 << 16;
  std::uint64_t length = 0;
  std::memcpy(&length, begin.data(), sizeof length);
  return in.gcount() == std::ssize(begin) && length < max_length && begin.back() == '{';
}

}  // namespace shakedown::finetune
