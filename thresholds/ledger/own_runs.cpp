#include "thresholds/ledger/own_runs.hpp"

#include <algorithm>

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

/// Returns the number of the run's GPUs that are in this run too.
std::ptrdiff_t count_same(const LedgerEvent& run, const Context& context) {
  return std::ranges::count_if(run.gpus, [&](const LedgerGpu& gpu) {
    return !gpu.id().empty() &&
           std::ranges::any_of(context.ranks, [&](const auto& rank) { return gpu_id(rank) == gpu.id(); });
  });
}

using Values = std::map<std::string, std::vector<double>>;

std::map<std::string, double> medians_of(const Values& values) {
  std::map<std::string, double> medians;
  for (const auto& [name, all] : values) medians[name] = median(all);
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

std::vector<LedgerEvent> newest_accepted_runs(const std::filesystem::path& folder, const Ledger& ledger,
                                              const std::string& node, const std::string& time) {
  Ledger newest;
  for (auto event = ledger.events.rbegin(); event != ledger.events.rend() && newest.events.size() < max_runs; ++event) {
    if (event->node == node && event->time < time && is_accepted(*event)) newest.events.push_back(*event);
  }
  read_figures(folder, newest, [](const LedgerEvent&) { return true; });
  return std::move(newest.events);
}

OwnRecord own_record(const std::vector<LedgerEvent>& runs, const Measured& measured) {
  OwnRecord record;
  const Context& context = measured.files.front().context;
  std::map<std::string, Values> by_gpu;
  Values shared;
  for (const LedgerEvent& run : runs) {
    const bool is_here = std::ranges::any_of(context.ranks, [&](const auto& rank) { return rank.host == run.node; });
    const auto same = count_same(run, context);
    if (!is_here || same == 0 || !has_same_software(run, context)) continue;
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

}  // namespace shakedown
