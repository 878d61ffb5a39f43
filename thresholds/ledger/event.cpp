#include "thresholds/ledger/event.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"

namespace shakedown {
namespace {

bool is_failure(const Finding& finding) { return finding.counts() && !finding.good(); }

/// Rounds a value to five digits, because more digits would double the size of the ledger.
double rounded(double value) { return std::strtod(number_text(value).c_str(), nullptr); }

/// Adds what failed on this host: the evidence against its parts, and findings that name it.
class Failures {
 public:
  Failures(const Verdict& verdict, LedgerEvent& event) : event_(event) {
    for (const Diagnosis& d : verdict.culprits) {
      if (!d.fails || !accuse(d.places)) continue;
      for (const Evidence& evidence : d.evidence) keys_.insert(evidence.key);
    }
    for (const Finding& finding : verdict.findings) {
      if (is_failure(finding) && accuse(finding.offenders)) keys_.insert(finding.key);
    }
    for (const Finding& finding : verdict.findings) {
      if (is_failure(finding) && keys_.empty()) keys_.insert(finding.key);
    }
    event.failed.assign(keys_.begin(), keys_.end());
  }

 private:
  bool accuse(const std::vector<Culprit>& places) {
    bool is_here = false;
    for (const Culprit& place : places) {
      if (place.host != event_.node) continue;
      is_here = true;
      for (LedgerGpu& gpu : event_.gpus) gpu.accused = gpu.accused || gpu.slot == place.local_rank;
    }
    return is_here;
  }

  LedgerEvent& event_;
  std::set<std::string> keys_;
};

/// Adds the headline figures of the ranks of this node.
void add_figures(const Measured& measured, const std::vector<std::size_t>& ranks, LedgerEvent& event) {
  std::set<std::string> families;
  for (const auto& [key, benchmark] : measured.benchmarks) {
    const std::string& family = key.family();
    if (benchmark.error() == nullptr && benchmark.waiver() == nullptr) families.insert(family);
    const std::string metric = headline_metric(benchmark);
    if (metric.empty() || family == "preflight" || family == "pairs" || !key.part("turn").empty()) continue;
    const FigureName name(key, metric);
    const bool is_of_one_node = benchmark.context->hosts <= 1;
    if (is_collective(family) || is_shared(key, metric)) {
      if (const auto value = run_value(benchmark, metric); value && is_of_one_node)
        event.figures.shared.emplace(name, rounded(*value));
      continue;
    }
    const RankValues values = rank_values(benchmark, metric);
    RankValues own;
    for (const std::size_t rank : ranks)
      own.push_back(rank < values.size() && values[rank] ? OptionalDouble(rounded(*values[rank])) : OptionalDouble());
    if (std::any_of(own.begin(), own.end(), [](const OptionalDouble& value) { return value.has_value(); }))
      event.figures.by_gpu.emplace(name, std::move(own));
  }
  event.families.assign(families.begin(), families.end());
}

void add_machine(const Measured& measured, LedgerEvent& event) {
  const Context& context = measured.files.front().context;
  event.tier = name(context.tier);
  event.software["shakedown"] = context.suite.version;
  for (const char* const part : {"driver", "cuda", "nccl"}) {
    const auto found = context.versions.find(part);
    if (found != context.versions.end() && found->second) event.software[part] = *found->second;
  }
  std::vector<std::size_t> ranks;
  for (const RankFacts& rank : context.ranks) {
    if (rank.host != event.node) continue;
    ranks.push_back(static_cast<std::size_t>(rank.rank));
    event.gpus.push_back({rank.local_rank, rank.serial, rank.uuid, rank.device});
  }
  add_figures(measured, ranks, event);
}

}  // namespace

std::vector<LedgerEvent> events_of(const Verdict& verdict, const Measured* measured, const std::string& folder) {
  std::vector<LedgerEvent> events;
  const NodeList list = decide_nodes(verdict);
  for (const NodeDecision& node : list.nodes) {
    LedgerEvent& event = events.emplace_back();
    event.node = node.host;
    event.time = verdict.started;
    event.id = verdict.run_ids.empty() ? "" : verdict.run_ids.front();
    event.verdict = verdict.state;
    // A good run of some families does not prove that the node is good, but it proves what it measured.
    event.outcome = node.state == NodeState::undecided && is_good(verdict.state) ? NodeState::good : node.state;
    event.whole = !verdict.is_partial() && verdict.state != State::fit;
    event.profile = verdict.profile;
    event.folder = folder;
    if (!node.reasons.empty())
      event.reason = node.reasons.front();
    else if (event.outcome == NodeState::undecided && !list.undecided_because.empty())
      event.reason = list.undecided_because.front();
    if (measured != nullptr && !measured->files.empty()) add_machine(*measured, event);
    if (event.outcome == NodeState::bad) Failures(verdict, event);
  }
  return events;
}

bool has_measured(const LedgerEvent& run, const Key& key) {
  if (key.family() == "machine") return true;
  if (key.family() == "preflight") return std::ranges::find(run.families, key.family()) != run.families.end();
  const auto is_of = [&](const auto& figure) {
    const Key row = figure.first.key();
    return row.family() == key.family() && std::ranges::all_of(key.parts(), [&](const Key::Part& part) {
             return part.second == "*" || part.first == "turn" || row.part(part.first) == part.second;
           });
  };
  return std::ranges::any_of(run.figures.by_gpu, is_of) || std::ranges::any_of(run.figures.shared, is_of);
}

}  // namespace shakedown
