// The history of nodes, GPUs and figures in a ledger, as text, JSON and for Prometheus.
#pragma once

#include <string>
#include <vector>

#include "report/terminal.hpp"
#include "thresholds/ledger/courses.hpp"
#include "thresholds/ledger/ledger.hpp"
#include "thresholds/ledger/states.hpp"

namespace shakedown {

/// The nodes and GPUs of a ledger, or the selected ones, with figures over time and events that cannot be read.
struct History {
  std::vector<NodeRecord> nodes;
  std::vector<GpuRecord> gpus;
  std::vector<Course> courses;  // figures over time, of the selected node, GPU or metric
  std::vector<UnreadableEvent> unreadable;
  std::string selected = {};  // a node, a GPU, or the beginning of a key or a metric; empty: all nodes
};

/// Reduces the history to a node, a GPU (its serial number or UUID) or a metric, with their figures over time. Errors:
/// InputError if the ledger has nothing of that name.
void select(History&, const std::vector<LedgerEvent>&, const std::string& what);

/// "node7: bad since 2026-11-20T06:00:00Z: GPU 3 is slow; 1 of 2 good runs"
std::string node_line(const NodeRecord&);

/// Returns a line for each node and a last line "LEDGER: ...". If something is selected, returns its events, repairs
/// and changes.
std::string history_text(const History&, const std::vector<LedgerEvent>&, const TerminalStyle&);
/// Returns one JSON document: nodes, GPUs, figures over time, and files that cannot be read.
std::string history_json(const History&);
/// Returns gauges of Prometheus: state and last test of each node, and figures that changed.
std::string history_prometheus(const History&);

/// Returns 1 if a node is bad, drained or repaired; 3 if a node is in another state than good, or there is no node;
/// else 0.
int exit_code(const History&);

}  // namespace shakedown
