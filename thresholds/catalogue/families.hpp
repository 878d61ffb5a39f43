// What is known of a family before any profile: families.yaml, as the build has checked it. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/backend.hpp"

namespace shakedown {

/// What a family needs on a backend. judged: a rule. unjudged: no rule, where a profile takes over the table. absent:
/// nothing, since the backend has no such operation and waives it.
enum class Standing { judged, unjudged, absent };
constexpr auto words(Standing) { return names("judged", "unjudged", "absent"); }

struct FamilyRow {
  std::string_view name;
  std::array<Standing, words(Backend{}).size()> by_backend;

  constexpr Standing on(Backend backend) const { return by_backend[static_cast<std::size_t>(backend)]; }
};

std::span<const FamilyRow> family_rows();

/// A family that has no row is judged.
Standing standing(std::string_view family, Backend);

}  // namespace shakedown
