// Combines repetitions and ranks into the value that is judged.
#include "thresholds/results/measured.hpp"

#include <algorithm>

#include "base/statistics.hpp"
#include "thresholds/catalogue/metrics.hpp"

namespace shakedown {
namespace {

// If the order of arrival differs by less than this, it is noise.
constexpr double arrival_noise = 0.05;

// A smaller AllReduce is limited by latency, so its bandwidth is not informative.
constexpr double latency_bound_bytes = 1 << 20;

const Row* find_row(const std::vector<const Row*>& rows, bool (*wanted)(const Row&)) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row* row) { return wanted(*row); });
  return found == rows.end() ? nullptr : *found;
}

}  // namespace

void refuse_faults(const std::vector<Results>& results, bool allowed) {
  for (const Results& file : results) {
    if (file.context.fault && !allowed) {
      throw InputError(file.file.string() + ": measured with an injected fault (" + *file.context.fault +
                       "); pass --allow-faults if a demo or a test injected it, else measure without SHAKEDOWN_FAULT");
    }
  }
}

void refuse_virtual(const std::vector<Results>& results, const std::string& use) {
  for (const Results& file : results) {
    if (file.context.backend != Backend::virtual_gpu) continue;
    throw InputError(file.file.string() + ": is of --backend=virtual, and " + use +
                     " takes results of real GPUs only; measure with --backend=cuda");
  }
}

const Row* Benchmark::error() const {
  return find_row(rows, [](const Row& row) { return row.error.has_value(); });
}

const Row* Benchmark::waiver() const {
  const bool all = std::all_of(rows.begin(), rows.end(), [](const Row* row) { return row->waived.has_value(); });
  return all && !rows.empty() ? rows.front() : nullptr;
}

Benchmarks benchmarks_of(std::span<const Results> results) {
  Benchmarks benchmarks;
  for (const Results& file : results) {
    for (const Row& row : file.rows) {
      Benchmark& benchmark = benchmarks[row.key];
      if (benchmark.context == nullptr) benchmark = {row.key, &file.context, {}};
      if (benchmark.context->world_size == file.context.world_size) benchmark.rows.push_back(&row);
    }
  }
  return benchmarks;
}

bool has_values_of(const Benchmarks& benchmarks, const std::string& family) {
  return std::any_of(benchmarks.begin(), benchmarks.end(), [&](const auto& entry) {
    return entry.first.family() == family && entry.second.waiver() == nullptr;
  });
}

namespace {

/// Returns the value of the slowest host over all repetitions if each host runs the operation by itself.
std::optional<double> slowest_host(const Benchmark& benchmark, const std::string& metric) {
  if (benchmark.rows.size() < 2 || benchmark.key.part("scope") != "node") return std::nullopt;
  const Metric* known = find_metric(benchmark.key, metric);
  if (known == nullptr || !known->of_slowest) return std::nullopt;
  const bool is_complete = std::ranges::all_of(
      benchmark.rows, [&](const Row* row) { return row->metrics.contains(metric) && row->by_rank.contains(metric); });
  if (!is_complete) return std::nullopt;
  const RankValues values = rank_values(benchmark, metric);
  const bool low_is_good = lower_is_better(metric);
  std::optional<double> slowest;
  for (const auto& value : values) {
    if (value && (!slowest || (low_is_good ? *value > *slowest : *value < *slowest))) slowest = value;
  }
  return slowest;
}

}  // namespace

std::optional<double> run_value(const Benchmark& benchmark, const std::string& metric) {
  if (const auto slowest = slowest_host(benchmark, metric)) return slowest;
  std::vector<double> values;
  for (const Row* row : benchmark.rows) {
    const auto found = row->metrics.find(metric);
    if (found == row->metrics.end()) return std::nullopt;
    values.push_back(found->second);
  }
  return values.empty() ? std::nullopt : std::optional(median(std::move(values)));
}

namespace {

/// Returns the median time of the slowest rank.
std::optional<double> seconds_of(const Row& row) {
  const auto found = row.by_rank.find("seconds");
  std::optional<double> most;
  if (found == row.by_rank.end()) return most;
  for (const auto& seconds : found->second) {
    if (seconds && !(*seconds <= most.value_or(0))) most = *seconds;
  }
  return most;
}

}  // namespace

std::optional<double> scatter_of(const Benchmark& benchmark) {
  const auto of_samples = run_value(benchmark, "cv");
  if (!of_samples || benchmark.rows.size() < enough_repetitions) return of_samples;
  std::vector<double> times;
  for (const Row* row : benchmark.rows) {
    const auto seconds = seconds_of(*row);
    if (!seconds) return of_samples;
    times.push_back(*seconds);
  }
  return std::min(*of_samples, coefficient_of_variation(times));
}

RankValues rank_values(const Benchmark& benchmark, const std::string& metric) {
  std::vector<const RankValues*> repetitions;
  for (const Row* row : benchmark.rows) {
    if (const auto found = row->by_rank.find(metric); found != row->by_rank.end())
      repetitions.push_back(&found->second);
  }
  if (repetitions.empty()) return {};
  if (repetitions.size() == 1) return *repetitions.front();
  RankValues medians(repetitions.front()->size());
  std::vector<double> values;
  for (std::size_t rank = 0; rank < medians.size(); ++rank) {
    values.clear();
    for (const auto* repetition : repetitions) {
      if (const auto& value = (*repetition)[rank]) values.push_back(*value);
    }
    if (!values.empty()) medians[rank] = median(values);
  }
  return medians;
}

std::optional<double> best_value(const Benchmark& benchmark, const std::string& metric, std::size_t rank) {
  const bool low_is_good = lower_is_better(metric);
  std::optional<double> best;
  for (const Row* row : benchmark.rows) {
    const auto found = row->by_rank.find(metric);
    if (found == row->by_rank.end()) continue;
    const auto& value = found->second[rank];
    if (value && (!best || (low_is_good ? *value < *best : *value > *best))) best = value;
  }
  return best;
}

std::vector<std::optional<std::string>> rank_texts(const Benchmark& benchmark, const std::string& metric) {
  if (benchmark.rows.empty()) return {};
  const auto& texts = benchmark.rows.back()->text_by_rank;
  const auto found = texts.find(metric);
  return found == texts.end() ? std::vector<std::optional<std::string>>{} : found->second;
}

std::optional<double> largest_value(const Benchmark& benchmark, const std::string& metric) {
  std::optional<double> largest;
  const auto consider = [&](double value) {
    if (!largest || !(value <= *largest)) largest = value;
  };
  for (const Row* row : benchmark.rows) {
    if (const auto found = row->metrics.find(metric); found != row->metrics.end()) consider(found->second);
    if (const auto found = row->by_rank.find(metric); found != row->by_rank.end()) {
      for (const auto& value : found->second) {
        if (value) consider(*value);
      }
    }
  }
  return largest;
}

std::optional<int> last_to_arrive(const RankValues& seconds, const RankValues& arrival_us) {
  std::optional<std::size_t> shortest;
  const std::size_t ranks = std::min(seconds.size(), arrival_us.size());
  const auto known = [&](std::size_t rank) { return seconds[rank] && arrival_us[rank]; };
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (known(rank) && (!shortest || seconds[rank] < seconds[*shortest])) shortest = rank;
  }
  std::vector<double> times, arrivals;  // values of the other ranks
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (!known(rank) || rank == *shortest) continue;
    times.push_back(*seconds[rank]);
    arrivals.push_back(*arrival_us[rank]);
  }
  if (times.empty()) return std::nullopt;
  const double typical = median(std::move(times)), waited = typical - *seconds[*shortest];
  const double later = 1e-6 * (*arrival_us[*shortest] - median(std::move(arrivals)));
  if (waited <= arrival_noise * typical || later < waited / 2) return std::nullopt;
  return static_cast<int>(*shortest);
}

std::optional<int> slowest_rank(const Benchmark& benchmark) {
  // A step that ends with a reduction takes the same time on all ranks. Only their own work shows which rank is slow.
  auto seconds = rank_values(benchmark, "compute_ms");
  if (seconds.empty()) seconds = rank_values(benchmark, "seconds");
  const bool waits = is_collective(benchmark.key.family()) && benchmark.key.part("scope") != "node";
  if (waits) return last_to_arrive(seconds, rank_values(benchmark, "arrival_us"));
  const auto longest = std::max_element(seconds.begin(), seconds.end());  // unknown values are sorted first
  if (longest == seconds.end() || !*longest) return std::nullopt;
  return static_cast<int>(longest - seconds.begin());
}

std::string headline_metric(const Benchmark& benchmark) {
  const Row* row = find_row(benchmark.rows, [](const Row& r) { return !r.error && !r.waived; });
  if (row == nullptr) return "";
  const bool latency_bound = is_collective(benchmark.key.family()) &&
                             static_cast<double>(benchmark.key.number("bytes").value_or(0)) < latency_bound_bytes;
  if (latency_bound && row->metrics.contains("latency_us")) return "latency_us";
  const auto order = [&](const std::string& metric) {
    if (const Metric* known = find_metric(benchmark.key, metric)) return known->headline;
    const auto all = metrics();  // metrics that the catalogue does not know
    const auto same = std::find_if(all.begin(), all.end(), [&](const Metric& m) { return m.name == metric; });
    return same == all.end() ? 0 : same->headline;
  };
  std::string headline;
  for (const auto& [metric, value] : row->metrics) {
    if (order(metric) > 0 && (headline.empty() || order(metric) < order(headline))) headline = metric;
  }
  return headline;
}

}  // namespace shakedown
