#include "kernels/cuda/tiling.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <utility>

namespace shakedown::cuda {

namespace {

/// The two numbers of an enumerator such as CUBLASLT_MATMUL_TILE_128x256. The second is 0 for "64xAUTO"; both are 0
/// without a name.
struct Extents {
  std::uint16_t first = 0, second = 0;
};

/// Reads the numbers from the name of the enumerator, which compilers write into the name of the function. The header
/// has more than 600 tile_extents, and each release adds some.
template <auto number>
constexpr Extents extents_of_name() {
  const std::string_view name = __PRETTY_FUNCTION__;
  auto at = name.find("CUBLASLT_");
  if (at == name.npos) return {};
  while (at < name.size() && (name[at] < '0' || name[at] > '9')) ++at;
  const auto read = [&] {
    int value = 0;
    for (; at < name.size() && name[at] >= '0' && name[at] <= '9'; ++at) value = 10 * value + (name[at] - '0');
    return static_cast<std::uint16_t>(value);
  };
  const auto first = read();
  if (at == name.size() || name[at] != 'x') return {};
  ++at;
  return {first, read()};
}

template <class Enum, Enum end>
constexpr auto table_of() {
  return []<std::size_t... i>(std::index_sequence<i...>) {
    return std::array{extents_of_name<static_cast<Enum>(i)>()...};
  }
  (std::make_index_sequence<static_cast<std::size_t>(end)>());
}

constexpr auto tile_extents = table_of<cublasLtMatmulTile_t, CUBLASLT_MATMUL_TILE_END>();
constexpr auto stage_extents = table_of<cublasLtMatmulStages_t, CUBLASLT_MATMUL_STAGES_END>();
constexpr auto cluster_extents = table_of<cublasLtClusterShape_t, CUBLASLT_CLUSTER_SHAPE_END>();
static_assert(tile_extents[CUBLASLT_MATMUL_TILE_128x256].first == 128 &&
              tile_extents[CUBLASLT_MATMUL_TILE_128x256].second == 256);
static_assert(stage_extents[CUBLASLT_MATMUL_STAGES_64x4].first == 64 &&
              stage_extents[CUBLASLT_MATMUL_STAGES_64x4].second == 4);
static_assert(cluster_extents[CUBLASLT_CLUSTER_SHAPE_1x2x1].first == 1 &&
              cluster_extents[CUBLASLT_CLUSTER_SHAPE_1x2x1].second == 2);

Extents extents_at(const auto& table, std::optional<std::uint32_t> number) {
  return number && *number < table.size() ? table[*number] : Extents{};
}

}  // namespace

std::optional<ProductTiling> tiling_of(const MatmulAlgorithm& algorithm, const MatmulShape& shape,
                                       int multiprocessors) {
  const auto tile = extents_at(tile_extents, find_setting(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID));
  if (tile.second == 0) return std::nullopt;
  auto cluster = extents_at(cluster_extents, find_setting(algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));
  if (cluster.second == 0) cluster = {1, 1};
  const auto stage = extents_at(stage_extents, find_setting(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID));
  return ProductTiling{.rows = shape.d.rows,
                       .columns = shape.d.cols,
                       .terms = shape.a_transposed ? shape.a.rows : shape.a.cols,
                       .tile_rows = tile.first,
                       .tile_columns = tile.second,
                       .cluster_rows = cluster.first,
                       .cluster_columns = cluster.second,
                       .stage_terms = stage.first,
                       .stages = stage.second,
                       .split = find_setting(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM).value_or(1),
                       .multiprocessors = static_cast<std::uint64_t>(multiprocessors)};
}

}  // namespace shakedown::cuda
