// The sums of a step's gradients over ranks, beside the backward pass: bucket by bucket of the whole array, or of each
// unit a share to each rank; and what a summary tells of them on the way.
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

  /// All must outlive it; what `shape` says of buckets may change.
  GradientSums(Ops& ops, const StepShape& shape, const FlatLayout& layout, const AllBuffers& buffers)
      : ops_(ops), shape_(shape), layout_(layout), buffers_(buffers) {
    sent_.resize(std::max(buffers_.units.size(), slots_in_turns));
  }

  /// Where what a sum tells goes, whether it is made at all, and of which micro-batch.
  struct Pass {
    Record* record;
    bool exchanges;
    std::size_t micro;
  };

  /// A backward pass begins.
  void begin() { reduced_ = buckets_ = 0; }
  /// Sums since then.
  std::size_t buckets() const { return buckets_; }

  /// Whether so many gradients, which are complete in the backward pass of this layer, are to be summed now. Less than
  /// a bucket waits for the next layer; after the last one as little as possible is left, unless a bucket is all of
  /// them.
  bool due(std::size_t complete, std::size_t layer) const {
    const bool rest = layer == 0 && shape_.bucket < layout_.count();
    return rest || shape_.shard == Shard::weights || complete - reduced_ >= shape_.bucket;
  }

  /// Looks at the gradients before `end` that became complete since the last time, and sums them over ranks beside what
  /// follows. Where ranks share the state, each gets its share of the units that are complete.
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

  /// What is queued from here on may write the gradient of this unit: that of the one before it has been sent.
  void claim(std::size_t unit) {
    auto& ticket = sent_[buffers_.units[unit].slot];
    if (ticket) ops_.wait(*ticket);
    ticket.reset();
  }
  /// Nothing travels any more.
  void joined() { sent_.assign(sent_.size(), std::nullopt); }

  /// What AdamW's clipping looks at: the gradient of the whole model, in which what is replicated counts once. Each sum
  /// over ranks that share the state has told of its part, and these travel: join them.
  void summarize(const Pass& pass) {
    if (shape_.sharded()) {
      if (pass.exchanges) ops_.all_reduce(&pass.record->reduced);
      return;
    }
    const auto& last = buffers_.units[buffers_.units.size() - 1 - (shape_.tensor_rank > 0 ? 1 : 0)];
    ops_.summarize(buffers_.state.gradient, 0, last.own_offset + last.own_count, &pass.record->reduced);
  }

 private:
  /// So many values of the flat array count in the norm here: of what all ranks that compute the model together have,
  /// one has the sum.
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
      // Its own share is looked at as it is summed; in a step without sums by nobody, so that their times compare.
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
  std::vector<std::optional<std::size_t>> sent_;  // by slot, the sum that who writes there next waits for
};

}  // namespace shakedown::training
