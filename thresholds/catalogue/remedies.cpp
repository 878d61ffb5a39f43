// Finds rows in the table that thresholds/tables/remedies.cpp generates.
#include "thresholds/catalogue/remedies.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

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

std::string_view name(RemedyId id) { return remedies_table.at(static_cast<std::size_t>(id)).fact; }

std::optional<RemedyId> remedy_named(std::string_view fact) {
  const auto row = std::ranges::find(remedies_table, fact, &RemedyRow::fact);
  if (row == remedies_table.end()) return std::nullopt;
  return static_cast<RemedyId>(row - remedies_table.begin());
}

std::optional<Remedy> remedy_of(std::string_view fact, std::string_view gpu, std::string_view limit) {
  const auto id = remedy_named(fact);
  if (!id) return std::nullopt;
  const RemedyRow& row = remedies_table.at(static_cast<std::size_t>(*id));
  Remedy remedy{id, row.action, std::string(row.means), std::string(row.command)};
  replace(remedy.command, "{gpu}", gpu);
  replace(remedy.command, "{limit}", limit);
  return remedy;
}

}  // namespace shakedown
