// Properties of a family that no profile states: families.yaml, as the build has checked it. Pure.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/backend.hpp"

namespace shakedown {

/// The judgement that a family needs on a backend. judged: a rule. unjudged: no rule, where a profile takes over the
/// table. absent: nothing, since the backend has no such operation and waives it.
enum class Need { judged, unjudged, absent };
constexpr auto words(Need) { return names("judged", "unjudged", "absent"); }

/// The time of a row of a family on a GPU in addition to its samples: buffers, known data, device, checks.
struct RowCost {
  double seconds = 0;
  double seconds_per_rank = 0;    // more, for each rank of the host
  double tuning = 0;              // more, if no earlier choices are stored
  double bytes_per_s = HUGE_VAL;  // of what its operation moves
};

struct FamilyRow {
  std::string_view name, shows;
  std::array<Need, words(Backend{}).size()> by_backend;
  RowCost cost;
  bool own_memory;               // only its program holds GPU memory, and gives all of it back
  std::string_view called = {};  // name in the reports; empty: that of the family

  constexpr Need on(Backend backend) const { return by_backend[static_cast<std::size_t>(backend)]; }
};

/// All families, in the order in which they are measured.
std::span<const FamilyRow> family_rows();

/// The row of a family; nullptr if it has none.
const FamilyRow* family_row(std::string_view family);

/// A family that has no row is judged.
Need need(std::string_view family, Backend);

}  // namespace shakedown
