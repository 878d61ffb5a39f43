// Properties of families that no profile changes. These properties are the rows of families.yaml, which the build
// checks. The functions are pure.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/backend.hpp"

namespace shakedown {

/// How a family must be judged on a backend. judged: it needs a rule. unjudged: it needs no rule if the profile
/// includes the table. absent: the backend does not have the operation and waives it.
enum class Need { judged, unjudged, absent };
constexpr auto words(Need) { return names("judged", "unjudged", "absent"); }

/// The time that a row of a family takes on a GPU in addition to its samples, for buffers, known data and checks.
struct RowCost {
  double seconds = 0;
  double seconds_per_rank = 0;    // added for each rank of the host
  double tuning = 0;              // added if no tuning choices are stored
  double bytes_per_s = HUGE_VAL;  // rate at which it handles the bytes of its operation
};

struct FamilyRow {
  std::string_view name, shows;
  std::array<Need, words(Backend{}).size()> by_backend;
  RowCost cost;
  bool own_memory;               // true: only its program uses GPU memory, so it must release all of it
  bool in_gate;                  // true: `accept --gate` measures it
  bool on_request;               // true: a run that does not request it is complete without it
  std::string_view called = {};  // name in reports; empty: the name of the family

  constexpr Need on(Backend backend) const { return by_backend[static_cast<std::size_t>(backend)]; }
};

/// Returns all families in the order in which they are measured.
std::span<const FamilyRow> family_rows();

/// Returns the row of a family; nullptr if there is none.
const FamilyRow* family_row(std::string_view family);

/// Returns the families that `accept --gate` measures, in their order.
std::vector<std::string> gate_families();

/// Returns how a family must be judged: `judged` if it has no row.
Need need(std::string_view family, Backend);

}  // namespace shakedown
