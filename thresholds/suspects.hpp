// What speaks against each GPU, link and host, gathered from findings and peers before anything is concluded: rows and
// columns of the copy matrix, how many benchmarks of a kind are slow, what a limit says that most ranks miss.
// Used to find culprits. Pure; tested through tests/culprit_test.cpp.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thresholds/diagnosis.hpp"
#include "thresholds/finding.hpp"
#include "thresholds/measured.hpp"
#include "thresholds/peers.hpp"

namespace shakedown {

// Of the ranks of a host, of the copies of a GPU, of the benchmarks of a family: so many slow ones are the whole.
inline constexpr double nearly_all = 0.75, most = 0.5;

/// The part of a GPU that a benchmark shows. gemm is clock-normalised.
enum class Aspect { gemm, gemm_raw, memory, pcie, other };

/// Against one GPU.
struct GpuCase {
  std::map<Aspect, std::vector<Evidence>> failing;   // enough to accuse
  std::map<Aspect, std::vector<double>> shortfalls;  // of all benchmarks of the aspect
  std::map<Aspect, std::size_t> low;                 // how many of these are low
  std::vector<Evidence> links;                       // of its row and column, where both are slow
  bool accuses = false;                              // one of the failing counts in the verdict
};

using RankPair = std::pair<int, int>;  // source, destination

/// Against one link in one direction.
struct LinkCase {
  std::vector<Evidence> failing;
  std::size_t low = 0, total = 0;
  bool slow() const { return !failing.empty() || (total > 0 && 2 * low > total); }
};

/// A finding that counts and is not good.
bool bad(const Finding&);

class Accusations {
 public:
  /// All must outlive it. Of results with several numbers of ranks those with the most speak.
  Accusations(const Benchmarks&, const PeerComparison&, const std::vector<Finding>&);

  const Context* context() const { return context_; }  // null: nothing was measured
  const RankFacts& facts(int rank) const { return context_->ranks[static_cast<std::size_t>(rank)]; }
  std::size_t size() const { return context_->ranks.size(); }
  const std::vector<int>& neighbours(int rank) const { return ranks_of_.at(facts(rank).host); }
  const std::map<std::string, std::vector<int>>& ranks_of() const { return ranks_of_; }  // by host

  bool is_slow(int rank, Aspect) const;

  /// Copies from (or to) the other GPUs of its host.
  struct Share {
    std::size_t slow = 0, all = 0;
    bool nearly() const { return all > 0 && static_cast<double>(slow) >= nearly_all * static_cast<double>(all); }
  };
  Share share(int rank, bool as_source) const;

  /// Takes what this rank explains out of the matrix.
  void take_links(int rank, bool row, bool column, std::vector<Evidence>& evidence);

  std::map<int, GpuCase> cases;                                // by rank
  std::map<RankPair, LinkCase> links;                          // what nobody has taken yet
  std::map<std::string, std::vector<Evidence>> hosts;          // that stand out as a whole
  std::map<std::string, std::vector<Evidence>> own_allreduce;  // hosts whose own AllReduce stands out
  std::map<std::string, std::vector<const Finding*>> alike;    // family -> limits that most ranks miss

 private:
  void accuse_by_findings();
  void accuse_ranks_of(const Finding&, const Benchmark& measured);
  void accuse_by_peers();
  void gather_support();
  void accuse_ports();
  const Benchmark* benchmark(const std::string& key) const;
  std::optional<int> neighbour(int rank, int local) const;
  bool has_failing(int rank) const;

  const Benchmarks& benchmarks_;
  const PeerComparison& peers_;
  const std::vector<Finding>& findings_;
  const Context* context_ = nullptr;
  std::map<std::string, std::vector<int>> ranks_of_;
};

}  // namespace shakedown
