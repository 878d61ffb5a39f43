// What findings and peers say of each GPU, link and host, read once before anything is concluded: rows and columns of
// the copy matrix, how many benchmarks of a kind are slow, limits that most ranks miss. Nothing is ever taken out of
// it. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/findings/diagnosis.hpp"
#include "thresholds/findings/finding.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/units/table.hpp"

namespace shakedown {

// Of the ranks of a host, of the copies of a GPU, of the benchmarks of a family: so many slow ones are the whole.
inline constexpr double nearly_all = 0.75, most = 0.5;

/// Of one GPU.
struct GpuEvidence {
  std::map<Aspect, std::vector<Evidence>> failing;   // enough to name it
  std::map<Aspect, std::vector<double>> shortfalls;  // of all benchmarks of the aspect
  std::map<Aspect, std::size_t> low;                 // how many of these are low
  bool counts = false;                               // one of the failing counts in the verdict
};

using RankPair = std::pair<int, int>;  // source, destination

/// Of one link in one direction.
struct LinkEvidence {
  std::vector<Evidence> failing;
  std::size_t low = 0, total = 0;
  bool slow() const { return !failing.empty() || (total > 0 && 2 * low > total); }
};

/// A finding that counts and is not good.
bool bad(const Finding&);

class RunEvidence {
 public:
  /// All must outlive it. Of results with several numbers of ranks those with the most speak.
  RunEvidence(const Benchmarks&, const UnitTable&, const std::vector<Finding>&);

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
  Diagnosis diagnosis(std::vector<Cause>, const std::vector<int>& ranks) const;

  bool is_slow(int rank, Aspect) const;

  const std::map<int, GpuEvidence>& gpus() const { return gpus_; }  // by rank
  const std::map<RankPair, LinkEvidence>& links() const { return links_; }
  /// Hosts that stand out as a whole.
  const std::map<std::string, std::vector<Evidence>>& hosts() const { return hosts_; }
  /// Hosts whose own AllReduce stands out.
  const std::map<std::string, std::vector<Evidence>>& own_allreduce() const { return own_allreduce_; }
  /// Limits that most ranks miss, by family.
  const std::map<std::string, std::vector<const Finding*>>& alike() const { return alike_; }

 private:
  void read_findings();
  void read_ranks_of(const Finding&, const Benchmark& measured);
  void read_peers();
  void read_support();
  const Benchmark* benchmark(const Key&) const;
  std::optional<int> neighbour(int rank, int local) const;

  const Benchmarks& benchmarks_;
  const UnitTable& table_;
  const std::vector<Finding>& findings_;
  const Context* context_ = nullptr;
  std::map<std::string, std::vector<int>> ranks_of_;
  std::map<int, GpuEvidence> gpus_;
  std::map<RankPair, LinkEvidence> links_;
  std::map<std::string, std::vector<Evidence>> hosts_, own_allreduce_;
  std::map<std::string, std::vector<const Finding*>> alike_;
};

}  // namespace shakedown
