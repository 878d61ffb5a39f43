#include "report/products.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace shakedown {
namespace {

std::string stages_text(const ProductTiling& tiling) {
  if (tiling.stage_terms == 0) return "-";
  return fmt::format("{} x {}", tiling.stage_terms, tiling.stages == 0 ? "auto" : std::to_string(tiling.stages));
}

double operations_of(const ProductTiling& tiling) {
  return 2 * static_cast<double>(tiling.rows) * static_cast<double>(tiling.columns) * static_cast<double>(tiling.terms);
}

}  // namespace

std::string products_text(const std::vector<Results>& files, const Table::Style& style) {
  std::map<std::string, ProductTiling> by_key;
  for (const Results& file : files) by_key.insert(file.context.products.begin(), file.context.products.end());
  if (by_key.empty()) return "";
  std::vector<std::pair<std::string, ProductTiling>> products(by_key.begin(), by_key.end());
  std::stable_sort(products.begin(), products.end(),
                   [](const auto& a, const auto& b) { return operations_of(a.second) > operations_of(b.second); });
  Table table({{"product"}, {"tile"}, {"cluster"}, {"stages"}, {"split"}, {"waves"}, {"last wave"}});
  for (const auto& [key, tiling] : products) {
    table.add_words({key, fmt::format("{}x{}", tiling.tile_rows, tiling.tile_columns),
                     fmt::format("{}x{}", tiling.cluster_rows, tiling.cluster_columns), stages_text(tiling),
                     std::to_string(tiling.split), fmt::format("{:.2f}", tiling.waves()),
                     fmt::format("{:.0f} %", tiling.last_wave_percent())});
  }
  return table.text(style) + "\n";
}

}  // namespace shakedown
