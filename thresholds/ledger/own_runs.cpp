#include "thresholds/ledger/own_runs.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/statistics.hpp"

namespace shakedown {
namespace {

constexpr std::size_t max_runs = 5, max_files = 50;

bool is_accepted(const LedgerEvent& event) {
  return event.kind == EventKind::run && event.whole && event.outcome != NodeState::bad && is_good(event.verdict);
}

bool has_same_software(const LedgerEvent& run, const Context& context) {
  return std::ranges::all_of(run.software, [&](const auto& part) {
    if (part.first == "shakedown") return true;
    const auto now = context.versions.find(part.first);
    return now != context.versions.end() && now->second == part.second;
  });
}

/// Returns the ids of the GPUs that are on this node now.
std::set<std::string> gpus_on(const std::string& node, const Context& context) {
  std::set<std::string> ids;
  for (const RankFacts& rank : context.ranks) {
    if (rank.host == node) ids.insert(gpu_id(rank));
  }
  ids.erase("");
  return ids;
}

using Values = std::map<FigureName, std::vector<double>>;

std::map<FigureName, double> medians_of(const Values& values) {
  std::map<FigureName, double> medians;
  for (const auto& [name, all] : values) medians.emplace(name, median(all));
  return medians;
}

}  // namespace

std::vector<LedgerEvent> newest_accepted_runs(const std::filesystem::path& ledger, const std::string& node) {
  std::vector<LedgerEvent> runs;
  std::size_t files = 0;
  read_newest(ledger, node, [&](LedgerEvent event) {
    if (is_accepted(event)) runs.push_back(std::move(event));
    return runs.size() < max_runs && ++files < max_files;
  });
  return runs;
}

OwnRecord own_record(const std::vector<LedgerEvent>& runs, const Measured& measured) {
  OwnRecord record;
  const Context& context = measured.files.front().context;
  std::map<std::string, Values> by_gpu;
  Values shared;
  for (const LedgerEvent& run : runs) {
    const auto here = gpus_on(run.node, context);
    const auto same = std::ranges::count_if(run.gpus, [&](const LedgerGpu& gpu) { return here.contains(gpu.id()); });
    if (same == 0 || !has_same_software(run, context)) continue;
    if (record.runs++ == 0) record.newest = run.id;
    for (const auto& [name, values] : run.figures.by_gpu) {
      for (std::size_t i = 0; i < std::min(values.size(), run.gpus.size()); ++i) {
        if (values[i]) by_gpu[run.gpus[i].id()][name].push_back(*values[i]);
      }
    }
    // Figures that GPUs share are those of all of them.
    if (context.hosts != 1 || run.gpus.size() != context.ranks.size() || same != std::ssize(run.gpus)) continue;
    for (const auto& [name, value] : run.figures.shared) shared[name].push_back(value);
  }
  for (const auto& [gpu, values] : by_gpu) {
    if (!gpu.empty()) record.by_gpu[gpu] = medians_of(values);
  }
  record.shared = medians_of(shared);
  return record;
}

AcceptedRuns::AcceptedRuns(std::filesystem::path folder, const Ledger& ledger) : folder_(std::move(folder)) {
  for (const LedgerEvent& event : ledger.events) {
    if (is_accepted(event)) by_node_[event.node].push_back(&event);
  }
}

std::map<std::string, OwnRecord> AcceptedRuns::records(const Measured& measured, const std::string& time) const {
  std::set<std::string> hosts;
  for (const RankFacts& rank : measured.files.front().context.ranks) hosts.insert(rank.host);
  std::map<std::string, OwnRecord> records;
  for (const std::string& host : hosts) {
    const auto runs = by_node_.find(host);
    if (runs == by_node_.end()) continue;
    Ledger newest;
    for (auto run = runs->second.rbegin(); run != runs->second.rend() && newest.events.size() < max_runs; ++run) {
      if ((*run)->time < time) newest.events.push_back(**run);
    }
    read_figures(folder_, newest, [](const LedgerEvent&) { return true; });
    if (auto record = own_record(newest.events, measured); record.runs > 0) records.emplace(host, std::move(record));
  }
  return records;
}

}  // namespace shakedown
