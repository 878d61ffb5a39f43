// Finds rows in the table that thresholds/tables/families.cpp generates.
#include "thresholds/catalogue/families.hpp"

#include <algorithm>

#include "families_table.hpp"

namespace shakedown {

std::span<const FamilyRow> family_rows() { return families_table; }

const FamilyRow* family_row(std::string_view family) {
  const auto found = std::find_if(families_table.begin(), families_table.end(),
                                  [&](const FamilyRow& row) { return row.name == family; });
  return found == families_table.end() ? nullptr : &*found;
}

std::vector<std::string> gate_families() {
  std::vector<std::string> names;
  for (const FamilyRow& row : families_table) {
    if (row.in_gate) names.emplace_back(row.name);
  }
  return names;
}

Need need(std::string_view family, Backend backend) {
  const FamilyRow* const row = family_row(family);
  return row == nullptr ? Need::judged : row->on(backend);
}

}  // namespace shakedown
