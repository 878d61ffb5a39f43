// The history of nodes, GPUs and figures in a ledger, as text, JSON and for Prometheus.
#pragma once

#include <string>
#include <vector>

#include "report/terminal.hpp"
#include "thresholds/ledger/courses.hpp"
#include "thresholds/ledger/ledger.hpp"
#include "thresholds/ledger/states.hpp"

namespace shakedown {

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

std::string history_text(const History&, const std::vector<LedgerEvent>&, const TerminalStyle&);
std::string history_json(const History&);
std::string history_prometheus(const History&);

/// Returns 1 if a node is bad, drained or repaired; 3 if a node is in another state than good, or there is no node;
/// else 0.
int exit_code(const History&);

}  // namespace shakedown
