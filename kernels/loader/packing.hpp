// The order of documents and their packing into sequences. In each epoch, a seed shuffles the documents. They follow
// each other without padding, each with an end token, and are cut into sequences of equal length; the tokens after the
// last whole sequence are left out. The order does not depend on ranks or workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/loader/corpus.hpp"

namespace shakedown::loader {

/// Returns the order of the documents in an epoch (Fisher and Yates, 1938; random numbers by splitmix64).
std::vector<std::uint32_t> shuffled(std::size_t documents, std::uint64_t seed, std::uint64_t epoch);

/// A part of a document at a place in a sequence. `count` includes the end token if `has_end`.
struct Piece {
  std::size_t document, first, count, at;
  bool has_end;
};

class Packing {
 public:
  Packing(const Corpus&, std::size_t seq, std::uint64_t seed, std::uint64_t epoch);

  /// Returns the number of sequences, which is the same in each epoch.
  std::size_t sequences() const { return ends_.empty() ? 0 : static_cast<std::size_t>(ends_.back()) / seq_; }
  /// Returns the parts of which a sequence consists, in their order.
  std::vector<Piece> pieces(std::size_t sequence) const;

 private:
  std::size_t seq_;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint64_t> ends_;  // by place in the order: the token after the end of the document
};

}  // namespace shakedown::loader
