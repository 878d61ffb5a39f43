#include "kernels/finetune/row_stream.hpp"

#include <cmath>

namespace shakedown::finetune {

RowStream::RowStream(std::span<const Example> examples, const PackingOptions& options, AfterLastRow after)
    : examples_(examples), options_(options), after_(after) {}

const Packing& RowStream::packing(std::size_t epoch) {
  if (!packing_ || epoch_ != epoch) {
    packing_.emplace(examples_, options_, epoch);
    epoch_ = epoch;
  }
  if (epoch == ends_.size()) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + packing_->rows());
  return *packing_;
}

std::uint64_t RowStream::rows_in(double epochs) {
  double rows = 0;
  for (std::size_t epoch = 0; static_cast<double>(epoch) < epochs; ++epoch) {
    rows += std::min(1.0, epochs - static_cast<double>(epoch)) * static_cast<double>(packing(epoch).rows());
  }
  return static_cast<std::uint64_t>(std::ceil(rows));
}

Example RowStream::row(std::uint64_t number) {
  std::size_t epoch = 0;
  while (epoch >= ends_.size() || number >= ends_[epoch]) {
    if (epoch < ends_.size()) {
      ++epoch;
    } else if (epoch > 0 && after_ == AfterLastRow::empty) {
      return {std::vector<std::int32_t>(options_.seq, options_.padding), std::vector<std::uint8_t>(options_.seq, 0)};
    } else {
      packing(epoch);
    }
  }
  return packing(epoch).row(number - (epoch == 0 ? 0 : ends_[epoch - 1]));
}

training::TrainingTokens RowStream::tokens(std::uint64_t step, std::size_t rows, Group& group) {
  const auto ranks = static_cast<std::uint64_t>(group.size()), rank = static_cast<std::uint64_t>(group.rank());
  training::TrainingTokens tokens;
  double own = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    const auto [ids, in_loss] = row((step * rows + i) * ranks + rank);
    for (std::size_t at = 0; at < ids.size(); ++at) {
      const bool counts = at + 1 < ids.size() && in_loss[at + 1] != 0;
      tokens.inputs.push_back(ids[at]);
      tokens.targets.push_back(counts ? ids[at + 1] : training::no_target);
      own += counts ? 1 : 0;
    }
  }
  group.sum(std::span<const double>(&own, 1), std::span<double>(&tokens.counted, 1));
  return tokens;
}

}  // namespace shakedown::finetune
