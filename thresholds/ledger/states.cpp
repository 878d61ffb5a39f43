#include "thresholds/ledger/states.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace shakedown {
namespace {

/// Applies the events of one node in their order.
class NodeHistory {
 public:
  explicit NodeHistory(std::string node) { record_.node = std::move(node); }

  void apply(const LedgerEvent& event) {
    const LedgerState before = state();
    switch (event.kind) {
      case EventKind::run: apply_run(event); break;
      case EventKind::drained: record_.is_drained = true, record_.proofs = 0; break;
      case EventKind::repaired:
        is_repaired_ = true, record_.proofs = 0;
        record_.repairs.push_back({&event, record_.last_bad, {}, {}});
        break;
      case EventKind::returned: apply_return(); break;
    }
    if (state() == before && !record_.since.empty()) return;
    record_.since = event.time;
    record_.reason = event.reason;
  }

  NodeRecord record() && {
    record_.state = state();
    return std::move(record_);
  }

 private:
  bool needs_proof() const { return !record_.failed.empty() || record_.is_drained || is_repaired_; }
  bool is_proven() const { return record_.proofs >= proving_runs; }

  LedgerState state() const {
    if (!needs_proof()) return record_.last_tested == nullptr ? LedgerState::never_tested : LedgerState::good;
    if (is_proven()) return LedgerState::proven;
    if (is_repaired_) return LedgerState::repaired;
    return record_.is_drained ? LedgerState::drained : LedgerState::bad;
  }

  bool proves(const LedgerEvent& run) const {
    if (record_.failed.empty()) return run.whole;
    return std::ranges::all_of(record_.failed, [&](const auto& key) { return has_measured(run, Key(key)); });
  }

  void apply_run(const LedgerEvent& run) {
    record_.last_run = &run;
    const bool is_of_cpus = run.verdict == State::host_only && had_gpus_;  // a run of CPUs says nothing about GPUs
    had_gpus_ = had_gpus_ || std::ranges::any_of(run.gpus, [](const LedgerGpu& gpu) { return !gpu.id().empty(); });
    if (run.outcome == NodeState::undecided || is_of_cpus) return;
    if (run.whole || run.outcome == NodeState::bad) record_.last_tested = &run;
    if (run.outcome == NodeState::bad) {
      std::set<std::string> failed(record_.failed.begin(), record_.failed.end());
      failed.insert(run.failed.begin(), run.failed.end());
      record_.failed.assign(failed.begin(), failed.end());
      record_.proofs = 0;
      record_.last_bad = &run;
    } else if (needs_proof() && proves(run)) {
      ++record_.proofs;
      if (is_repaired_) prove(record_.repairs.back(), run);
      if (is_proven() && !record_.is_drained && !is_repaired_) record_.failed.clear();
    }
  }

  static void prove(Repair& repair, const LedgerEvent& run) {
    if (repair.after.empty() && repair.before != nullptr) {
      for (const LedgerGpu& now : run.gpus) {
        if (!has_gpu(*repair.before, now.id()))
          repair.replaced.push_back({now.slot, gone_from(repair, run, now.slot), now.id()});
      }
    }
    if (repair.after.size() < proving_runs) repair.after.push_back(&run);
  }

  static bool has_gpu(const LedgerEvent& run, const std::string& id) {
    return std::ranges::any_of(run.gpus, [&](const LedgerGpu& gpu) { return gpu.id() == id; });
  }

  /// Returns the GPU that was in the slot before the repair and is no longer there; empty if there was none, for
  /// example because the GPU was lost.
  static std::string gone_from(const Repair& repair, const LedgerEvent& run, int slot) {
    for (const LedgerGpu& old : repair.before->gpus) {
      if (old.slot == slot && !has_gpu(run, old.id())) return old.id();
    }
    return "";
  }

  /// A node that returned without its proof is still bad.
  void apply_return() {
    if (is_proven()) record_.failed.clear();
    record_.is_drained = is_repaired_ = false;
  }

  NodeRecord record_;
  bool is_repaired_ = false, had_gpus_ = false;
};

}  // namespace

std::vector<NodeRecord> node_records(const std::vector<LedgerEvent>& events, const std::vector<std::string>& roster) {
  std::map<std::string, NodeHistory> nodes;
  for (const std::string& node : roster) nodes.try_emplace(node, node);
  for (const LedgerEvent& event : events) nodes.try_emplace(event.node, event.node).first->second.apply(event);
  std::vector<NodeRecord> records;
  for (auto& [name, node] : nodes) records.push_back(std::move(node).record());
  return records;
}

std::vector<GpuRecord> gpu_records(const std::vector<LedgerEvent>& events) {
  std::map<std::string, GpuRecord> gpus;
  for (const LedgerEvent& event : events) {
    for (const LedgerGpu& gpu : event.gpus) {
      if (gpu.id().empty()) continue;
      GpuRecord& record = gpus[gpu.id()];
      record.id = gpu.id();
      const bool is_there =
          !record.places.empty() && record.places.back().node == event.node && record.places.back().slot == gpu.slot;
      if (!is_there) record.places.push_back({event.node, event.time, gpu.slot});
      if (gpu.accused) record.accusations.push_back(&event);
    }
  }
  std::vector<GpuRecord> records;
  for (auto& [id, record] : gpus) records.push_back(std::move(record));
  return records;
}

}  // namespace shakedown
