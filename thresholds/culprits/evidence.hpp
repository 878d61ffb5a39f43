// Collects the evidence of findings and peer comparisons about each GPU, link and host in the table, and the limits
// that most ranks miss. It does not name suspects. Pure.
#pragma once

#include <map>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/findings/diagnosis.hpp"
#include "thresholds/findings/finding.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/units/table.hpp"

namespace shakedown {

// The share of slow ranks of a host, copies of a GPU, or benchmarks of a family above which the whole is slow.
inline constexpr double nearly_all = 0.75, most = 0.5;

/// A bad finding that counts.
bool bad(const Finding&);

class RunEvidence {
 public:
  /// The benchmarks and findings must outlive it. With several numbers of ranks, it uses the largest.
  RunEvidence(const Benchmarks&, UnitTable, const std::vector<Finding>&);

  const Context* context() const { return context_; }  // null: nothing was measured
  const RankFacts& facts(int rank) const { return context_->ranks[static_cast<std::size_t>(rank)]; }
  std::size_t size() const { return context_->ranks.size(); }
  const std::vector<int>& neighbours(int rank) const { return ranks_of_.at(facts(rank).host); }
  const std::map<std::string, std::vector<int>>& ranks_of() const { return ranks_of_; }  // by host

  const Benchmarks& benchmarks() const { return benchmarks_; }
  const UnitTable& table() const { return table_; }
  const std::vector<Finding>& findings() const { return findings_; }

  std::string gpu(int rank) const;  // for nvidia-smi -i
  std::string on_host(int rank, const std::string& command) const;
  /// Returns a diagnosis of these ranks, with the telemetry of the first.
  Diagnosis diagnosis(std::vector<Cause>, const std::vector<int>& ranks) const;

  /// Returns the units of a kind that have evidence, with it.
  auto units(UnitKind kind) const {
    return std::views::filter(table_.shown, [kind](const auto& entry) { return entry.first.kind == kind; });
  }
  /// Returns the evidence of one aspect of a unit; empty if it was not measured.
  const Shown& shown(const Unit&, Aspect) const;
  bool is_slow(int rank, Aspect aspect) const { return shown(gpu_unit(rank), aspect).is_slow(); }
  /// Returns the failing evidence of a unit over all aspects.
  std::vector<Evidence> failing(const Unit&) const;
  /// True if a unit fails by this evidence. Outliers on the host backend only warn.
  bool counts(const std::vector<Evidence>&) const;
  /// The limits that most ranks miss, by family.
  const std::map<std::string, std::vector<const Finding*>>& alike() const { return alike_; }

 private:
  void read_findings();
  void read_ranks_of(const Finding&, const Benchmark& measured);
  void read_peers();
  void count_rows();
  const Benchmark* benchmark(const Finding&) const;
  std::optional<int> neighbour(int rank, int local) const;

  const Benchmarks& benchmarks_;
  UnitTable table_;
  const std::vector<Finding>& findings_;
  const Context* context_ = nullptr;
  std::map<std::string, std::vector<int>> ranks_of_;
  std::map<std::string, std::vector<const Finding*>> alike_;
};

}  // namespace shakedown
