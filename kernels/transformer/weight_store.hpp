// Where products find the weights of a unit: all of them lie in place, or, where ranks share them, each unit travels to
// where it is used, ahead of its use.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/transformer/buffers.hpp"

namespace shakedown::training {

// Who reads whose own weights when, where ranks fetch them by themselves. AdamW and a restart write them.
// - No fetch before what it reads is written: a rank meets the others between its writes and its fetches.
// - No write before all fetches of what was there are done: a step joins its own and then sums the summary of the
//   gradient over ranks, and AdamW waits for that sum. Whoever fetches outside of that ends with TrainingStep::settle.
// Without collectives a step fetches nothing and tells nobody what it writes; the next one with them begins by meeting.
template <TrainingOps Ops>
class WeightStore {
 public:
  using Units = std::vector<typename Buffers<typename Ops::Element, typename Ops::Master>::UnitPlace>;

  /// All must outlive it.
  WeightStore(Ops& ops, const StepShape& shape, const FlatLayout& layout, const Units& places)
      : ops_(ops), sharded_(shape.sharded()), layout_(layout), places_(places) {
    held_.resize(std::max(places.size(), slots_in_turns));
    arrived_.resize(held_.size());
  }

  /// Whether what is queued exchanges with other ranks.
  bool exchanges() const { return exchanges_; }
  /// From here on it does; the weights of others may have changed if it did not.
  void exchange() {
    if (std::exchange(exchanges_, true) || !sharded_) return;
    forget();
    ops_.meet();
  }
  /// From here on it does not.
  void go_alone() { exchanges_ = false; }

  /// No slot has what its rank, or another, has written since.
  void forget() { held_.assign(held_.size(), std::nullopt); }
  /// Whether nothing has been gathered since then to where this unit goes. Asked in the order of use, it is true of
  /// those that the next step uses first.
  bool is_next(std::size_t unit) const { return !held_[places_[unit].slot]; }

  /// The weights of a unit begin to travel to where it is used, unless they are there. What stood there must not be
  /// needed any more.
  void gather(std::size_t unit) {
    const auto& place = places_[unit];
    if (!sharded_ || held_[place.slot] == unit) return;
    held_[place.slot] = unit;
    if (!exchanges_ || layout_.units[unit].used == 0) return;
    arrived_[place.slot] = ops_.all_gather(place.own_weights, place.weights, place.own_count);
  }
  /// What is queued from here on finds the weights of this unit.
  void use(std::size_t unit) {
    gather(unit);
    auto& ticket = arrived_[places_[unit].slot];
    if (ticket) ops_.wait(*ticket);
    ticket.reset();
  }
  /// Nothing travels any more.
  void joined() { arrived_.assign(arrived_.size(), std::nullopt); }

 private:
  Ops& ops_;
  bool sharded_, exchanges_ = true;
  const FlatLayout& layout_;
  const Units& places_;
  std::vector<std::optional<std::size_t>> held_;     // by slot, the unit whose weights it has
  std::vector<std::optional<std::size_t>> arrived_;  // by slot, the gathering that its next use waits for
};

}  // namespace shakedown::training
