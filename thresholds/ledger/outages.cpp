#include "thresholds/ledger/outages.hpp"

#include <algorithm>

#include "base/utc.hpp"

namespace shakedown {
namespace {

double hours_between(const std::string& from, const std::string& to) {
  const auto begin = seconds_of(from), end = seconds_of(to);
  constexpr double seconds_of_hour = 3600;
  return begin && end ? std::max(0.0, *end - *begin) / seconds_of_hour : 0;
}

bool accuses_a_gpu(const LedgerEvent& run) {
  return std::ranges::any_of(run.gpus, [](const LedgerGpu& gpu) { return gpu.accused; });
}

std::ptrdiff_t count_ids(const LedgerEvent& run) {
  return std::ranges::count_if(run.gpus, [](const LedgerGpu& gpu) { return !gpu.id().empty(); });
}

bool measured_what_failed(const LedgerEvent& run, const Outage& outage) {
  return std::ranges::all_of(outage.runs, [&](const LedgerEvent* failed) {
    return (run.whole || !failed->failed.empty()) &&
           std::ranges::all_of(failed->failed, [&](const auto& key) { return has_measured(run, Key(key)); });
  });
}

void add_failure(const LedgerEvent& run, std::vector<Outage>& outages) {
  const bool is_of_node = !accuses_a_gpu(run);
  for (const LedgerGpu& gpu : run.gpus) {
    if (gpu.id().empty() || !(gpu.accused || is_of_node)) continue;
    const auto open =
        std::ranges::find_if(outages, [&](const Outage& one) { return one.gpu == gpu.id() && one.end == nullptr; });
    if (open != outages.end()) {
      open->runs.push_back(&run);
    } else {
      outages.push_back({gpu.id(), run.node, gpu.device.value_or(""), {&run}});
    }
  }
}

void end_outages(const LedgerEvent& run, std::vector<Outage>& outages) {
  for (Outage& outage : outages) {
    if (outage.end != nullptr) continue;
    const bool is_here = std::ranges::any_of(run.gpus, [&](const LedgerGpu& gpu) { return gpu.id() == outage.gpu; });
    const bool is_replaced = run.node == outage.node && count_ids(run) >= count_ids(*outage.runs.back());
    if ((is_here || is_replaced) && measured_what_failed(run, outage)) outage.end = &run;
  }
}

}  // namespace

double Outage::proven_hours() const { return hours_between(runs.front()->time, runs.back()->time); }

double Outage::hours(const std::string& now) const {
  return hours_between(runs.front()->time, end == nullptr ? now : end->time);
}

std::vector<Outage> outages_of(const std::vector<LedgerEvent>& events) {
  std::vector<Outage> outages;
  for (const LedgerEvent& event : events) {
    if (event.kind != EventKind::run || event.verdict == State::host_only) continue;
    if (event.outcome == NodeState::bad) add_failure(event, outages);
    if (event.outcome == NodeState::good) end_outages(event, outages);
  }
  return outages;
}

}  // namespace shakedown
