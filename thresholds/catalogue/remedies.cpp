// Finds rows in the table that thresholds/tables/remedies.cpp generates.
#include "thresholds/catalogue/remedies.hpp"

#include <algorithm>
#include <array>

#include "remedies_table.hpp"

namespace shakedown {
namespace {

void replace(std::string& text, std::string_view word, std::string_view value) {
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + value.size())) {
    text.replace(at, word.size(), value);
  }
}

}  // namespace

std::span<const RemedyRow> remedy_rows() { return remedies_table; }

std::optional<Remedy> remedy_of(std::string_view fact, std::string_view gpu, std::string_view limit) {
  const auto row = std::find_if(remedies_table.begin(), remedies_table.end(),
                                [&](const RemedyRow& one) { return one.fact == fact; });
  if (row == remedies_table.end()) return std::nullopt;
  Remedy remedy{row->action, std::string(row->means), std::string(row->command)};
  replace(remedy.command, "{gpu}", gpu);
  replace(remedy.command, "{limit}", limit);
  return remedy;
}

}  // namespace shakedown
