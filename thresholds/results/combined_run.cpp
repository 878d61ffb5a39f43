#include "thresholds/results/combined_run.hpp"

#include <algorithm>
#include <iterator>

#include "thresholds/catalogue/metrics.hpp"

namespace shakedown {
namespace {

/// Appends the columns of a row, whose ranks follow `ranks` earlier ranks. If a column is new, the values of the
/// earlier ranks are unknown.
template <class Columns>
void append(Columns& to, const Columns& from, std::size_t ranks) {
  for (const auto& [name, values] : from) {
    auto& column = to[name];
    if (column.size() > ranks) continue;  // the run has this row twice
    column.resize(ranks);
    std::copy(values.begin(), values.end(), std::back_inserter(column));
  }
}

template <class Columns>
void complete(Columns& columns, std::size_t ranks) {
  for (auto& [name, column] : columns) column.resize(ranks);
}

bool is_of_each_rank(const Row& row) {
  const std::string& family = row.key.family();
  return !row.error && !row.waived && family != "pairs" && !is_collective(family);
}

}  // namespace

void CombinedRun::add(const std::vector<Results>& run) {
  if (run.empty()) return;
  Context& all = combined_.context;
  const Context& first = run.front().context;
  if (runs_++ == 0) {
    combined_.file = "fleet";
    all = first;
    all.ranks.clear();
    all.inventory.clear();
    all.nccl.links.clear();
    all.world_size = all.hosts = 0;
  }
  const int offset = all.world_size;
  const auto ranks = static_cast<std::size_t>(offset);
  for (const Results& file : run) {
    if (file.context.world_size != first.world_size) continue;
    for (const Row& row : file.rows) {
      if (!is_of_each_rank(row)) continue;
      const auto [found, fresh] = index_.emplace(std::pair(row.key, row.repetition), combined_.rows.size());
      if (fresh) {
        Row& made = combined_.rows.emplace_back();
        made.key = row.key;
        made.repetition = row.repetition;
        made.repetitions = row.repetitions;
        made.errors_rows = row.errors_rows;
      }
      Row& into = combined_.rows[found->second];
      append(into.by_rank, row.by_rank, ranks);
      append(into.text_by_rank, row.text_by_rank, ranks);
      append(into.throttle, row.throttle, ranks);
      append(into.errors, row.errors, ranks);
      std::transform(row.wrong_ranks.begin(), row.wrong_ranks.end(), std::back_inserter(into.wrong_ranks),
                     [offset](int rank) { return rank + offset; });
    }
  }
  for (RankFacts rank : first.ranks) {
    rank.rank += offset;
    all.ranks.push_back(std::move(rank));
  }
  all.inventory.insert(all.inventory.end(), first.inventory.begin(), first.inventory.end());
  all.world_size += first.world_size;
  all.hosts += first.hosts;
}

std::vector<Results> CombinedRun::results() && {
  const auto ranks = static_cast<std::size_t>(combined_.context.world_size);
  for (Row& row : combined_.rows) {
    complete(row.by_rank, ranks);
    complete(row.text_by_rank, ranks);
    complete(row.throttle, ranks);
    complete(row.errors, ranks);
  }
  std::vector<Results> files;
  files.push_back(std::move(combined_));
  return files;
}

}  // namespace shakedown
