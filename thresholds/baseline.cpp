// Decides what belongs into one baseline, what is left out of it, and the format of baseline.json.
// Tested by tests/baseline_test.cpp (build/tests/baseline_test).
#include "thresholds/baseline.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "thresholds/evidence.hpp"
#include "thresholds/json_field.hpp"
#include "thresholds/statistics.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* file_name = "baseline.json";

constexpr std::array machine_fields{"device", "backend",  "tier", "ranks", "hosts",     "driver",
                                    "cuda",   "cublaslt", "nccl", "nvls",  "build_type"};

// Variables that are recorded beside the tuning, but say where a run took place and not how: which GPUs of a kind, in
// how large an allocation, with which log. Devices, ranks and hosts are compared themselves.
constexpr std::array places{"CUDA_VISIBLE_DEVICES", "SLURM_JOB_NUM_NODES", "NCCL_DEBUG_FILE"};

/// On GPUs MPI brings the ranks together, and moves no data that is measured.
bool decides(const std::string& variable, const Context& context) {
  const bool of_mpi = variable.starts_with("OMPI_MCA_") || variable.starts_with("UCX_");
  return !(of_mpi && context.backend == "cuda") && std::find(places.begin(), places.end(), variable) == places.end();
}

// A version or state that one family did not need and so did not record says nothing about the set.
void add_known(MachineFacts& facts, const std::map<std::string, std::optional<std::string>>& recorded,
               const char* name) {
  const auto found = recorded.find(name);
  if (found != recorded.end() && found->second) facts[name].insert(*found->second);
}

MachineFacts facts_of(const std::vector<Results>& results) {
  MachineFacts facts;
  for (const char* field : machine_fields) facts[field];
  std::set<std::string> variables;
  for (const Results& file : results) {
    const Context& c = file.context;
    for (const RankFacts& rank : c.ranks) facts["device"].insert(rank.device);
    facts["backend"].insert(c.backend);
    facts["tier"].insert(c.tier);
    facts["ranks"].insert(std::to_string(c.world_size));
    facts["hosts"].insert(std::to_string(c.hosts));
    facts["build_type"].insert(c.suite.build_type);
    for (const char* name : {"driver", "cuda", "cublaslt", "nccl"}) add_known(facts, c.versions, name);
    add_known(facts, c.nccl, "nvls");
    for (const auto& [variable, value] : c.environment) {
      if (decides(variable, c)) variables.insert(variable);
    }
  }
  for (const Results& file : results) {
    for (const std::string& variable : variables) {
      const auto found = file.context.environment.find(variable);
      facts[variable].insert(found == file.context.environment.end() ? "unset" : found->second);
    }
  }
  return facts;
}

std::string list(const std::set<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
  return text;
}

std::set<std::string> hosts_of(const Context& context) {
  std::set<std::string> hosts;
  for (const RankFacts& rank : context.ranks) hosts.insert(rank.host);
  return hosts;
}

void add_file(Baseline& baseline, const Results& file) {
  const Context& context = file.context;
  const auto hosts = hosts_of(context);
  std::string launch = context.run_id + "@" + *hosts.begin();
  for (const auto& [key, benchmark] : benchmarks_of(file)) {
    if (benchmark.error() != nullptr || benchmark.waiver() != nullptr) continue;
    BaselineBenchmark& entry = baseline.benchmarks[key];
    if (entry.headline.empty()) entry.headline = headline_metric(benchmark);
    const auto known = entry.series.find(entry.headline);
    if (known != entry.series.end() && known->second.launches.contains(launch)) {
      // A run id that a user set stays the same from launch to launch.
      const std::string again = launch + "@" + context.started;
      if (baseline.launches.at(launch).started == context.started || known->second.launches.contains(again)) {
        throw InputError(file.file.string() + ": " + key + " of run " + context.run_id +
                         " stands in another file too; name each result once");
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
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// baseline.json

ordered_json to_json(const std::map<std::string, std::vector<double>>& values) {
  ordered_json result = ordered_json::object();
  for (const auto& [launch, list_of_values] : values) result[launch] = list_of_values;
  return result;
}

std::string dump(const ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

std::vector<double> numbers(const Field& array) {
  std::vector<double> values;
  array.each([&](const Field& value) { values.push_back(value.number()); });
  if (values.empty()) array.refuse("no values");
  return values;
}

std::map<std::string, std::vector<double>> launches(const Field& object, const Baseline& baseline) {
  std::map<std::string, std::vector<double>> result;
  object.require_object();
  for (const auto& [launch, values] : object.value().items()) {
    if (!baseline.launches.contains(launch)) object.refuse("launch \"" + launch + "\" is not listed under launches");
    result[launch] = numbers(object[launch.c_str()]);
  }
  return result;
}

std::set<std::string> texts(const Field& array) {
  std::set<std::string> result;
  array.each([&](const Field& item) { result.insert(item.text()); });
  return result;
}

void read_benchmark(const Field& field, Baseline& baseline) {
  const std::string key = field["key"].text(), metric = field["metric"].text();
  BaselineBenchmark& entry = baseline.benchmarks[key];
  Series series{launches(field["launches"], baseline), launches(field["ranks"], baseline)};
  if (series.launches.empty()) field["launches"].refuse("no launches");
  if (!entry.series.emplace(metric, std::move(series)).second) field.refuse(key + " " + metric + " stands twice");
  if (!field["headline"].boolean()) return;
  if (!entry.headline.empty()) field.refuse(key + " has two headlines");
  entry.headline = metric;
}

Baseline read_document(const Field& root) {
  const Field head = root["baseline"];
  if (const int schema = head["schema"].integer(); schema != baseline_schema) {
    head["schema"].refuse("is " + std::to_string(schema) + ", this program reads " + std::to_string(baseline_schema) +
                          "; the file was not touched; use the release that wrote it");
  }
  Baseline baseline;
  const Field facts = head["facts"];
  facts.require_object();
  for (const char* field : machine_fields) baseline.facts[field] = texts(facts[field]);
  for (const auto& [field, values] : facts.value().items()) baseline.facts[field] = texts(facts[field.c_str()]);
  baseline.ranks = head["ranks"].positive_integer();
  baseline.hosts = head["hosts"].positive_integer();
  const Field launched = head["launches"];
  launched.require_object();
  for (const auto& [launch, value] : launched.value().items()) {
    const Field one = launched[launch.c_str()];
    baseline.launches[launch] = {one["started"].text(), texts(one["hosts"])};
  }
  head["left_out"].each([&](const Field& one) {
    baseline.left_out.push_back(
        {one["key"].text(), one["metric"].text(), one["launch"].text(), one["value"].number(), one["centre"].number()});
  });
  const Field list_of_rows = root["benchmarks"];
  if (list_of_rows.value().empty())
    list_of_rows.refuse("no benchmarks: an empty baseline compares nothing; create it again");
  list_of_rows.each([&](const Field& row) { read_benchmark(row, baseline); });
  for (const auto& [key, entry] : baseline.benchmarks) {
    if (entry.headline.empty()) list_of_rows.refuse(key + " has no headline metric");
  }
  return baseline;
}

// nullopt: it is something else.
std::optional<Baseline> read_stored(const fs::path& file) {
  json document = read_json(file);
  if (!document.is_object() || !document.contains("baseline")) return std::nullopt;
  return read_document(Field(file, "", document));
}

}  // namespace

bool is_tuning(const std::string& field) {
  return std::none_of(machine_fields.begin(), machine_fields.end(), [&](const char* known) { return field == known; });
}

std::vector<double> Series::units(bool by_launch) const {
  if (!by_launch && launches.size() == 1) return launches.begin()->second;
  std::vector<double> values;
  for (const auto& [launch, repetitions] : launches) values.push_back(median(repetitions));
  return values;
}

Baseline baseline_of(const std::vector<Results>& results) {
  Baseline baseline;
  baseline.facts = facts_of(results);
  for (const Results& file : results) {
    baseline.ranks = std::max(baseline.ranks, file.context.world_size);
    baseline.hosts = std::max(baseline.hosts, file.context.hosts);
    add_file(baseline, file);
  }
  std::erase_if(baseline.benchmarks, [](const auto& entry) { return entry.second.headline.empty(); });
  return baseline;
}

std::vector<Baseline> baselines_of(const std::vector<Results>& results) {
  if (results.empty()) throw InputError("no result files to make a baseline of; name them with --results");
  refuse_faults(results, false);
  std::map<std::tuple<std::set<std::string>, std::string, int, int>, std::vector<Results>> kinds;
  for (const Results& file : results) {
    const Context& c = file.context;
    if (!c.complete) throw InputError(file.file.string() + ": the run broke off before its end; leave it out");
    std::set<std::string> devices;
    for (const RankFacts& rank : c.ranks) devices.insert(rank.device);
    kinds[{devices, c.backend, c.world_size, c.hosts}].push_back(file);
  }
  std::vector<Baseline> baselines;
  for (const auto& [kind, files] : kinds) {
    baselines.push_back(baseline_of(files));
    for (const auto& [field, values] : baselines.back().facts) {
      if (values.size() < 2) continue;
      throw InputError("the files do not make one baseline: " + field + " is " + list(values) +
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
    for (const auto& [field, values] : merged.facts) {
      const auto found = other.facts.find(field);
      const std::set<std::string> theirs = found == other.facts.end() ? std::set<std::string>{"unset"} : found->second;
      if (values == theirs) continue;
      throw InputError("these baselines do not belong together: " + field + " is " + list(values) + " and " +
                       list(theirs));
    }
    for (const auto& [field, values] : other.facts) {
      if (merged.facts.contains(field)) continue;
      throw InputError("these baselines do not belong together: " + field + " is unset and " + list(values));
    }
    merged.launches.insert(other.launches.begin(), other.launches.end());
    for (const auto& [key, entry] : other.benchmarks) {
      BaselineBenchmark& mine = merged.benchmarks[key];
      if (mine.headline.empty()) mine.headline = entry.headline;
      for (const auto& [metric, series] : entry.series) {
        for (const auto& [launch, values] : series.launches) {
          const auto [place, fresh] = mine.series[metric].launches.emplace(launch, values);
          if (!fresh && place->second != values) {
            throw InputError(key + " " + metric + " of launch " + launch + " has other figures in another baseline; " +
                             "one of them is wrong");
          }
        }
        mine.series[metric].ranks.insert(series.ranks.begin(), series.ranks.end());
      }
    }
    merged.left_out.insert(merged.left_out.end(), other.left_out.begin(), other.left_out.end());
  }
  return merged;
}

void leave_out_outliers(Baseline& baseline) {
  std::size_t values = 0;
  for (const auto& [key, entry] : baseline.benchmarks) values += entry.series.at(entry.headline).launches.size();
  constexpr double alpha = 0.01;
  const double z = outlier_z(2 * values, alpha);  // both sides: too good a value is as wrong
  for (auto& [key, entry] : baseline.benchmarks) {
    const Series& headline = entry.series.at(entry.headline);
    if (headline.launches.size() < launches_to_judge) continue;
    const std::vector<double> units = headline.units(true);
    const double centre = median(units);
    const double limit = std::max(z * robust_sigma(units), least_outlier * std::abs(centre));
    std::set<std::string> out;
    for (const auto& [launch, repetitions] : headline.launches) {
      const double value = median(repetitions);
      if (std::abs(value - centre) <= limit) continue;
      out.insert(launch);
      baseline.left_out.push_back({key, entry.headline, launch, value, centre});
    }
    for (auto& [metric, series] : entry.series) {
      for (const std::string& launch : out) {
        series.launches.erase(launch);
        series.ranks.erase(launch);
      }
    }
    std::erase_if(entry.series, [](const auto& series) { return series.second.launches.empty(); });
  }
}

std::string baseline_json(const Baseline& baseline) {
  ordered_json head = {{"schema", baseline_schema},
                       {"ranks", baseline.ranks},
                       {"hosts", baseline.hosts},
                       {"facts", ordered_json::object()},
                       {"launches", ordered_json::object()},
                       {"left_out", ordered_json::array()}};
  for (const auto& [field, values] : baseline.facts) head["facts"][field] = values;
  for (const auto& [launch, facts] : baseline.launches) {
    head["launches"][launch] = {{"started", facts.started}, {"hosts", facts.hosts}};
  }
  for (const LeftOut& value : baseline.left_out) {
    head["left_out"].push_back({{"key", value.key},
                                {"metric", value.metric},
                                {"launch", value.launch},
                                {"value", value.value},
                                {"centre", value.centre}});
  }
  std::string text = "{\n\"baseline\": " + dump(head, 2) + ",\n\"benchmarks\": [";
  const char* separator = "\n";
  for (const auto& [key, entry] : baseline.benchmarks) {
    for (const auto& [metric, series] : entry.series) {
      const auto units = series.units(false);
      text += separator + dump({{"key", key},
                                {"metric", metric},
                                {"headline", metric == entry.headline},
                                {"median", median(units)},
                                {"robust_sigma", robust_sigma(units)},
                                {"launches", to_json(series.launches)},
                                {"ranks", to_json(series.ranks)}},
                               -1);
      separator = ",\n";
    }
  }
  return text + "\n]\n}\n";
}

Baseline read_baseline(const std::vector<fs::path>& paths, bool allow_faults) {
  std::vector<Baseline> stored;
  std::vector<fs::path> results;
  for (const fs::path& path : paths) {
    std::error_code error;
    const bool folder = fs::is_directory(path, error);
    if (folder && !fs::exists(path / file_name, error)) {
      results.push_back(path);
      continue;
    }
    const fs::path file = folder ? path / file_name : path;
    if (auto baseline = read_stored(file)) {
      stored.push_back(std::move(*baseline));
    } else if (folder) {
      throw InputError(file.string() + ": is not a baseline; make one with shakedown baseline create");
    } else {
      results.push_back(path);
    }
  }
  if (results.empty()) return merge(stored);
  if (!stored.empty()) throw InputError("--baseline: stored baselines and result files together; give one kind");
  const auto files = read_results(results);
  refuse_faults(files, allow_faults);
  return baseline_of(files);
}

void store_baseline(const fs::path& file, const Baseline& baseline) {
  std::error_code error;
  if (fs::exists(file, error) && !read_stored(file)) {
    throw InputError(file.string() + ": is not a baseline and was not touched; name another place with --out");
  }
  fs::create_directories(file.parent_path(), error);
  replace_file(file, baseline_json(baseline));
}

fs::path baseline_folder(const Baseline& baseline, const std::vector<Profile>& profiles) {
  const auto& devices = baseline.facts.at("device");
  const auto& backends = baseline.facts.at("backend");
  std::string name;
  for (const Profile& profile : profiles) {
    const auto& known = profile.match.devices;
    const bool fits = backends.contains(profile.match.backend) &&
                      (known.empty() || std::all_of(devices.begin(), devices.end(), [&](const std::string& device) {
                         return std::find(known.begin(), known.end(), device) != known.end();
                       }));
    if (fits) name = profile.name;
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
  return (found == baseline.launches.end() ? "?" : list(found->second.hosts)) + " (run " + run + ")";
}

}  // namespace shakedown
