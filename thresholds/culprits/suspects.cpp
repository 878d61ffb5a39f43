// Longer than other files: GPU, port, link and node compete for the same evidence, in an order that has to be seen
// whole.
#include "thresholds/culprits/suspects.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "base/host_list.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/culprits/common_cause.hpp"
#include "thresholds/culprits/evidence.hpp"
#include "thresholds/rules/profile.hpp"
#include "thresholds/units/populations.hpp"

namespace shakedown {
namespace {

// A clock that is lower than the peers' by this much explains a slow GEMM.
constexpr double low_clock = 0.03;
// Chips differ by 2 to 3 %; from three times that on somebody will ask about one.
constexpr double asked_about = 0.075;

class Investigation {
 public:
  Investigation(const Benchmarks& benchmarks, const UnitTable& table, const std::vector<Finding>& findings,
                std::vector<Diagnosis> network)
      : table_(table),
        facts_(benchmarks),
        evidence_(benchmarks, table, findings),
        context_(evidence_.context()),
        network_(std::move(network)) {}

  std::vector<Diagnosis> run() {
    if (context_ == nullptr) return {};
    judge_ports();
    judge_kernels();
    judge_ranks();
    judge_nodes();
    judge_links();
    judge_clocks();
    suspects_.insert(suspects_.end(), network_.begin(), network_.end());
    for (const auto explain : {explain_collectives, explain_missed_alike})
      suspects_ = explained(suspects_, explain(evidence_, suspects_));
    judge_data();
    sort();
    return std::move(suspects_);
  }

 private:
  // --- copies ---

  /// Slow, and nobody explains it yet.
  bool open(const RankPair& pair) const {
    const auto found = evidence_.links().find(pair);
    return found != evidence_.links().end() && !found->second.failing.empty() && !explained_.contains(pair);
  }

  void explain(const RankPair& pair, std::vector<Evidence>& evidence) {
    const auto found = evidence_.links().find(pair);
    if (found == evidence_.links().end() || !explained_.insert(pair).second) return;
    evidence.insert(evidence.end(), found->second.failing.begin(), found->second.failing.end());
  }

  void explain_copies(int rank, bool out, bool in, std::vector<Evidence>& evidence) {
    for (const int other : evidence_.neighbours(rank)) {
      if (out) explain({rank, other}, evidence);
      if (in) explain({other, rank}, evidence);
    }
  }

  /// Copies to or from the other GPUs of its host.
  struct Share {
    std::size_t slow = 0, all = 0, open = 0;
    bool nearly() const { return all > 0 && static_cast<double>(slow) >= nearly_all * static_cast<double>(all); }
  };

  Share share(int rank, bool as_source) const {
    Share result;
    for (const int other : evidence_.neighbours(rank)) {
      const RankPair pair = as_source ? RankPair{rank, other} : RankPair{other, rank};
      const auto found = evidence_.links().find(pair);
      if (other == rank || found == evidence_.links().end()) continue;
      ++result.all;
      if (found->second.slow() && !explained_.contains(pair)) ++result.slow;
      if (open(pair)) ++result.open;
    }
    return result;
  }

  // A GPU whose copies are slow out and in: the one that explains most, and then the next.
  void judge_ports() {
    std::set<std::string> hosts;
    for (const auto& [pair, link] : evidence_.links()) {
      if (!link.failing.empty()) hosts.insert(evidence_.facts(pair.second).host);
    }
    for (const std::string& host : hosts) {
      const auto& ranks = evidence_.ranks_of().at(host);
      for (std::size_t round = 0; round < ranks.size(); ++round) {
        int best = -1;
        std::size_t most_slow = 0;
        bool best_is_slow = false;
        for (const int rank : ranks) {
          const Share row = share(rank, true), column = share(rank, false);
          if (!row.nearly() || !column.nearly() || row.open + column.open == 0) continue;
          // Of two GPUs that explain the same, the one that is slow by itself as well.
          const bool also = evidence_.is_slow(rank, Aspect::gemm) || evidence_.is_slow(rank, Aspect::memory);
          const std::size_t slow = row.slow + column.slow;
          if (best < 0 || slow > most_slow || (slow == most_slow && also && !best_is_slow)) {
            best = rank;
            most_slow = slow;
            best_is_slow = also;
          }
        }
        if (best < 0 || (ranks.size() == 2 && !best_is_slow)) break;  // of two GPUs, either may be the one
        explain_copies(best, true, true, ports_[best]);
      }
    }
  }

  // What the kernels of a GPU copy slowly, which is slow in what it does alone: somebody else has its SMs, or they are
  // bad. Writes are the work of the source, reads and latencies of the destination; copy engines have none.
  void judge_kernels() {
    for (const auto& [pair, link] : evidence_.links()) {
      if (!open(pair)) continue;
      std::set<int> workers;
      for (const Evidence& e : link.failing) {
        const bool by_kernel = e.key.part("engine") == "sm";
        workers.insert(!by_kernel ? -1 : e.key.part("op") == "write" ? pair.first : pair.second);
      }
      const int worker = *workers.begin();
      const bool slow = evidence_.is_slow(worker, Aspect::gemm) || evidence_.is_slow(worker, Aspect::memory);
      if (workers.size() == 1 && slow) explain(pair, ports_[worker]);
    }
  }

  // --- ranks ---

  Diagnosis diagnosis(std::vector<Cause> causes, const std::vector<int>& ranks) const {
    Diagnosis d = evidence_.diagnosis(std::move(causes), ranks);
    if (ranks.empty()) return d;
    d.telemetry = telemetry().text(ranks.front());
    d.heat = telemetry().hot(ranks.front());
    return d;
  }

  void judge_ranks() {
    std::map<int, std::vector<Evidence>> all = ports_;
    for (const auto& [rank, gpu] : evidence_.gpus()) {
      for (const auto& [aspect, list] : gpu.failing) all[rank].insert(all[rank].end(), list.begin(), list.end());
    }
    for (auto& [rank, evidence] : all) {
      if (evidence.empty()) continue;
      const auto gpu = evidence_.gpus().find(rank);
      Diagnosis d = judge_rank(rank);
      d.detail += facts_.hint({rank});
      d.fails = (gpu != evidence_.gpus().end() && gpu->second.counts) || (ports_.contains(rank) && table_.counts);
      add_evidence(d, std::move(evidence));
      slow_of_host_[evidence_.facts(rank).host].push_back(rank);
      by_rank_.emplace(rank, std::move(d));
    }
  }

  Diagnosis judge_rank(int rank) const {
    const bool gemm = evidence_.is_slow(rank, Aspect::gemm), memory = evidence_.is_slow(rank, Aspect::memory);
    const bool raw = evidence_.is_slow(rank, Aspect::gemm_raw),
               ports = ports_.contains(rank) && !ports_.at(rank).empty();
    const auto clock = telemetry().clock_shortfall(rank);
    const std::string look = context_->backend == Backend::host
                                 ? measure_command("gemm", context_->world_size)
                                 : evidence_.on_host(rank, "nvidia-smi -q -i " + evidence_.gpu(rank) +
                                                               " -d PERFORMANCE,CLOCK,POWER,ECC,PIDS");
    if (gemm || memory) {
      Diagnosis d = diagnosis({Cause::slow_gpu}, {rank});
      std::vector<std::string> slow, healthy;
      (gemm ? slow : healthy).push_back("GEMM");
      (memory ? slow : healthy).push_back("HBM");
      (ports ? slow : healthy).push_back("copies to and from it");
      d.detail = "slow: " + joined(slow, ", ", " and ") +
                 (healthy.empty() ? "" : "; not slow: " + joined(healthy, ", ", " and "));
      if (clock && *clock < low_clock) d.detail += "; at a normal clock";
      d.next = look;
      return d;
    }
    if (raw) {
      const bool explained = clock && *clock >= low_clock;
      Diagnosis d = diagnosis(
          explained ? std::vector{Cause::power_or_heat} : std::vector{Cause::slow_gpu, Cause::power_or_heat}, {rank});
      d.detail = explained ? "GEMM is slow, GEMM per GHz is not: its clock is " + percent_text(*clock) +
                                 " below that of its peers"
                           : "GEMM is slow; no clock was recorded that could explain it";
      d.next = look;
      return d;
    }
    if (ports) {
      Diagnosis d = diagnosis({Cause::slow_link, Cause::slow_gpu}, {rank});
      d.detail = "every copy to it and from it is slow, its GEMM and HBM are not: its ports";
      d.next = evidence_.on_host(rank, "nvidia-smi nvlink -s -i " + evidence_.gpu(rank));
      return d;
    }
    if (evidence_.is_slow(rank, Aspect::pcie)) {
      Diagnosis d = diagnosis({Cause::slow_link}, {rank});
      d.detail = "copies between it and its host's memory are slow: its PCIe link";
      d.next = evidence_.on_host(rank, "nvidia-smi -q -i " + evidence_.gpu(rank) + " | grep -A12 'GPU Link Info'");
      return d;
    }
    if (evidence_.is_slow(rank, Aspect::processor)) {
      Diagnosis d = diagnosis({Cause::busy_core}, {rank});
      d.detail = "the processor that feeds it is busy or slow" + taken_from(rank) + "; its GPU shows nothing of it";
      d.next = evidence_.on_host(rank, "ps -eLo psr,pcpu,pid,comm --sort=-pcpu | head -20");
      return d;
    }
    Diagnosis d = diagnosis({Cause::slow_gpu}, {rank});
    d.detail = "it falls short in what its peers reach";
    d.next = look;
    return d;
  }

  // Who had the core of a rank in the meantime, as far as the kernel tells.
  std::string taken_from(int rank) const {
    for (const auto& [key, benchmark] : evidence_.benchmarks()) {
      if (key.family() != "jitter" || benchmark.error() != nullptr || benchmark.waiver() != nullptr) continue;
      const auto of = [&](const char* metric) {
        const auto values = rank_values(benchmark, metric);
        return static_cast<std::size_t>(rank) < values.size() ? values[static_cast<std::size_t>(rank)] : std::nullopt;
      };
      const auto stolen = of("stolen"), waited = of("waited");
      if (!stolen || *stolen < low_clock) continue;
      return ": its core did other things for " + percent_text(*stolen) + " of the time, " +
             (!waited                  ? "who had it is not known"
              : *waited >= *stolen / 2 ? "other threads had it"
                                       : "no other thread had it: interrupts, firmware or a hypervisor");
    }
    return "";
  }

  // --- nodes ---

  // A host is at fault where nearly all of its ranks are, or where even its better ranks are slow.
  void judge_nodes() {
    if (evidence_.ranks_of().size() > 1) {
      std::set<std::string> suspects;
      for (const auto& [host, ranks] : slow_of_host_) suspects.insert(host);
      for (const auto& [host, evidence] : evidence_.hosts()) suspects.insert(host);
      for (const auto& [host, evidence] : evidence_.own_allreduce()) suspects.insert(host);
      for (const std::string& host : suspects) judge_node(host);
    }
    for (auto& [rank, d] : by_rank_) suspects_.push_back(std::move(d));
  }

  void judge_node(const std::string& host) {
    const auto& ranks = evidence_.ranks_of().at(host);
    const auto slow_ranks = slow_of_host_.find(host);
    const std::size_t slow = slow_ranks == slow_of_host_.end() ? 0 : slow_ranks->second.size();
    const auto whole = evidence_.hosts().find(host);
    const bool nearly = slow > 1 && static_cast<double>(slow) >= nearly_all * static_cast<double>(ranks.size());
    const auto own = evidence_.own_allreduce().find(host);
    // The AllReduce of a host is as slow as the slowest of its GPUs and links: where one of them stands out,
    // it is that.
    const bool only_own =
        own != evidence_.own_allreduce().end() && slow == 0 && whole == evidence_.hosts().end() && !has_slow_link(host);
    if (!nearly && whole == evidence_.hosts().end() && !only_own) return;
    std::vector<Evidence> evidence;
    if (whole != evidence_.hosts().end()) evidence = whole->second;
    if (own != evidence_.own_allreduce().end()) evidence.insert(evidence.end(), own->second.begin(), own->second.end());
    bool clocks = nearly, fails = (whole != evidence_.hosts().end() || only_own) && table_.counts;
    // A part of its GPUs is slow by itself, whatever else the host is.
    if (slow_ranks != slow_of_host_.end() && nearly) {
      for (const int rank : slow_ranks->second) {
        const Diagnosis& d = by_rank_.at(rank);
        clocks = clocks && d.causes.front() == Cause::power_or_heat;
        fails = fails || d.fails;
        if (whole == evidence_.hosts().end()) evidence.insert(evidence.end(), d.evidence.begin(), d.evidence.end());
        by_rank_.erase(rank);
      }
    }
    for (const auto& [pair, link] : evidence_.links()) {
      if (evidence_.facts(pair.second).host == host) explained_.insert(pair);
    }
    Diagnosis d;
    d.causes = clocks     ? std::vector{Cause::power_or_heat, Cause::slow_node}
               : only_own ? std::vector{Cause::slow_node, Cause::configuration}
                          : std::vector{Cause::slow_node};
    d.fails = fails;
    Culprit place;
    place.host = host;
    d.places = {place};
    d.place_count = 1;
    d.detail = nearly     ? std::to_string(slow) + " of its " + plural(ranks.size(), "rank") + " stand out"
               : only_own ? "its GPUs and links are like those of the other hosts"
                          : "its ranks are slower than those of the other hosts";
    if (const auto within = alone(host)) d.detail += *within;
    d.detail += facts_.hint(ranks);
    d.telemetry = telemetry().text(ranks.front());
    d.heat = std::any_of(ranks.begin(), ranks.end(), [&](int rank) { return telemetry().hot(rank); });
    d.next = "mpirun -np " + std::to_string(ranks.size()) + " --host " + host_in_command(host) + ":" +
             std::to_string(ranks.size()) + " build/bench/bench_" +
             (evidence.empty() ? "gemm" : evidence.front().key.family());
    add_evidence(d, std::move(evidence));
    suspects_.push_back(std::move(d));
  }

  bool has_slow_link(const std::string& host) const {
    return std::any_of(evidence_.links().begin(), evidence_.links().end(), [&](const auto& link) {
      return open(link.first) && evidence_.facts(link.first.second).host == host;
    });
  }

  // What the AllReduce inside each host says of this one: it separates the node from the network.
  std::optional<std::string> alone(const std::string& host) const {
    bool measured = false, slow = false;
    for (const Comparison& c : table_.comparisons) {
      if (c.key.part("scope") != "node") continue;
      for (const PeerValue& v : c.values) {
        if (evidence_.facts(v.unit.rank).host != host) continue;
        measured = true;
        slow = slow || v.out;
      }
    }
    if (!measured) return std::nullopt;
    return slow ? "; its own AllReduce is slow too: the node, not the network"
                : "; its own AllReduce is as fast as that of the others";
  }

  // --- links ---

  void judge_links() {
    for (const auto& [host, ranks] : evidence_.ranks_of()) {
      if (ranks.size() < 3) continue;
      for (const int rank : ranks) {
        judge_side(rank, true);
        judge_side(rank, false);
      }
    }
    for (const auto& [pair, link] : evidence_.links()) {
      if (!open(pair)) continue;
      const RankPair back{pair.second, pair.first};
      const bool both = open(back);
      const bool only_two = evidence_.neighbours(pair.second).size() == 2;
      Diagnosis d =
          diagnosis(both && only_two ? std::vector{Cause::slow_link, Cause::slow_gpu} : std::vector{Cause::slow_link},
                    {pair.first, pair.second});
      d.telemetry.clear();
      d.fails = counts(link.failing);
      std::vector<Evidence> evidence;
      for (const RankPair& way : {pair, back}) explain(way, evidence);
      const std::string ends = "from local GPU " + std::to_string(evidence_.facts(pair.first).local_rank) + " to " +
                               std::to_string(evidence_.facts(pair.second).local_rank);
      d.detail = both ? "copies between the two are slow in both directions" +
                            std::string(only_two ? "; with two GPUs the link and either GPU look alike" : "")
                      : "copies " + ends + " are slow, other copies of both are not";
      d.next = evidence_.on_host(pair.first, "nvidia-smi nvlink -e -i " + evidence_.gpu(pair.first));
      add_evidence(d, std::move(evidence));
      suspects_.push_back(std::move(d));
    }
  }

  // All copies out of a GPU, or all into it.
  void judge_side(int rank, bool out) {
    const Share side = share(rank, out);
    if (side.all < 2 || !side.nearly()) return;
    std::vector<Evidence> evidence;
    explain_copies(rank, out, !out, evidence);
    if (evidence.empty()) return;
    Diagnosis d = diagnosis({Cause::slow_link, Cause::slow_gpu}, {rank});
    d.fails = counts(evidence);
    d.detail = out ? "every copy out of it is slow, copies into it are not"
                   : "every copy into it is slow, copies out of it are not";
    d.next = evidence_.on_host(rank, "nvidia-smi nvlink -e -i " + evidence_.gpu(rank));
    add_evidence(d, std::move(evidence));
    suspects_.push_back(std::move(d));
  }

  bool counts(const std::vector<Evidence>& evidence) const {
    return table_.counts ||
           std::any_of(evidence.begin(), evidence.end(), [](const Evidence& e) { return e.by != Judgement::peers; });
  }

  // --- clocks ---

  // Healthy GEMM per GHz at a low clock: heat or the supply if the GPU says so, else the chip.
  void judge_clocks() {
    std::vector<std::pair<double, int>> silicon;
    bool clocks = true;
    const bool all_held_back = telemetry().most_held_back(evidence_.size());
    for (const auto& [rank, shortfall] : raw_shortfalls()) {
      if (is_named(suspects_, evidence_.facts(rank))) continue;
      const auto clock = telemetry().clock_shortfall(rank);
      if (clock && *clock >= low_clock && telemetry().held_back(rank) && !all_held_back) {
        Diagnosis d = diagnosis({Cause::power_or_heat}, {rank});
        d.fails = table_.counts;
        d.percent = 100 * *clock;
        d.detail = "its clock is " + percent_text(*clock) + " below that of its peers, and the GPU says why";
        d.next =
            evidence_.on_host(rank, "nvidia-smi -q -i " + evidence_.gpu(rank) + " -d PERFORMANCE,TEMPERATURE,POWER");
        suspects_.push_back(std::move(d));
      } else if (shortfall >= asked_about) {
        clocks = clocks && clock.has_value();
        silicon.emplace_back(shortfall, rank);
      }
    }
    if (silicon.empty()) return;
    std::stable_sort(silicon.begin(), silicon.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<int> ranks;
    for (const auto& [shortfall, rank] : silicon) {
      if (ranks.size() < max_offenders) ranks.push_back(rank);
    }
    Diagnosis d = diagnosis(clocks ? std::vector{Cause::slow_silicon}
                                   : std::vector{Cause::slow_silicon, Cause::power_or_heat, Cause::slow_gpu},
                            ranks);
    d.fails = false;
    d.place_count = silicon.size();
    d.percent = 100 * silicon.front().first;
    d.detail = plural(silicon.size(), "GPU") + (silicon.size() == 1 ? " runs" : " run") + " GEMM " +
               percent_text(asked_about) + " or more below the median, within what healthy chips differ by" +
               (clocks ? "; per GHz they are like the others" : "; no clock was recorded that could say more");
    d.next = measure_command("gemm", context_->world_size);
    suspects_.push_back(std::move(d));
  }

  // Median over GEMMs of how far a rank's raw rate is below that of its peers; only of those who may be asked about.
  std::map<int, double> raw_shortfalls() const {
    std::vector<std::vector<double>> all(evidence_.size());
    for (const Comparison& c : table_.comparisons) {
      if (!c.kind.clocked || c.context->world_size != context_->world_size) continue;
      for (const PeerValue& v : c.values) all[static_cast<std::size_t>(v.unit.rank)].push_back(v.shortfall);
    }
    std::map<int, double> result;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank].empty()) continue;
      const double middle = median(std::move(all[rank]));
      if (middle >= low_clock) result.emplace(static_cast<int>(rank), middle);
    }
    return result;
  }

  const RankTelemetry& telemetry() const { return table_.telemetry; }

  // --- data ---

  void judge_data() {
    std::map<int, std::vector<Evidence>> wrong;
    for (const Finding& f : evidence_.findings()) {
      if (!bad(f)) continue;
      for (const int rank : f.wrong_ranks) {
        if (rank < 0 || static_cast<std::size_t>(rank) >= evidence_.size()) continue;
        wrong[rank].push_back({f.key, f.metric, f.judgement, std::nullopt, std::nullopt, std::nullopt, std::nullopt});
      }
    }
    for (auto& [rank, evidence] : wrong) {
      Diagnosis d = diagnosis({Cause::wrong_data}, {rank});
      d.detail = "its data were wrong in " + plural(evidence.size(), "benchmark");
      d.next = evidence_.on_host(rank, "nvidia-smi -q -i " + evidence_.gpu(rank) + " -d ECC,ROW_REMAPPER");
      add_evidence(d, std::move(evidence));
      suspects_.push_back(std::move(d));
    }
  }

  void sort() {
    // What is slow, by how much it is slow.
    const auto rank_of = [](const Diagnosis& d) {
      constexpr std::array others{Cause::configuration, Cause::busy_core, Cause::late_rank, Cause::slow_silicon};
      const auto other = std::find(others.begin(), others.end(), d.causes.front());
      if (other != others.end()) return 2 + (other - others.begin());
      return d.causes.front() == Cause::wrong_data ? 0L : 1L;
    };
    std::stable_sort(suspects_.begin(), suspects_.end(), [&](const Diagnosis& a, const Diagnosis& b) {
      if (a.fails != b.fails) return a.fails;
      if (rank_of(a) != rank_of(b)) return rank_of(a) < rank_of(b);
      return a.percent.value_or(0) > b.percent.value_or(0);
    });
  }

  const UnitTable& table_;
  const DividingFacts facts_;
  const RunEvidence evidence_;
  const Context* const context_;                          // null: nothing was measured
  std::set<RankPair> explained_;                          // links whose evidence a suspect has
  std::map<int, std::vector<Evidence>> ports_;            // of GPUs whose copies are slow both ways
  std::map<std::string, std::vector<int>> slow_of_host_;  // host -> ranks
  std::map<int, Diagnosis> by_rank_;
  const std::vector<Diagnosis> network_;  // suspects between hosts
  std::vector<Diagnosis> suspects_;
};

}  // namespace

std::vector<Diagnosis> diagnose(const Benchmarks& benchmarks, const UnitTable& table,
                                const std::vector<Finding>& findings, std::vector<Diagnosis> network) {
  return Investigation(benchmarks, table, findings, std::move(network)).run();
}

}  // namespace shakedown
