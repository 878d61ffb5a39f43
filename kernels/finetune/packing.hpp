// Rows of equal length from examples, and prepared examples in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kernels/finetune/dialogue.hpp"

namespace shakedown::finetune {

/// The order and the places of examples in the rows of an epoch. A row has `seq` tokens; position i predicts token
/// i + 1.
struct PackingOptions {
  std::size_t seq = 1;
  bool shuffle = true;  // in the order of `seed`; else in the order of the file
  bool pack = true;     // several examples in a row; else one
  std::uint64_t seed = 1;
  std::int32_t padding = 0;  // the token after the last example of a row
};

/// The rows of an epoch. The order depends only on the examples, the options and the epoch, not on ranks: rank r of n
/// takes rows r, r + n, ...
///
/// An example that is longer than a row is cut. A packed row has the next examples in order until one does not fit; no
/// example is divided. Attention is causal over the whole row, so an example sees the examples before it in its row;
/// the first token of each example is not in the loss. Padding is not in the loss, and it is after all examples, so
/// that no token sees it.
class Packing {
 public:
  /// `examples` must outlive the object. Errors: std::invalid_argument if `seq` is 0.
  Packing(std::span<const Example> examples, const PackingOptions&, std::uint64_t epoch);

  std::size_t rows() const { return begins_.size() - 1; }
  /// Returns a row; both of its parts have `seq` elements.
  Example row(std::size_t) const;
  /// Returns the number of examples that are longer than a row.
  std::size_t cut() const { return cut_; }
  /// Returns the number of tokens in the loss.
  std::size_t targets() const;

 private:
  std::span<const Example> examples_;
  PackingOptions options_;
  std::vector<std::uint32_t> order_;
  std::vector<std::size_t> begins_;  // by row: its first place in the order
  std::size_t cut_ = 0;
};

/// Writes examples to a file that read_prepared reads without a tokenizer. `origin` says from what it was made, such as
/// the digests of the tokenizer and the data. Errors: CannotWrite.
void write_prepared(const std::filesystem::path&, std::span<const Example>, const std::string& origin);
/// Errors: InputError if the file is damaged, has another version, or was made from something else than `origin`.
std::vector<Example> read_prepared(const std::filesystem::path&, const std::string& origin);
/// True if the file begins like a file of write_prepared.
bool is_prepared(const std::filesystem::path&);

}  // namespace shakedown::finetune
