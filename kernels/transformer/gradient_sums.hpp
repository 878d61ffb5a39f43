// Sums a step's gradients over ranks while the backward pass runs. Either the whole array is summed bucket by bucket,
// or each rank gets the sum of its share of every unit. This file also collects the summaries of the gradients.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "kernels/transformer/buffers.hpp"

namespace shakedown::training {

template <TrainingOps Ops>
class GradientSums {
 public:
  using Master = typename Ops::Master;
  using AllBuffers = Buffers<typename Ops::Element, Master>;

  /// All arguments must outlive it; the bucket size in `shape` may change.
  GradientSums(Ops& ops, const StepShape& shape, const FlatLayout& layout, const AllBuffers& buffers)
      : ops_(ops), shape_(shape), layout_(layout), buffers_(buffers) {
    sent_.resize(std::max(buffers_.units.size(), slots_in_turns));
  }

  /// Settings of one pass: the record of its summaries, whether to sum over ranks, and the micro-batch.
  struct Pass {
    Record* record;
    bool exchanges;
    std::size_t micro;
  };

  /// Starts a backward pass.
  void begin() { reduced_ = buckets_ = 0; }
  /// Returns the number of sums since begin().
  std::size_t buckets() const { return buckets_; }

  /// True if the gradients that are complete at this layer of the backward pass must be summed now. Fewer gradients
  /// than a bucket wait for the next layer. After the last layer as little as possible must remain, unless a bucket
  /// holds all gradients.
  bool due(std::size_t complete, std::size_t layer) const {
    const bool rest = layer == 0 && shape_.bucket < layout_.count();
    return rest || shape_.shard == Shard::weights || complete - reduced_ >= shape_.bucket;
  }

  /// Summarizes the gradients before `end` that have become complete since the last call, and starts their sum over
  /// ranks. The backward pass continues meanwhile. If ranks share the state, each gets its share of the units that are
  /// complete.
  void reduce(std::size_t end, const Pass& pass) {
    if (shape_.sharded()) return scatter(end, pass);
    if (end <= reduced_) return;
    Master* const values = buffers_.state.gradient + reduced_;
    if (reduced_ < counted()) {
      ops_.summarize(values, reduced_, std::min(end, counted()) - reduced_, &pass.record->local);
    }
    if (pass.exchanges) ops_.all_reduce(values, end - reduced_);
    reduced_ = end;
    ++buckets_;
  }

  /// Makes it safe for later work to write the gradient of this unit, after the previous gradient in its slot has been
  /// sent.
  void claim(std::size_t unit) {
    auto& ticket = sent_[buffers_.units[unit].slot];
    if (ticket) ops_.wait(*ticket);
    ticket.reset();
  }
  /// Called when all transfers are complete.
  void joined() { sent_.assign(sent_.size(), std::nullopt); }

  /// Computes the summary for AdamW's clipping: of the gradient of the whole model, with replicated parameters counted
  /// once. If ranks share the state, every sum has already summarized its own part. In this case the function only
  /// starts the sum of these summaries over ranks, which the caller must join.
  void summarize(const Pass& pass) {
    if (shape_.sharded()) {
      if (pass.exchanges) ops_.all_reduce(&pass.record->reduced);
      return;
    }
    const auto& last = buffers_.units[buffers_.units.size() - 1 - (shape_.tensor_rank > 0 ? 1 : 0)];
    ops_.summarize(buffers_.state.gradient, 0, last.own_offset + last.own_count, &pass.record->reduced);
  }

 private:
  /// Returns the number of values of the flat array that count in the norm on this rank. Parameters that all ranks of a
  /// tensor parallel group have are counted by one of them.
  std::size_t counted() const { return shape_.tensor_rank > 0 ? layout_.units.back().offset : layout_.count(); }

  void scatter(std::size_t end, const Pass& pass) {
    for (std::size_t u = 0; u < layout_.units.size(); ++u) {
      const auto& unit = layout_.units[u];
      if (unit.offset < reduced_ || unit.end() > end || unit.used == 0) continue;
      const auto& place = buffers_.units[u];
      ops_.set_bytes(place.gradient + unit.used, 0, (unit.size - unit.used) * sizeof(Master));
      const bool counts = unit.offset < counted();
      const auto look = [&](std::size_t first, std::size_t behind) {
        if (!counts || first >= behind) return;
        ops_.summarize(place.gradient + first, unit.offset + first, behind - first, &pass.record->local);
      };
      // This rank's own share is summarized while it is summed. A step without sums omits that, so that the times are
      // comparable.
      const auto mine = static_cast<std::size_t>(shape_.rank) * place.own_count;
      look(0, std::min(mine, unit.used));
      look(mine + place.own_count, unit.used);
      if (pass.exchanges) {
        const bool last = pass.micro + 1 == shape_.accumulation, add = shape_.shard == Shard::weights && pass.micro > 0;
        ShareSummaries told{unit.offset + mine, &pass.record->share, last ? &pass.record->reduced : nullptr,
                            &pass.record->fetched};
        if (!counts) told = {};
        sent_[place.slot] = ops_.reduce_scatter(place.gradient, place.own_gradient, place.own_count, add, told);
      }
      reduced_ = unit.end();
      ++buckets_;
    }
  }

  Ops& ops_;
  const StepShape& shape_;
  const FlatLayout& layout_;
  const AllBuffers& buffers_;
  std::size_t reduced_ = 0, buckets_ = 0;
  std::vector<std::optional<std::size_t>> sent_;  // by slot: the sum that the next write to the slot must wait for
};

}  // namespace shakedown::training
