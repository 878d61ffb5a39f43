// Selects the contents of a baseline: makes, merges and trims baselines.
#include "thresholds/history/baseline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>
#include <tuple>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/applicability.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

std::set<std::string> hosts_of(const Context& context) {
  std::set<std::string> hosts;
  for (const RankFacts& rank : context.ranks) hosts.insert(rank.host);
  return hosts;
}

void add_file(Baseline& baseline, const Results& file) {
  const Context& context = file.context;
  const auto hosts = hosts_of(context);
  std::string launch = context.run_id + "@" + *hosts.begin();
  for (const auto& [key, benchmark] : benchmarks_of({&file, 1})) {
    if (benchmark.error() != nullptr || benchmark.waiver() != nullptr) continue;
    const std::string headline = headline_metric(benchmark);
    if (unit_of(headline).empty() || !run_value(benchmark, headline))
      continue;  // a repetition does not have this metric
    BaselineBenchmark& entry = baseline.benchmarks[key];
    if (entry.headline.empty()) entry.headline = headline;
    const auto known = entry.series.find(entry.headline);
    if (known != entry.series.end() && known->second.launches.contains(launch)) {
      // Adds the start time, because a user may give the same run id to several launches.
      const std::string again = launch + "@" + context.started;
      if (baseline.launches.at(launch).started == context.started || known->second.launches.contains(again)) {
        throw InputError(file.file.string() + ": " + key.text() + " of run " + context.run_id +
                         " is in another file too; name each result once");
      }
      launch = again;
    }
    for (const auto& [metric, value] : benchmark.rows.front()->metrics) {
      if (unit_of(metric).empty() || !run_value(benchmark, metric)) continue;
      Series& series = entry.series[metric];
      for (const Row* row : benchmark.rows) series.launches[launch].push_back(row->metrics.at(metric));
      for (const auto& own : rank_values(benchmark, metric)) {
        if (own) series.ranks[launch].push_back(*own);
      }
    }
    LaunchFacts& facts = baseline.launches[launch];
    if (facts.started.empty() || context.started < facts.started) facts.started = context.started;
    facts.hosts.insert(hosts.begin(), hosts.end());
    for (const RankFacts& rank : context.ranks) {
      if (rank.uuid) facts.gpus.insert(*rank.uuid);
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Copies

/// By benchmark: the headline figures of each launch.
using Figures = std::map<std::string, std::map<std::string, std::vector<double>>>;

Figures figures_of(const Baseline& baseline) {
  Figures figures;
  for (const auto& [key, entry] : baseline.benchmarks) {
    const auto series = entry.series.find(entry.headline);
    if (series == entry.series.end()) continue;
    for (const auto& [launch, values] : series->second.launches) figures[launch][key] = values;
  }
  return figures;
}

/// True if the two launches have the same figures. Two measured times may agree in six digits by chance, but not three
/// times and in every comparison.
bool is_copy(const Figures::mapped_type& a, const Figures::mapped_type& b) {
  constexpr int max_equal_by_chance = 2;
  const auto is_long = [](double value) { return std::stod(fmt::format("{:.6g}", value)) != value; };
  int equal = 0;
  for (const auto& [key, values] : a) {
    const auto other = b.find(key);
    if (other == b.end()) continue;
    if (values != other->second) return false;
    equal += static_cast<int>(std::count_if(values.begin(), values.end(), is_long));
  }
  return equal > max_equal_by_chance;
}

}  // namespace

std::vector<std::string> notes_on_copies(const Baseline& now, const Baseline& before) {
  std::vector<std::string> notes;
  const auto of_now = figures_of(now), of_before = figures_of(before);
  for (const Figures* set : {&of_now, &of_before}) {
    for (auto a = set->begin(); a != set->end(); ++a) {
      for (auto b = std::next(a); b != set->end(); ++b) {
        if (!is_copy(a->second, b->second)) continue;
        notes.push_back("launches " + a->first + " and " + b->first +
                        " have the same figures: one is a copy of the other; leave the copy out");
      }
    }
  }
  for (const auto& [launch, figures] : of_now) {
    for (const auto& [other, theirs] : of_before) {
      if (!is_copy(figures, theirs)) continue;
      notes.push_back("launch " + launch + " is in the baseline" + (other == launch ? "" : " as " + other) +
                      ": leave this launch out of one side");
    }
  }
  return notes;
}

std::vector<double> Series::units(bool by_launch) const {
  if (!by_launch && launches.size() == 1) return launches.begin()->second;
  std::vector<double> values;
  for (const auto& [launch, repetitions] : launches) values.push_back(median(repetitions));
  return values;
}

Baseline baseline_of(const std::vector<Results>& results) {
  Baseline baseline;
  baseline.facts = machine_facts_of(results);
  for (const Results& file : results) {
    baseline.ranks = std::max(baseline.ranks, file.context.world_size);
    baseline.hosts = std::max(baseline.hosts, file.context.hosts);
    add_file(baseline, file);
  }
  std::erase_if(baseline.benchmarks, [](const auto& entry) { return entry.second.headline.empty(); });
  return baseline;
}

std::vector<Baseline> baselines_of(const std::vector<Results>& results) {
  if (results.empty()) throw InputError("no result files for a baseline; name them with --results");
  refuse_faults(results, false);
  refuse_virtual(results, "a baseline");
  std::map<std::tuple<std::set<std::string>, std::string, int, int>, std::vector<Results>> kinds;
  for (const Results& file : results) {
    const Context& c = file.context;
    if (!c.complete) throw InputError(file.file.string() + ": the run stopped early; leave it out");
    std::set<std::string> devices;
    for (const RankFacts& rank : c.ranks) devices.insert(rank.device);
    kinds[{devices, std::string(name(c.backend)), c.world_size, c.hosts}].push_back(file);
  }
  std::vector<Baseline> baselines;
  for (const auto& [kind, files] : kinds) {
    baselines.push_back(baseline_of(files));
    for (const auto& [field, values] : baselines.back().facts) {
      if (values.size() < 2 || is_fact_of_gpus(field)) continue;
      throw InputError("the files have different configurations: " + field + " is " + joined(values) +
                       " among them; give only files of one configuration");
    }
    if (baselines.back().benchmarks.empty()) throw InputError("no benchmark of these files has a value");
  }
  return baselines;
}

Baseline merge(const std::vector<Baseline>& baselines) {
  if (baselines.empty()) throw InputError("nothing to merge; name baselines with --baseline");
  Baseline merged = baselines.front();
  for (std::size_t i = 1; i < baselines.size(); ++i) {
    const Baseline& other = baselines[i];
    if (const auto differ = differences(other.facts, merged.facts, "another one"); !differ.empty()) {
      throw InputError("these baselines have different configurations: " + differ.front());
    }
    for (const auto& [field, values] : other.facts) merged.facts[field].insert(values.begin(), values.end());
    merged.launches.insert(other.launches.begin(), other.launches.end());
    for (const auto& [key, entry] : other.benchmarks) {
      BaselineBenchmark& mine = merged.benchmarks[key];
      if (mine.headline.empty()) mine.headline = entry.headline;
      for (const auto& [metric, series] : entry.series) {
        for (const auto& [launch, values] : series.launches) {
          const auto [place, fresh] = mine.series[metric].launches.emplace(launch, values);
          if (!fresh && place->second != values) {
            throw InputError(key + " " + metric + " of launch " + launch + " has other figures in another baseline; " +
                             "one of the baselines is wrong");
          }
        }
        mine.series[metric].ranks.insert(series.ranks.begin(), series.ranks.end());
      }
    }
    merged.left_out.insert(merged.left_out.end(), other.left_out.begin(), other.left_out.end());
  }
  return merged;
}

namespace {

using Machine = std::set<std::string>;

Machine machine_of(const Baseline& baseline, const std::string& launch) {
  const LaunchFacts& facts = baseline.launches.at(launch);
  Machine machine = facts.hosts;
  machine.insert(facts.gpus.begin(), facts.gpus.end());
  return machine;
}

void erase_values(BaselineBenchmark& entry, const std::string& launch) {
  for (auto& [metric, series] : entry.series) {
    series.launches.erase(launch);
    series.ranks.erase(launch);
  }
  std::erase_if(entry.series, [](const auto& series) { return series.second.launches.empty(); });
}

void erase_benchmarks_without_headline(Baseline& baseline) {
  std::erase_if(baseline.benchmarks, [](const auto& one) { return !one.second.series.contains(one.second.headline); });
}

}  // namespace

void leave_out_outliers(Baseline& baseline) {
  std::size_t values = 0;
  for (const auto& [key, entry] : baseline.benchmarks) values += entry.series.at(entry.headline).launches.size();
  constexpr double alpha = 0.01;
  const double z = bonferroni_z(2 * values, alpha);  // on both sides, because a value that is too good is also wrong
  for (auto& [key, entry] : baseline.benchmarks) {
    const Series& headline = entry.series.at(entry.headline);
    if (headline.launches.size() < launches_to_judge) continue;
    const std::vector<double> units = headline.units(true);
    const double centre = median(units);
    const double limit = std::max(z * robust_sigma(units), min_outlier_share * std::abs(centre));
    const auto stands_off = [&](double value) { return std::abs(value - centre) > limit; };
    std::set<Machine> good;
    for (const auto& [launch, repetitions] : headline.launches) {
      if (!stands_off(median(repetitions))) good.insert(machine_of(baseline, launch));
    }
    // Launches of one machine differ: latencies differ with the load of its host, and rates differ less.
    const auto is_usual = [&](double value) {
      const bool slow_latency = lower_is_better(entry.headline) && value > centre;
      return slow_latency || std::abs(value - centre) < max_difference_of_launches * std::abs(centre);
    };
    std::set<std::string> out;
    for (const auto& [launch, repetitions] : headline.launches) {
      const double value = median(repetitions);
      if (!stands_off(value) || (good.contains(machine_of(baseline, launch)) && is_usual(value))) continue;
      out.insert(launch);
      baseline.left_out.push_back({key, entry.headline, launch, value, centre});
    }
    for (const std::string& launch : out) erase_values(entry, launch);
  }
  erase_benchmarks_without_headline(baseline);
}

void erase_launch(Baseline& baseline, const std::string& name) {
  baseline.launches.erase(name);
  for (auto& [key, entry] : baseline.benchmarks) erase_values(entry, name);
  erase_benchmarks_without_headline(baseline);
}

void keep_launches(Baseline& baseline, std::size_t first, std::size_t last) {
  std::vector<std::pair<std::string, std::string>> by_time;
  for (const auto& [name, facts] : baseline.launches) by_time.emplace_back(facts.started, name);
  std::sort(by_time.begin(), by_time.end());
  for (std::size_t i = first; i + last < by_time.size(); ++i) erase_launch(baseline, by_time[i].second);
}

fs::path baseline_folder(const Baseline& baseline, const std::vector<Profile>& profiles) {
  const auto& devices = baseline.facts.at("device");
  const auto& backends = baseline.facts.at("backend");
  std::string name;
  for (const Profile& profile : profiles) {
    const bool is_backend = backends.contains(std::string(shakedown::name(profile.match.backend)));
    if (is_backend && fits(profile, profile.match.backend, {devices.begin(), devices.end()})) name = profile.name;
  }
  if (name.empty()) {
    for (const unsigned char c : devices.empty() ? std::string("unknown") : *devices.begin()) {
      if (std::isalnum(c) != 0)
        name += static_cast<char>(std::tolower(c));
      else if (!name.empty() && name.back() != '-')
        name += '-';
    }
  }
  std::string ranks = std::to_string(baseline.ranks) + "ranks";
  if (baseline.hosts > 1) ranks += "-" + std::to_string(baseline.hosts) + "hosts";
  return fs::path(name) / ranks;
}

std::string launch_text(const Baseline& baseline, const std::string& launch) {
  const auto found = baseline.launches.find(launch);
  const std::string run = launch.substr(0, launch.find('@'));
  return (found == baseline.launches.end() ? "?" : joined(found->second.hosts)) + " (run " + run + ")";
}

}  // namespace shakedown
