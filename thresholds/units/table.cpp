#include "thresholds/units/table.hpp"

#include <algorithm>
#include <utility>

namespace shakedown {

const Cell* Column::find(const Unit& unit) const {
  const auto place = [](const Unit& of) { return std::pair(of.rank, of.from); };
  const auto found =
      std::ranges::lower_bound(cells, place(unit), {}, [&](const Cell& cell) { return place(cell.unit); });
  return found != cells.end() && found->unit == unit ? &*found : nullptr;
}

std::vector<std::pair<const Column*, const Cell*>> UnitTable::cells(const Key& benchmark, const std::string& metric,
                                                                    int rank, std::optional<int> from) const {
  std::vector<std::pair<const Column*, const Cell*>> result;
  auto names = classes_of(benchmark);
  names.push_back(benchmark);  // a row that was repeated is also a class of its own
  for (const Key& name : names) {
    const auto found = columns_of.find({name, metric});
    if (found == columns_of.end()) continue;
    for (const std::size_t column : found->second) {
      const Cell* cell = columns[column].find(unit_of(name, rank, from));
      if (cell != nullptr) result.emplace_back(&columns[column], cell);
    }
  }
  return result;
}

bool UnitTable::is_out(const Unit& unit, std::string_view family) const {
  return std::ranges::any_of(columns, [&](const Column& column) {
    const Cell* cell = column.name.family() == family ? column.find(unit) : nullptr;
    return cell != nullptr && cell->out;
  });
}

LimitCount UnitTable::units_with_limits(const ClassMetric& of) const {
  const auto known = columns_of.find(of);
  const auto missed = limits.find(of);
  if (known == columns_of.end() || missed == limits.end()) return {};
  LimitCount count{0, missed->second.size()};
  for (const std::size_t column : known->second) count.all += columns[column].cells.size();
  return count;
}

}  // namespace shakedown
