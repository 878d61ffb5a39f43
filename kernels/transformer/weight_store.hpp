// The weights of a unit for products. Either all of them are in place, or ranks share them, and each unit is gathered
// before its use.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/transformer/buffers.hpp"

namespace shakedown::training {

// Synchronization if ranks fetch weights directly from each other. AdamW and a restart write a rank's own weights.
// - A fetch starts after the data is written: a rank synchronizes with the others between its writes and its fetches.
// - A write starts after all fetches of the previous data: a step joins its own fetches and then sums the summary of
//   the gradient over ranks, and AdamW waits for that sum. Fetches outside of a step end with TrainingStep::settle.
//
// A step without collectives does not fetch, and does not announce its writes. The next step with collectives
// synchronizes first.
template <TrainingOps Ops>
class WeightStore {
 public:
  using Units = std::vector<typename Buffers<typename Ops::Element, typename Ops::Master>::UnitPlace>;

  /// All arguments must outlive it.
  WeightStore(Ops& ops, const StepShape& shape, const FlatLayout& layout, const Units& places)
      : ops_(ops), sharded_(shape.sharded()), layout_(layout), places_(places) {
    held_.resize(std::max(places.size(), slots_in_turns));
    arrived_.resize(held_.size());
  }

  /// True if queued work exchanges data with other ranks.
  bool exchanges() const { return exchanges_; }
  /// Enables the exchange. If it was disabled, the weights of other ranks may have changed.
  void exchange() {
    if (std::exchange(exchanges_, true) || !sharded_) return;
    forget();
    ops_.meet();
  }
  /// Disables the exchange.
  void go_alone() { exchanges_ = false; }

  /// Marks the gathered weights of all slots as outdated, because ranks have written new weights.
  void forget() { held_.assign(held_.size(), std::nullopt); }
  /// True if no unit has been gathered into this unit's slot since forget(). If called in the order of use, it is true
  /// for the units that the next step uses first.
  bool is_next(std::size_t unit) const { return !held_[places_[unit].slot]; }

  /// Starts to gather the weights of a unit, unless they are there. The previous content of the slot must not be needed
  /// any more.
  void gather(std::size_t unit) {
    const auto& place = places_[unit];
    if (!sharded_ || held_[place.slot] == unit) return;
    held_[place.slot] = unit;
    if (!exchanges_ || layout_.units[unit].used == 0) return;
    arrived_[place.slot] = ops_.all_gather(place.own_weights, place.weights, place.own_count);
  }
  /// Makes the weights of this unit available to work queued from now on.
  void use(std::size_t unit) {
    gather(unit);
    auto& ticket = arrived_[places_[unit].slot];
    if (ticket) ops_.wait(*ticket);
    ticket.reset();
  }
  /// Called when all transfers are complete.
  void joined() { arrived_.assign(arrived_.size(), std::nullopt); }

 private:
  Ops& ops_;
  bool sharded_, exchanges_ = true;
  const FlatLayout& layout_;
  const Units& places_;
  std::vector<std::optional<std::size_t>> held_;     // by slot: the unit whose weights it holds
  std::vector<std::optional<std::size_t>> arrived_;  // by slot: the gather that the next use must wait for
};

}  // namespace shakedown::training
