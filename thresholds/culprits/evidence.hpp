// Collects what findings and peer comparisons show about each GPU, link and host, and the limits that most ranks miss.
// This file does not name suspects. The functions are pure.
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

// If more than this fraction of the ranks of a host, of the copies of a GPU or of the benchmarks of a family is slow,
// the host, the GPU or the family counts as slow.
inline constexpr double nearly_all_share = 0.75, majority_share = 0.5;

/// True for a bad finding that affects the verdict.
bool bad(const Finding&);

class RunEvidence {
 public:
  /// The benchmarks and findings must outlive the object. If launches have different numbers of ranks, uses the largest
  /// launch.
  RunEvidence(const Benchmarks&, UnitTable, const std::vector<Finding>&);

  const Context* context() const { return context_; }  // null if nothing was measured
  const RankFacts& facts(int rank) const { return context_->ranks[static_cast<std::size_t>(rank)]; }
  std::size_t size() const { return context_->ranks.size(); }
  const std::vector<int>& neighbours(int rank) const { return ranks_of_.at(facts(rank).host); }
  const std::map<std::string, std::vector<int>>& ranks_of() const { return ranks_of_; }  // by host

  const Benchmarks& benchmarks() const { return benchmarks_; }
  const UnitTable& table() const { return table_; }
  const std::vector<Finding>& findings() const { return findings_; }

  std::string gpu(int rank) const;  // Returns the GPU for use in nvidia-smi -i.
  std::string on_host(int rank, const std::string& command) const;
  /// Returns a diagnosis of these ranks, with the telemetry of the first.
  Diagnosis diagnosis(std::vector<Cause>, const std::vector<int>& ranks) const;

  /// Returns the units of a kind that have evidence, and their evidence.
  auto units(UnitKind kind) const {
    return std::views::filter(table_.shown, [kind](const auto& entry) { return entry.first.kind == kind; });
  }
  /// Returns the evidence about one aspect of a unit; empty if the aspect was not measured.
  const Shown& shown(const Unit&, Aspect) const;
  bool is_slow(int rank, Aspect aspect) const { return shown(gpu_unit(rank), aspect).is_slow(); }
  /// Returns the evidence by which a unit fails, over all aspects.
  std::vector<Evidence> failing(const Unit&) const;
  /// True if a unit fails by this evidence. On the host backend, an outlier is only a warning.
  bool counts(const std::vector<Evidence>&) const;
  /// Returns, by family, the limits that most ranks miss.
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
