#include "kernels/loader/packing.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/reference.hpp"

namespace shakedown::loader {

std::vector<std::uint32_t> shuffled(std::size_t documents, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::uint32_t> order(documents);
  std::iota(order.begin(), order.end(), 0U);
  const std::uint64_t stream = reference::mix(seed) + reference::mix(epoch + 1);
  for (std::size_t i = documents; i > 1; --i) std::swap(order[i - 1], order[reference::mix(stream + i) % i]);
  return order;
}

Packing::Packing(const Corpus& corpus, std::size_t seq, std::uint64_t seed, std::uint64_t epoch)
    : seq_(seq), order_(shuffled(corpus.documents(), seed, epoch)) {
  std::uint64_t end = 0;
  ends_.reserve(order_.size());
  for (const auto document : order_) ends_.push_back(end += corpus.length(document) + 1);
}

std::vector<Piece> Packing::pieces(std::size_t sequence) const {
  const std::uint64_t begin = sequence * seq_, end = begin + seq_;
  std::vector<Piece> parts;
  auto place = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin());
  for (std::uint64_t at = begin; at < end; ++place) {
    const std::uint64_t first = place == 0 ? 0 : ends_[place - 1];
    const std::uint64_t last = std::min(ends_[place], end);
    parts.push_back({order_[place], static_cast<std::size_t>(at - first), static_cast<std::size_t>(last - at),
                     static_cast<std::size_t>(at - begin), last == ends_[place]});
    at = last;
  }
  return parts;
}

}  // namespace shakedown::loader
