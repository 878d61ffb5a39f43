// Properties of a family that are independent of profiles: the rows of families.yaml, checked by the build. Pure.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/backend.hpp"

namespace shakedown {

/// How a family must be judged on a backend. judged: by a rule. unjudged: no rule is needed if a profile includes the
/// table. absent: the backend lacks the operation and waives it.
enum class Need { judged, unjudged, absent };
constexpr auto words(Need) { return names("judged", "unjudged", "absent"); }

/// The time of a row of a family on a GPU in addition to its samples, for buffers, known data and checks.
struct RowCost {
  double seconds = 0;
  double seconds_per_rank = 0;    // additional, for each rank of the host
  double tuning = 0;              // additional, without stored tuning choices
  double bytes_per_s = HUGE_VAL;  // of the bytes of its operation
};

struct FamilyRow {
  std::string_view name, shows;
  std::array<Need, words(Backend{}).size()> by_backend;
  RowCost cost;
  bool own_memory;               // only its program uses GPU memory, and releases all of it
  std::string_view called = {};  // name in the reports; empty: that of the family

  constexpr Need on(Backend backend) const { return by_backend[static_cast<std::size_t>(backend)]; }
};

/// Returns all families in measuring order.
std::span<const FamilyRow> family_rows();

/// Returns the row of a family; nullptr if there is none.
const FamilyRow* family_row(std::string_view family);

/// Returns how a family must be judged; judged without a row.
Need need(std::string_view family, Backend);

}  // namespace shakedown
