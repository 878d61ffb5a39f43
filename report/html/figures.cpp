// Selects the figures of the HTML page. Drawings by rank have one value for each rank, rounded to an integer where that
// is precise enough, because the page of 10,000 GPUs must stay below 5 MB.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "report/html/data.hpp"
#include "report/words.hpp"
#include "thresholds/catalogue/key_names.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/catalogue/pair_limits.hpp"
#include "thresholds/catalogue/preflight_facts.hpp"
#include "thresholds/results/matrix.hpp"
#include "thresholds/rules/applicability.hpp"
#include "thresholds/units/peers.hpp"

namespace shakedown {
namespace {

using nlohmann::json;

constexpr std::size_t max_ranks = 256, max_matrices = 8, max_steps = 16, max_values = 6;

json optional(const std::optional<double>& value) { return value ? json(*value) : json(nullptr); }

double tenths_of_percent(double part) { return std::round(1000 * part); }

json rank_data(const RankFacts& r) {
  return {r.rank, r.host, r.local_rank, r.device, r.uuid.value_or(""), r.pci.value_or(""), r.serial.value_or("")};
}

const Context& largest_launch(const Measured& measured) {
  const Context* largest = &measured.files.front().context;
  for (const Results& file : measured.files) {
    if (file.context.world_size > largest->world_size) largest = &file.context;
  }
  return *largest;
}

// Returns one column by rank for each class of rows in which GPUs are compared. Copies are omitted because they have a
// matrix. GEMM is shown as rate per GHz, because each chip has its own clock.
json peers_data(const UnitTable& table, std::size_t ranks) {
  std::set<std::string> per_clock;
  for (const Column& column : table.columns) {
    if (column.metric == "tflops_per_ghz") per_clock.insert(column.name);
  }
  json columns = json::array();
  for (const Column& column : table.columns) {
    const bool repeats = column.metric == "tflops" && column.name != "gemm" && per_clock.contains(column.name);
    if (column.cells.empty() || family_of(column.name) == "p2p" || repeats) continue;
    std::vector<json> values(ranks);
    std::set<int> out;
    for (const Cell& cell : column.cells) {
      values[static_cast<std::size_t>(cell.unit.rank)] = tenths_of_percent(-cell.shortfall);
      if (cell.out) out.insert(cell.unit.rank);
    }
    columns.push_back({{"class", readable(column.name)},
                       {"of", column.metric},
                       {"limit", tenths_of_percent(-std::max(column.limit, column.kind.class_effect))},
                       {"values", values},
                       {"out", out}});
  }
  return columns;
}

double shortfall(double value, double centre, const std::string& metric) {
  if (centre == 0) return 0;
  return lower_is_better(metric) ? value / centre - 1 : 1 - value / centre;
}

// Returns the matrices in which the worst value differs most from the median of all hosts.
json pairs_data(const Measured& measured, const Context& context) {
  std::vector<PairMatrix> all;
  std::map<Key, std::vector<double>> values;
  for (const Results& file : measured.files) {
    if (file.context.world_size != context.world_size) continue;
    for (PairMatrix& matrix : pair_matrices(file.context, file.rows)) {
      for (const auto& row : matrix.values) {
        for (const auto& value : row) {
          if (value) values[matrix.key].push_back(*value);
        }
      }
      all.push_back(std::move(matrix));
    }
  }
  std::map<Key, double> centres;
  for (auto& [key, numbers] : values) centres[key] = median(std::move(numbers));
  const auto worst = [&](const PairMatrix& m) {
    const auto cell = m.worst();
    return cell ? shortfall(cell->value, centres[m.key], m.metric) : 0;
  };
  std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return worst(a) > worst(b); });
  json shown = {{"count", all.size()}, {"matrices", json::array()}};
  for (std::size_t i = 0; i < std::min(all.size(), max_matrices); ++i) {
    const PairMatrix& m = all[i];
    const auto kind = peer_class(m.key, m.metric);
    json rows = json::array();
    for (const auto& row : m.values) {
      rows.push_back(json::array());
      for (const auto& value : row) rows.back().push_back(optional(value));
    }
    shown["matrices"].push_back({{"key", m.key.text()},
                                 {"metric", m.metric},
                                 {"lower", lower_is_better(m.metric)},
                                 {"host", m.host},
                                 {"centre", centres[m.key]},
                                 {"healthy", kind ? json(kind->effect) : json(nullptr)},
                                 {"values", rows}});
  }
  return shown;
}

// Returns, for each host and rail, the best of its rounds with partners on other hosts. A pair is only as fast as its
// slower end, so the best round shows the host itself.
json rails_data(const Measured& measured, const Context& context) {
  std::map<std::string, std::vector<std::optional<double>>> hosts;
  for (const RankFacts& rank : context.ranks) {
    auto& rails = hosts[rank.host];
    rails.resize(std::max(rails.size(), static_cast<std::size_t>(rank.local_rank) + 1));
  }
  bool is_measured = false;
  for (const auto& [key, benchmark] : measured.benchmarks) {
    if (family_of(key) != "pairs" || key_number(key, "confirm") || key_part(key, "op") != "sendrecv") continue;
    const auto values = rank_values(benchmark, "busbw_gb_per_s");
    for (std::size_t rank = 0; rank < std::min(values.size(), context.ranks.size()); ++rank) {
      auto& best = hosts[context.ranks[rank].host][static_cast<std::size_t>(context.ranks[rank].local_rank)];
      if (values[rank]) best = std::max(best.value_or(0), *values[rank]), is_measured = true;
    }
  }
  json shown = json::array();
  for (const auto& [host, rails] : hosts) {
    shown.push_back({host});
    for (const auto& value : rails) shown.back().push_back(optional(value));
  }
  return is_measured ? shown : json::array();
}

// Returns, for each benchmark, the rate, the floor of the profile, and the ceiling of the hardware.
json rates_data(const Judged& judged) {
  std::map<std::pair<std::string, std::string>, double> floors;
  for (const Finding& f : judged.verdict.findings) {
    if (f.judgement == Judgement::rule && f.limit && f.limit->kind == LimitKind::min && f.counts()) {
      floors.emplace(std::pair(f.key, f.metric), f.limit->value);
    }
  }
  const Profile* const profile = select_profile(judged.measured->files, judged.profiles).profile;
  json rates = json::array();
  for (const auto& [key, benchmark] : judged.measured->benchmarks) {
    const bool is_shared = is_collective(family_of(key)) && run_value(benchmark, "busbw_gb_per_s");
    const std::string metric = is_shared ? "busbw_gb_per_s" : headline_metric(benchmark);
    const auto value = run_value(benchmark, metric);
    if (metric.empty() || lower_is_better(metric) || family_of(key) == "pairs" || !value) continue;
    const auto floor = floors.find({key, metric});
    json rate = {{"key", key.text()}, {"metric", metric}, {"value", *value}};
    if (floor != floors.end()) rate["floor"] = floor->second;
    // The ceiling of PCIe is that of the fastest link that a host may have, so it says nothing about this host's link.
    if (profile != nullptr && family_of(key) != "pcie") {
      rate["ceiling"] = optional(ceiling(profile->peak, key, metric, scale_of(*benchmark.context)));
    }
    if (is_shared) rate["us"] = optional(run_value(benchmark, "latency_us"));
    rates.push_back(std::move(rate));
  }
  return rates;
}

// Returns, by family and rank, the median of each sensor over the benchmarks, but the maximum of the temperature.
json sensors_data(const Measured& measured, const Context& context) {
  json columns = json::array();
  for (const char* const sensor : {"sm_mhz", "temperature_c", "power_w"}) {
    std::map<std::string, std::vector<std::vector<double>>> families;
    for (const auto& [key, benchmark] : measured.benchmarks) {
      if (family_of(key) == "preflight" || benchmark.context->world_size != context.world_size) continue;
      const auto values = rank_values(benchmark, sensor);
      for (std::size_t rank = 0; rank < std::min(values.size(), context.ranks.size()); ++rank) {
        auto& by_rank = families[family_of(key)];
        by_rank.resize(context.ranks.size());
        if (values[rank]) by_rank[rank].push_back(*values[rank]);
      }
    }
    for (auto& [family, by_rank] : families) {
      json values = json::array();
      bool is_known = false;
      for (std::vector<double>& of_rank : by_rank) {
        is_known = is_known || !of_rank.empty();
        const bool is_highest = std::string_view(sensor) == "temperature_c";
        values.push_back(of_rank.empty() ? json(nullptr)
                         : is_highest    ? json(std::round(*std::max_element(of_rank.begin(), of_rank.end())))
                                         : json(std::round(median(std::move(of_rank)))));
      }
      if (is_known) columns.push_back({{"sensor", sensor}, {"family", family}, {"values", std::move(values)}});
    }
  }
  return columns;
}

// Returns the parts of each training step in ms. Uses the ranks with the shortest waiting time, because the other ranks
// wait for these.
json steps_data(const Measured& measured) {
  json steps = json::array();
  for (const auto& [key, benchmark] : measured.benchmarks) {
    const auto step = run_value(benchmark, "step_ms");
    std::vector<RankValues> parts;
    for (const char* const part : {"forward_ms", "backward_ms", "exposed_comm_ms", "optimizer_ms"}) {
      parts.push_back(rank_values(benchmark, part));
      parts.back().resize(std::max(parts.front().size(), parts.back().size()));
    }
    std::vector<std::size_t> order(parts.front().size());
    std::iota(order.begin(), order.end(), 0u);
    if (order.empty() || !step) continue;
    const std::size_t count = order.size();
    if (count > max_steps) {
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return parts[2][a].value_or(0) < parts[2][b].value_or(0); });
      order.resize(max_steps);
    }
    json ranks = json::array();
    for (const std::size_t rank : order) {
      ranks.push_back({rank_data(benchmark.context->ranks[rank])});
      for (const auto& part : parts) ranks.back().push_back(part[rank].value_or(0));
    }
    steps.push_back({{"key", key.text()}, {"step_ms", *step}, {"count", count}, {"ranks", std::move(ranks)}});
  }
  return steps;
}

// By value of one fact: the hosts or ranks that have this value.
using Spread = std::map<std::string, std::vector<std::string>>;

std::map<std::string, Spread> spreads_of(const Measured& measured) {
  std::map<std::string, Spread> facts;
  for (const auto& [key, benchmark] : measured.benchmarks) {
    if (family_of(key) != "preflight" || benchmark.rows.empty()) continue;
    const Row& last = *benchmark.rows.back();
    const auto add = [&, about = std::string(key_part(key, "of"))](const std::string& name, std::size_t rank,
                                                                   const std::string& value) {
      const RankFacts& r = benchmark.context->ranks[rank];
      facts[about + " " + name][value].push_back(is_of_host(key) ? r.host
                                                                 : "rank " + std::to_string(r.rank) + " on " + r.host);
    };
    for (const auto& [name, values] : last.text_by_rank) {
      for (std::size_t rank = 0; rank < values.size(); ++rank) {
        if (values[rank]) add(name, rank, *values[rank]);
      }
    }
    for (const auto& [name, values] : last.by_rank) {
      if (last.text_by_rank.contains(name)) continue;  // the text explains the number
      for (std::size_t rank = 0; rank < values.size(); ++rank) {
        if (values[rank]) add(name, rank, number_text(*values[rank]));
      }
    }
  }
  return facts;
}

// Returns, for each fact, its most frequent values. Each value has the number of its hosts or ranks and the names of
// some of them.
json facts_data(const Measured& measured) {
  json facts = json::array();
  for (const auto& [fact, spread] : spreads_of(measured)) {
    std::vector<std::pair<std::string, std::vector<std::string>>> values(spread.begin(), spread.end());
    std::stable_sort(values.begin(), values.end(),
                     [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
    json shown = json::array();
    std::size_t count = 0;
    for (const auto& [value, places] : values) {
      count += places.size();
      if (shown.size() == max_values) continue;
      shown.push_back({value, places.size()});
      for (std::size_t i = 0; i < std::min(places.size(), max_values); ++i) shown.back().push_back(places[i]);
    }
    facts.push_back({{"fact", fact}, {"values", shown}, {"different", values.size()}, {"count", count}});
  }
  return facts;
}

json versions_data(const Measured& measured, const Context& c) {
  json rows = json::array();
  rows.push_back({"Shakedown", c.suite.version + ", " + (c.suite.git.empty() ? "unknown commit" : c.suite.git) +
                                   (c.suite.dirty ? " with changes" : "") + ", " + c.suite.build_type});
  for (const auto& [name, version] : c.versions) rows.push_back({name, version.value_or("unknown")});
  for (const auto& [name, value] : c.environment) rows.push_back({name, value});
  for (const Results& file : measured.files)
    rows.push_back({file.file.filename().string(), joined(file.context.argv, " ")});
  return rows;
}

}  // namespace

json figures_data(const Judged& judged) {
  const Measured& measured = *judged.measured;
  if (measured.files.empty()) return nullptr;
  const Context& context = largest_launch(measured);
  json ranks = json::array(), places = json::array();
  for (const RankFacts& rank : context.ranks) {
    places.push_back({rank.host, rank.local_rank});
    if (ranks.size() < max_ranks) ranks.push_back(rank_data(rank));
  }
  return {{"tier", name(context.tier)},
          {"places", places},
          {"ranks", ranks},
          {"peers", peers_data(compare_peers(measured.benchmarks, {}), context.ranks.size())},
          {"pairs", pairs_data(measured, context)},
          {"rails", rails_data(measured, context)},
          {"healthy_rail", 1 - pair_limits::slow_rate},
          {"rates", rates_data(judged)},
          {"sensors", sensors_data(measured, context)},
          {"steps", steps_data(measured)},
          {"facts", facts_data(measured)},
          {"versions", versions_data(measured, context)}};
}

}  // namespace shakedown
