// Explains evidence by a GPU, a node, a link or a clock, in this order.
#include "thresholds/culprits/suspects.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/host_list.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/catalogue/wrong_sm.hpp"
#include "thresholds/culprits/common_cause.hpp"
#include "thresholds/culprits/copies.hpp"
#include "thresholds/culprits/evidence.hpp"
#include "thresholds/findings/order.hpp"
#include "thresholds/rules/profile.hpp"
#include "thresholds/units/healthy.hpp"
#include "thresholds/units/populations.hpp"

namespace shakedown {
namespace {

// If the clock is lower than that of the peers by at least this fraction, it explains a slow GEMM.
constexpr double min_clock_shortfall = 0.03;
// Chips differ by 2 to 3 %. A chip that differs by this fraction is reported, because users will ask about it.
constexpr double min_reported_shortfall = 0.075;

class Investigation {
 public:
  Investigation(const Benchmarks& benchmarks, UnitTable table, const std::vector<Finding>& findings,
                std::vector<Diagnosis> network)
      : facts_(benchmarks),
        evidence_(benchmarks, std::move(table), findings),
        context_(evidence_.context()),
        network_(std::move(network)) {}

  std::vector<Diagnosis> run() {
    if (context_ == nullptr) return {};
    SlowCopies copies(evidence_);
    judge_ranks(copies.of_gpu());
    judge_nodes(copies);
    add(copies.suspects());
    judge_clocks();
    judge_tails();
    add(network_);
    for (const auto explain : {explain_collectives, explain_missed_alike})
      suspects_ = explained(suspects_, explain(evidence_, suspects_));
    judge_lone_hosts();
    judge_data();
    sort_worst_first(suspects_);
    return std::move(suspects_);
  }

 private:
  void add(const std::vector<Diagnosis>& more) { suspects_.insert(suspects_.end(), more.begin(), more.end()); }
  const RankTelemetry& telemetry() const { return evidence_.table().telemetry; }
  bool peers_count() const { return evidence_.table().counts; }

  // --- ranks ---

  void judge_ranks(const std::map<int, std::vector<Evidence>>& copies) {
    std::set<int> ranks;
    for (const auto& [rank, evidence] : copies) ranks.insert(rank);
    for (const auto& [unit, aspects] : evidence_.units(UnitKind::gpu)) ranks.insert(unit.rank);
    for (const int rank : ranks) {
      const auto own = evidence_.failing(gpu_unit(rank));
      const bool slow_ports = copies.contains(rank);
      std::vector<Evidence> evidence = slow_ports ? copies.at(rank) : own;
      if (slow_ports) evidence.insert(evidence.end(), own.begin(), own.end());
      if (evidence.empty()) continue;
      Diagnosis d = judge_rank(rank, slow_ports && !copies.at(rank).empty());
      d.detail += facts_.hint({rank});
      d.fails = (!own.empty() && evidence_.counts(own)) || (slow_ports && peers_count());
      add_evidence(d, std::move(evidence));
      slow_of_host_[evidence_.facts(rank).host].push_back(rank);
      by_rank_.emplace(rank, std::move(d));
    }
  }

  /// Names the parts of a GPU that are slow, and those that are normal.
  Diagnosis name_slow_parts(int rank, bool gemm, bool memory, bool ports, bool on_host) const {
    const auto clock = telemetry().clock_shortfall(rank);
    Diagnosis d = evidence_.diagnosis({on_host ? Cause::busy_core : Cause::slow_gpu}, {rank});
    std::vector<std::string> slow, healthy;
    (gemm ? slow : healthy).push_back("GEMM");
    (memory ? slow : healthy).push_back(on_host ? "memory" : "HBM");
    (ports ? slow : healthy).push_back("copies to and from the GPU");
    const auto are = [](const std::vector<std::string>& parts, const char* state) {
      const bool is_one = parts.size() == 1 && !parts.front().starts_with("copies");
      return joined(parts, ", ", " and ") + (is_one ? " is " : " are ") + state;
    };
    d.detail = are(slow, "slow") + (healthy.empty() ? "" : "; " + are(healthy, "normal"));
    if (clock && *clock < min_clock_shortfall)
      d.detail += healthy.empty() ? "; the clock is normal" : ", and so is the clock";
    return d;
  }

  Diagnosis judge_rank(int rank, bool ports) const {
    const bool gemm = evidence_.is_slow(rank, Aspect::gemm), memory = evidence_.is_slow(rank, Aspect::memory);
    const auto clock = telemetry().clock_shortfall(rank);
    const bool on_host = context_->backend == Backend::host;  // a rank is a core, and its memory is that of the host
    const Cause own = on_host ? Cause::busy_core : Cause::slow_gpu;
    const std::string processes = evidence_.on_host(rank, "ps -eLo psr,pcpu,pid,comm --sort=-pcpu | head -20");
    const std::string look = on_host ? processes
                                     : evidence_.on_host(rank, "nvidia-smi -q -i " + evidence_.gpu(rank) +
                                                                   " -d PERFORMANCE,CLOCK,POWER,ECC,PIDS");
    if (gemm || memory) {
      Diagnosis d = name_slow_parts(rank, gemm, memory, ports, on_host);
      d.next = look;
      return d;
    }
    if (evidence_.is_slow(rank, Aspect::gemm_raw)) {
      const bool explained = clock && *clock >= min_clock_shortfall;
      Diagnosis d = evidence_.diagnosis(
          explained ? std::vector{Cause::power_or_heat} : std::vector{own, Cause::power_or_heat}, {rank});
      d.detail = explained ? "GEMM is slow but normal per GHz, because its clock is " + percent_text(*clock) +
                                 " below that of the peers"
                           : "GEMM is slow; its clock was not recorded";
      d.next = look;
      return d;
    }
    if (ports) {
      Diagnosis d = evidence_.diagnosis({Cause::slow_link, Cause::slow_gpu}, {rank});
      d.detail =
          "all copies to and from the GPU are slow, but GEMM and HBM are normal; the ports of the GPU are suspected";
      d.next = evidence_.on_host(rank, "nvidia-smi nvlink -s -i " + evidence_.gpu(rank));
      return d;
    }
    if (evidence_.is_slow(rank, Aspect::pcie)) {
      Diagnosis d = evidence_.diagnosis({Cause::slow_link}, {rank});
      d.detail = "copies between the GPU and host memory are slow; the PCIe link is suspected";
      d.next = evidence_.on_host(rank, "nvidia-smi -q -i " + evidence_.gpu(rank) + " | grep -A12 'GPU Link Info'");
      return d;
    }
    if (evidence_.is_slow(rank, Aspect::processor)) {
      Diagnosis d = evidence_.diagnosis({Cause::busy_core}, {rank});
      d.detail = "the CPU core that feeds the GPU is busy or slow" + taken_from(rank) + "; the GPU is normal";
      d.next = processes;
      return d;
    }
    if (evidence_.is_slow(rank, Aspect::storage)) {
      Diagnosis d = evidence_.diagnosis({Cause::slow_node}, {rank});
      d.detail = "its host reads or writes the shared storage more slowly than the other hosts";
      d.next = evidence_.on_host(rank, "mount; nfsstat -m");
      return d;
    }
    Diagnosis d = evidence_.diagnosis({own}, {rank});
    d.detail = "it is slower than its peers";
    d.next = look;
    return d;
  }

  // Returns the program that used the core of a rank during the measurement, if the kernel reports it.
  std::string taken_from(int rank) const {
    for (const auto& [key, benchmark] : evidence_.benchmarks()) {
      if (key.family() != "jitter" || benchmark.error() != nullptr || benchmark.waiver() != nullptr) continue;
      const auto of = [&](const char* metric) {
        const auto values = rank_values(benchmark, metric);
        return static_cast<std::size_t>(rank) < values.size() ? values[static_cast<std::size_t>(rank)] : std::nullopt;
      };
      const auto stolen = of("stolen"), waited = of("waited");
      if (!stolen || *stolen < min_clock_shortfall) continue;
      return ": the core did other work for " + percent_text(*stolen) + " of the time, " +
             (!waited                  ? "the process is unknown"
              : *waited >= *stolen / 2 ? "other threads used it"
                                       : "no other thread used it, so interrupts, firmware or a hypervisor did");
    }
    return "";
  }

  // --- nodes ---

  // A host is at fault if nearly all of its ranks are slow, or if even its better ranks are slow.
  void judge_nodes(SlowCopies& copies) {
    if (evidence_.ranks_of().size() > 1) {
      std::set<std::string> suspects;
      for (const auto& [host, ranks] : slow_of_host_) suspects.insert(host);
      for (const auto& [unit, aspects] : evidence_.units(UnitKind::host))
        suspects.insert(evidence_.facts(unit.rank).host);
      for (const std::string& host : suspects) judge_node(host, copies);
    }
    for (auto& [rank, d] : by_rank_) suspects_.push_back(std::move(d));
  }

  void judge_node(const std::string& host, SlowCopies& copies) {
    const auto& ranks = evidence_.ranks_of().at(host);
    const auto slow_ranks = slow_of_host_.contains(host) ? slow_of_host_.at(host) : std::vector<int>{};
    const bool nearly = slow_ranks.size() > 1 &&
                        static_cast<double>(slow_ranks.size()) >= nearly_all_share * static_cast<double>(ranks.size());
    const auto& whole = evidence_.shown(host_unit(ranks.front()), Aspect::other).failing;
    const auto& own = evidence_.shown(host_unit(ranks.front()), Aspect::collective).failing;
    // The AllReduce inside a host is as slow as its slowest GPU or link. If one of them is an outlier, it is the cause.
    const bool only_own = !own.empty() && slow_ranks.empty() && whole.empty() && !copies.has_open(host);
    if (!nearly && whole.empty() && !only_own) return;
    std::vector<Evidence> evidence = whole;
    evidence.insert(evidence.end(), own.begin(), own.end());
    bool clocks = nearly, fails = (!whole.empty() || only_own) && peers_count();
    std::vector<Key> keys;
    // If only some GPUs of a host are slow, these GPUs are at fault and not the host.
    for (const int rank : nearly ? slow_ranks : std::vector<int>{}) {
      const Diagnosis& d = by_rank_.at(rank);
      clocks = clocks && d.causes.front() == Cause::power_or_heat;
      fails = fails || d.fails;
      if (whole.empty()) evidence.insert(evidence.end(), d.evidence.begin(), d.evidence.end());
      keys.insert(keys.end(), d.keys.begin(), d.keys.end());
      by_rank_.erase(rank);
    }
    copies.explain(host);
    Diagnosis d = evidence_.diagnosis(clocks     ? std::vector{Cause::power_or_heat, Cause::slow_node}
                                      : only_own ? std::vector{Cause::slow_node, Cause::configuration}
                                                 : std::vector{Cause::slow_node},
                                      ranks);
    d.fails = fails;
    d.places = {host_culprit(host)};
    d.place_count = 1;
    d.detail = nearly ? std::to_string(slow_ranks.size()) + " of its " + plural(ranks.size(), "rank") + " are outliers"
               : only_own ? "the GPUs and links of the host are normal"
                          : "the ranks of the host are slower than those of the other hosts";
    d.detail += alone(host) + facts_.hint(ranks);
    d.heat = std::ranges::any_of(ranks, [&](int rank) { return telemetry().hot(rank); });
    d.next = command_on(host, ranks.size(), evidence.empty() ? "gemm" : evidence.front().key.family());
    add_evidence(d, std::move(evidence));
    d.keys.insert(d.keys.end(), keys.begin(), keys.end());
    suspects_.push_back(std::move(d));
  }

  // Says whether the AllReduce inside a host is also slow, which shows whether the node or the network is at fault.
  std::string alone(const std::string& host) const {
    bool measured = false, slow = false;
    for (const Comparison& c : evidence_.table().comparisons) {
      if (c.key.part("scope") != "node") continue;
      for (const PeerValue& v : c.values) {
        if (evidence_.facts(v.unit.rank).host != host) continue;
        measured = true;
        slow = slow || v.out;
      }
    }
    if (!measured) return "";
    return slow ? "; the AllReduce inside the host is also slow, so the node is at fault and not the network"
                : "; the AllReduce inside the host is normal";
  }

  // Adds hosts that are slightly slower and are the only hosts with another value of a fact, such as the VBIOS. Either
  // the host or that fact may make them slower.
  void judge_lone_hosts() {
    for (const Population& p : evidence_.table().populations) {
      if (!p.host) continue;
      const auto& ranks = evidence_.ranks_of().at(*p.host);
      if (is_named(suspects_, evidence_.facts(ranks.front()))) continue;
      Diagnosis d = evidence_.diagnosis({Cause::slow_node}, ranks);
      d.fails = false;
      d.places = {host_culprit(*p.host)};
      d.place_count = 1;
      d.percent = 100 * p.difference;
      d.detail = std::to_string(p.slower_gpus) + " of its " + plural(ranks.size(), "rank") + " are " +
                 percent_text(p.difference) + " slower in " + p.class_name.family() + " than those of the other hosts" +
                 facts_.hint(ranks);
      d.next = command_on(*p.host, ranks.size(), p.class_name.family());
      suspects_.push_back(std::move(d));
    }
  }

  static std::string command_on(const std::string& host, std::size_t ranks, const std::string& family) {
    return "mpirun -np " + std::to_string(ranks) + " --host " + host_in_command(host) + ":" + std::to_string(ranks) +
           " build/bench/bench_" + family;
  }

  // --- clocks ---

  // Explains a low clock with normal GEMM per GHz. The cause is heat or the power supply if the GPU reports it, else
  // the chip.
  void judge_clocks() {
    std::vector<std::pair<double, int>> silicon;
    bool clocks = true;
    const bool all_held_back = telemetry().most_held_back(evidence_.size());
    for (const auto& [rank, shortfall] : raw_shortfalls()) {
      if (is_named(suspects_, evidence_.facts(rank))) continue;
      const auto clock = telemetry().clock_shortfall(rank);
      if (clock && *clock >= min_clock_shortfall && telemetry().held_back(rank) && !all_held_back) {
        Diagnosis d = evidence_.diagnosis({Cause::power_or_heat}, {rank});
        d.fails = peers_count();
        d.percent = 100 * *clock;
        d.detail =
            "its clock is " + percent_text(*clock) + " below that of its peers, and the driver reports the reason";
        d.next =
            evidence_.on_host(rank, "nvidia-smi -q -i " + evidence_.gpu(rank) + " -d PERFORMANCE,TEMPERATURE,POWER");
        suspects_.push_back(std::move(d));
      } else if (shortfall >= min_reported_shortfall) {
        clocks = clocks && clock.has_value();
        silicon.emplace_back(shortfall, rank);
      }
    }
    if (silicon.empty()) return;
    const auto count = silicon.size();
    const auto distance = distance_text(silicon);
    Diagnosis d = slow_chips(std::move(silicon),
                             clocks ? std::vector{Cause::slow_silicon}
                                    : std::vector{Cause::slow_silicon, Cause::power_or_heat, Cause::slow_gpu});
    d.detail = plural(count, "GPU") + (count == 1 ? " runs" : " run") + " GEMM " +
               percent_text(min_reported_shortfall) + " or more below the median, " + distance +
               (clocks ? "; per GHz they are normal" : "; their clocks were not recorded");
    suspects_.push_back(std::move(d));
  }

  // Returns chips with these shortfalls as a suspect that does not fail the run, the slowest first.
  Diagnosis slow_chips(std::vector<std::pair<double, int>> chips, std::vector<Cause> causes) const {
    std::stable_sort(chips.begin(), chips.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<int> ranks;
    for (const auto& [shortfall, rank] : chips) {
      if (ranks.size() < max_offenders) ranks.push_back(rank);
    }
    Diagnosis d = evidence_.diagnosis(std::move(causes), ranks);
    d.fails = false;
    d.place_count = chips.size();
    d.percent = 100 * chips.front().first;
    d.next = measure_command("gemm", context_->world_size);
    return d;
  }

  // Says whether chips with these shortfalls are within the variation of a run of this size.
  std::string distance_text(const std::vector<std::pair<double, int>>& silicon) const {
    const double limit = slowest_of(evidence_.size(), true);
    const auto farther = std::ranges::count_if(silicon, [&](const auto& of) { return of.first > limit; });
    if (farther == 0) return "within the variation of chips";
    const std::string which = silicon.size() == 1 ? "" : std::to_string(farther) + " of them ";
    return which + "farther than chips of a run of this size usually are";
  }

  // Returns the median shortfall of a rank's raw rate over all GEMMs, only for ranks about which users will ask.
  std::map<int, double> raw_shortfalls() const {
    std::vector<std::vector<double>> all(evidence_.size());
    for (const Comparison& c : evidence_.table().comparisons) {
      if (!c.kind.clocked || c.context->world_size != context_->world_size) continue;
      for (const PeerValue& v : c.values) all[static_cast<std::size_t>(v.unit.rank)].push_back(v.shortfall);
    }
    std::map<int, double> result;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank].empty()) continue;
      const double middle = median(std::move(all[rank]));
      if (middle >= min_clock_shortfall) result.emplace(static_cast<int>(rank), middle);
    }
    return result;
  }

  // Adds GPUs whose work per clock, or memory, is slower than that of their peers, but not slower than healthy GPUs may
  // be. Users look at these first if a job is slow.
  void judge_tails() {
    std::map<std::string, std::map<int, double>> by_family;  // by rank: the largest shortfall
    for (const Column& column : evidence_.table().columns) {
      if (column.kind.class_effect >= column.kind.effect || column.context->world_size != context_->world_size)
        continue;
      // In classes of few rows, larger limits are not because of the variation of healthy GPUs.
      if (!column.name.part("engine").empty()) continue;
      for (const Cell& cell : column.cells) {
        if (cell.out || cell.rows < 2 || cell.shortfall <= column.warning_limit) continue;
        double& shortfall = by_family[column.name.family()][cell.unit.rank];
        shortfall = std::max(shortfall, cell.shortfall);
      }
    }
    std::vector<Diagnosis> tails;
    for (const auto& [family, shortfalls] : by_family) {
      std::vector<std::pair<double, int>> chips;
      for (const auto& [rank, shortfall] : shortfalls) {
        if (!is_named(suspects_, evidence_.facts(rank))) chips.emplace_back(shortfall, rank);
      }
      if (!chips.empty()) tails.push_back(tail_of(family, std::move(chips)));
    }
    add(tails);
  }

  // Describes GPUs that have these shortfalls in a family and are warnings.
  Diagnosis tail_of(const std::string& family, std::vector<std::pair<double, int>> chips) const {
    std::vector<int> ranks;
    for (const auto& [shortfall, rank] : chips) ranks.push_back(rank);
    Diagnosis d = slow_chips(std::move(chips), {Cause::slow_silicon});
    const bool is_memory = family == "hbm";
    d.detail = fmt::format("{} of {} is up to {} below the median, {}{}", is_memory ? "memory" : "GEMM per GHz",
                           plural(d.place_count, "GPU"), percent_text(*d.percent / 100),
                           is_memory ? "as that of healthy GPUs may be: another make of memory, or remapped rows"
                                     : fmt::format("within the tails of {} healthy chips", context_->world_size),
                           facts_.hint(ranks));
    d.next = measure_command(family, context_->world_size);
    return d;
  }

  // --- data ---

  void judge_data() {
    std::map<int, std::vector<Evidence>> wrong;
    std::map<int, std::set<int>> sms;  // by rank
    for (const Finding& f : evidence_.findings()) {
      if (!bad(f)) continue;
      for (const int rank : f.wrong_ranks) {
        if (rank < 0 || static_cast<std::size_t>(rank) >= evidence_.size()) continue;
        wrong[rank].push_back({f.key, f.metric, f.judgement, std::nullopt, std::nullopt, std::nullopt, std::nullopt});
        if (const auto sm = wrong_sm(f.key, rank)) sms[rank].insert(*sm);
      }
    }
    for (auto& [rank, evidence] : wrong) {
      Diagnosis d = evidence_.diagnosis({Cause::wrong_data}, {rank});
      d.detail = "it had wrong data in " + plural(evidence.size(), "benchmark");
      const char* word = context_->backend == Backend::host ? "worker " : "SM ";
      for (const int sm : sms[rank])
        d.detail += (sm == *sms[rank].begin() ? ", computed by " : ", ") + (word + std::to_string(sm));
      d.next = evidence_.on_host(rank, "nvidia-smi -q -i " + evidence_.gpu(rank) + " -d ECC,ROW_REMAPPER");
      add_evidence(d, std::move(evidence));
      suspects_.push_back(std::move(d));
    }
  }

  /// Returns the SM of this rank with wrong data in a failed row.
  std::optional<int> wrong_sm(const Key& key, int rank) const {
    const auto benchmark = evidence_.benchmarks().find(key);
    if (benchmark == evidence_.benchmarks().end()) return std::nullopt;
    for (const Row* row : benchmark->second.rows) {
      const auto values = row->by_rank.find(std::string(wrong_sm_metric));
      if (values == row->by_rank.end()) continue;
      constexpr double max_sms = 1024;  // a result file can have any number
      const auto sm = values->second[static_cast<std::size_t>(rank)];
      if (sm && *sm >= 0 && *sm < max_sms) return static_cast<int>(*sm);
    }
    return std::nullopt;
  }

  const DividingFacts facts_;
  const RunEvidence evidence_;
  const Context* const context_;                          // null if nothing was measured
  std::map<std::string, std::vector<int>> slow_of_host_;  // by host: its slow ranks
  std::map<int, Diagnosis> by_rank_;
  const std::vector<Diagnosis> network_;  // suspects between hosts
  std::vector<Diagnosis> suspects_;
};

}  // namespace

std::vector<Diagnosis> diagnose(const Benchmarks& benchmarks, UnitTable table, const std::vector<Finding>& findings,
                                std::vector<Diagnosis> network) {
  return Investigation(benchmarks, std::move(table), findings, std::move(network)).run();
}

}  // namespace shakedown
