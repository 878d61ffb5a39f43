// An event of a node: a run, or what people did to it. An event is never changed after it is stored.
#pragma once

#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/archive.hpp"
#include "base/figure_name.hpp"
#include "thresholds/judge/nodes.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {

enum class EventKind { run, drained, repaired, returned };
constexpr auto words(EventKind) { return names("run", "drained", "repaired", "returned"); }

struct LedgerGpu {
  int slot = 0;  // number of the GPU in its node
  std::optional<std::string> serial, uuid, device;
  bool accused = false;  // true: the verdict names this GPU

  /// Returns the serial number, else the UUID; empty if both are unknown.
  std::string id() const { return serial.value_or(uuid.value_or("")); }
};

template <class Archive>
void members(Archive& archive, LedgerGpu& gpu) {
  archive("slot", gpu.slot)("serial", gpu.serial)("uuid", gpu.uuid)("device", gpu.device);
  archive.unless("accused", gpu.accused);
}

/// The figures of a run. These figures are most of the bytes of an event, and are read only if needed.
struct LedgerFigures {
  std::map<FigureName, RankValues> by_gpu;  // value of each GPU, in the order of the event's GPUs
  std::map<FigureName, double> shared;      // value of all GPUs of the node together
};

template <class Archive>
void members(Archive& archive, LedgerFigures& figures) {
  constexpr bool reads = std::same_as<Archive, Reader>;
  by_text(figures.by_gpu, [&](auto& texts) { return archive("by_gpu", texts), reads; });
  by_text(figures.shared, [&](auto& texts) { return archive("shared", texts), reads; });
}

struct LedgerEvent {
  EventKind kind = EventKind::run;
  std::string node, time;  // `time`: UTC, ISO 8601; for a run, its start
  std::string id;          // for a run, its id; two events of a node have different ids
  std::string reason;      // for a run, why the node is bad or undecided
  // The following members are only for a run.
  State verdict = State::incomplete;
  NodeState outcome = NodeState::undecided;  // state of this node in the run
  bool whole = false;                        // true: all families were requested
  std::string tier, profile, folder;
  std::map<std::string, std::string> software;  // versions of driver, cuda, nccl, shakedown
  std::vector<LedgerGpu> gpus;
  std::vector<std::string> failed;    // keys of failures of this node
  std::vector<std::string> families;  // families that have values
  LedgerFigures figures = {};         // not in `members`, because the file has figures in a separate line
};

inline constexpr int ledger_schema = 1;

template <class Archive>
void members(Archive& archive, LedgerEvent& e) {
  archive.derived("schema", ledger_schema)("event", e.kind)("node", e.node)("time", e.time)("id", e.id);
  archive.unless("reason", e.reason);
  if (e.kind != EventKind::run) return;
  archive.in_lower_case("verdict", e.verdict)("outcome", e.outcome)("whole", e.whole)("tier", e.tier);
  archive("profile", e.profile)("folder", e.folder)("software", e.software)("gpus", e.gpus)("failed", e.failed);
  archive("families", e.families);
}

/// Returns an event for each host of a run. `measured` is null if nothing was measured; `folder` has its results.
/// Figures are the headline metrics, with five digits.
std::vector<LedgerEvent> events_of(const Verdict&, const Measured* measured, const std::string& folder);

/// True if the run measured what has this key: a row, a class of rows, or a fact of its family.
bool has_measured(const LedgerEvent& run, const Key&);

}  // namespace shakedown
