// Decides what is at fault. Tested by tests/culprit_test.cpp and, on generated clusters, by tests/simulate_test.cpp.
#include "thresholds/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "thresholds/machine.hpp"
#include "thresholds/metrics.hpp"
#include "thresholds/profile.hpp"
#include "thresholds/rank_telemetry.hpp"
#include "thresholds/suspects.hpp"

namespace shakedown {
namespace {

// A clock that is lower than the peers' by this much explains a slow GEMM.
constexpr double low_clock = 0.03;
// Chips differ by 2 to 3 %; from three times that on somebody will ask about one.
constexpr double asked_about = 0.075;

// A rank that comes later than the others by this much, and by eight MADs, is late.
constexpr double late_us = 50, late_mads = 8;
constexpr std::size_t enough_barriers = 3;

double strength(const Evidence& e) { return e.percent.value_or(0); }

void add_evidence(Diagnosis& d, std::vector<Evidence> evidence) {
  std::stable_sort(evidence.begin(), evidence.end(),
                   [](const Evidence& a, const Evidence& b) { return strength(a) > strength(b); });
  d.evidence_count = evidence.size();
  if (!evidence.empty()) {
    d.percent = evidence.front().percent;
    for (const Evidence& e : evidence) {
      if (e.mads && (!d.mads || *e.mads > *d.mads)) d.mads = e.mads;
    }
  }
  if (evidence.size() > max_evidence) evidence.resize(max_evidence);
  d.evidence = std::move(evidence);
}

class Investigation {
 public:
  Investigation(const Benchmarks& benchmarks, const PeerComparison& peers, const std::vector<Finding>& findings)
      : benchmarks_(benchmarks),
        peers_(peers),
        findings_(findings),
        telemetry_(benchmarks),
        against_(benchmarks, peers, findings),
        context_(against_.context()) {}

  std::vector<Diagnosis> run() {
    if (context_ == nullptr) return {};
    for (const auto& [family, findings] : against_.alike) blame_everything(family, findings);
    judge_ranks();
    judge_nodes();
    judge_links();
    judge_clocks();
    judge_collectives();
    judge_data();
    sort();
    return std::move(culprits_);
  }

 private:
  // --- ranks ---

  Culprit place(int rank) const { return culprit(against_.facts(rank)); }

  std::string gpu(int rank) const {
    const RankFacts& f = against_.facts(rank);
    return f.uuid ? *f.uuid : f.pci ? *f.pci : std::to_string(f.local_rank);
  }

  std::string on_host(int rank, const std::string& command) const {
    return "ssh " + against_.facts(rank).host + " " + command;
  }

  Diagnosis diagnosis(std::vector<Cause> causes, const std::vector<int>& ranks) const {
    Diagnosis d;
    d.causes = std::move(causes);
    for (const int rank : ranks) d.places.push_back(place(rank));
    d.place_count = ranks.size();
    if (!ranks.empty()) d.telemetry = telemetry_.text(ranks.front());
    d.heat = !ranks.empty() && telemetry_.hot(ranks.front());
    return d;
  }

  void judge_ranks() {
    for (auto& [rank, the_case] : against_.cases) {
      std::vector<Evidence> evidence = the_case.links;
      std::size_t failing = the_case.links.size();
      for (const auto& [aspect, list] : the_case.failing) {
        evidence.insert(evidence.end(), list.begin(), list.end());
        failing += list.size();
      }
      if (failing == 0) continue;
      Diagnosis d = judge_rank(rank, the_case);
      d.fails = the_case.accuses;
      add_evidence(d, std::move(evidence));
      accused_[against_.facts(rank).host].push_back(rank);
      by_rank_.emplace(rank, std::move(d));
    }
  }

  Diagnosis judge_rank(int rank, const GpuCase& the_case) const {
    const bool gemm = against_.is_slow(rank, Aspect::gemm), memory = against_.is_slow(rank, Aspect::memory);
    const bool raw = against_.is_slow(rank, Aspect::gemm_raw), ports = !the_case.links.empty();
    const auto clock = telemetry_.clock_shortfall(rank);
    const std::string look =
        context_->backend == "host"
            ? measure_command("gemm", context_->world_size)
            : on_host(rank, "nvidia-smi -q -i " + gpu(rank) + " -d PERFORMANCE,CLOCK,POWER,ECC,PIDS");
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
      d.next = on_host(rank, "nvidia-smi nvlink -s -i " + gpu(rank));
      return d;
    }
    if (against_.is_slow(rank, Aspect::pcie)) {
      Diagnosis d = diagnosis({Cause::slow_link}, {rank});
      d.detail = "copies between it and its host's memory are slow: its PCIe link";
      d.next = on_host(rank, "nvidia-smi -q -i " + gpu(rank) + " | grep -A12 'GPU Link Info'");
      return d;
    }
    Diagnosis d = diagnosis({Cause::slow_gpu}, {rank});
    d.detail = "it falls short in what its peers reach";
    d.next = look;
    return d;
  }

  // --- nodes ---

  // A host is at fault where nearly all of its ranks are, or where even its better ranks are slow.
  void judge_nodes() {
    if (against_.ranks_of().size() > 1) {
      std::set<std::string> suspects;
      for (const auto& [host, ranks] : accused_) suspects.insert(host);
      for (const auto& [host, evidence] : against_.hosts) suspects.insert(host);
      for (const auto& [host, evidence] : against_.own_allreduce) suspects.insert(host);
      for (const std::string& host : suspects) judge_node(host);
    }
    for (auto& [rank, d] : by_rank_) culprits_.push_back(std::move(d));
  }

  void judge_node(const std::string& host) {
    const auto& ranks = against_.ranks_of().at(host);
    const auto accused = accused_.find(host);
    const std::size_t slow = accused == accused_.end() ? 0 : accused->second.size();
    const auto whole = against_.hosts.find(host);
    const bool nearly = slow > 1 && static_cast<double>(slow) >= nearly_all * static_cast<double>(ranks.size());
    const auto own = against_.own_allreduce.find(host);
    // The AllReduce of a host is as slow as the slowest of its GPUs and links: where one of them is accused, it is
    // that.
    const bool only_own =
        own != against_.own_allreduce.end() && slow == 0 && whole == against_.hosts.end() && !has_slow_link(host);
    if (!nearly && whole == against_.hosts.end() && !only_own) return;
    std::vector<Evidence> evidence;
    if (whole != against_.hosts.end()) evidence = whole->second;
    if (own != against_.own_allreduce.end()) evidence.insert(evidence.end(), own->second.begin(), own->second.end());
    bool clocks = slow > 0, accuses = (whole != against_.hosts.end() || only_own) && peers_.counts;
    if (accused != accused_.end()) {
      for (const int rank : accused->second) {
        const Diagnosis& d = by_rank_.at(rank);
        clocks = clocks && d.causes.front() == Cause::power_or_heat;
        accuses = accuses || d.fails;
        if (whole == against_.hosts.end()) evidence.insert(evidence.end(), d.evidence.begin(), d.evidence.end());
        by_rank_.erase(rank);
      }
    }
    for (auto& [pair, link] : against_.links) {
      if (against_.facts(pair.second).host == host) link.failing.clear();
    }
    Diagnosis d;
    d.causes = clocks     ? std::vector{Cause::power_or_heat, Cause::slow_node}
               : only_own ? std::vector{Cause::slow_node, Cause::configuration}
                          : std::vector{Cause::slow_node};
    d.fails = accuses;
    Culprit place;
    place.host = host;
    d.places = {place};
    d.place_count = 1;
    d.detail = slow > 0   ? std::to_string(slow) + " of its " + plural(ranks.size(), "rank") + " stand out"
               : only_own ? "its GPUs and links are like those of the other hosts"
                          : "its ranks are slower than those of the other hosts";
    if (const auto within = alone(host)) d.detail += *within;
    d.telemetry = telemetry_.text(ranks.front());
    d.heat = std::any_of(ranks.begin(), ranks.end(), [&](int rank) { return telemetry_.hot(rank); });
    d.next = "mpirun -np " + std::to_string(ranks.size()) + " --host " + host + ":" + std::to_string(ranks.size()) +
             " build/bench/bench_" + (evidence.empty() ? "gemm" : family_of(evidence.front().key));
    add_evidence(d, std::move(evidence));
    culprits_.push_back(std::move(d));
  }

  bool has_slow_link(const std::string& host) const {
    return std::any_of(against_.links.begin(), against_.links.end(), [&](const auto& link) {
      return !link.second.failing.empty() && against_.facts(link.first.second).host == host;
    });
  }

  // What the AllReduce inside each host says of this one: it separates the node from the network.
  std::optional<std::string> alone(const std::string& host) const {
    bool measured = false, slow = false;
    for (const Comparison& c : peers_.comparisons) {
      if (key_part(c.key, "scope") != "node") continue;
      for (const PeerValue& v : c.values) {
        if (against_.facts(v.rank).host != host) continue;
        measured = true;
        slow = slow || c.outlier(v);
      }
    }
    if (!measured) return std::nullopt;
    return slow ? "; its own AllReduce is slow too: the node, not the network"
                : "; its own AllReduce is as fast as that of the others";
  }

  // --- links ---

  void judge_links() {
    for (const auto& [host, ranks] : against_.ranks_of()) {
      if (ranks.size() < 3) continue;
      for (const int rank : ranks) {
        judge_side(rank, true);
        judge_side(rank, false);
      }
    }
    for (auto& [pair, link] : against_.links) {
      if (link.failing.empty()) continue;
      const auto back = against_.links.find({pair.second, pair.first});
      const bool both = back != against_.links.end() && !back->second.failing.empty();
      const bool only_two = against_.neighbours(pair.second).size() == 2;
      Diagnosis d =
          diagnosis(both && only_two ? std::vector{Cause::slow_link, Cause::slow_gpu} : std::vector{Cause::slow_link},
                    {pair.first, pair.second});
      d.telemetry.clear();
      d.fails = accuses(link.failing);
      std::vector<Evidence> evidence = std::move(link.failing);
      if (both) {
        evidence.insert(evidence.end(), back->second.failing.begin(), back->second.failing.end());
        back->second.failing.clear();
      }
      link.failing.clear();
      const std::string ends = "from local GPU " + std::to_string(against_.facts(pair.first).local_rank) + " to " +
                               std::to_string(against_.facts(pair.second).local_rank);
      d.detail = both ? "copies between the two are slow in both directions" +
                            std::string(only_two ? "; with two GPUs the link and either GPU look alike" : "")
                      : "copies " + ends + " are slow, other copies of both are not";
      d.next = on_host(pair.first, "nvidia-smi nvlink -e -i " + gpu(pair.first));
      add_evidence(d, std::move(evidence));
      culprits_.push_back(std::move(d));
    }
  }

  // All copies out of a GPU, or all into it.
  void judge_side(int rank, bool out) {
    const auto side = against_.share(rank, out);
    if (side.all < 2 || !side.nearly()) return;
    std::vector<Evidence> evidence;
    against_.take_links(rank, out, !out, evidence);
    if (evidence.empty()) return;
    Diagnosis d = diagnosis({Cause::slow_link, Cause::slow_gpu}, {rank});
    d.fails = accuses(evidence);
    d.detail = out ? "every copy out of it is slow, copies into it are not"
                   : "every copy into it is slow, copies out of it are not";
    d.next = on_host(rank, "nvidia-smi nvlink -e -i " + gpu(rank));
    add_evidence(d, std::move(evidence));
    culprits_.push_back(std::move(d));
  }

  bool accuses(const std::vector<Evidence>& evidence) const {
    return peers_.counts ||
           std::any_of(evidence.begin(), evidence.end(), [](const Evidence& e) { return e.by != Judgement::peers; });
  }

  // --- clocks ---

  // Healthy GEMM per GHz at a low clock: heat or the supply if the GPU says so, else the chip.
  void judge_clocks() {
    std::vector<std::pair<double, int>> silicon;
    bool clocks = true;
    for (const auto& [rank, shortfall] : raw_shortfalls()) {
      if (named(rank)) continue;
      const auto clock = telemetry_.clock_shortfall(rank);
      if (clock && *clock >= low_clock && telemetry_.held_back(rank) && !all_held_back()) {
        Diagnosis d = diagnosis({Cause::power_or_heat}, {rank});
        d.fails = peers_.counts;
        d.percent = 100 * *clock;
        d.detail = "its clock is " + percent_text(*clock) + " below that of its peers, and the GPU says why";
        d.next = on_host(rank, "nvidia-smi -q -i " + gpu(rank) + " -d PERFORMANCE,TEMPERATURE,POWER");
        culprits_.push_back(std::move(d));
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
    culprits_.push_back(std::move(d));
  }

  // Median over GEMMs of how far a rank's raw rate is below that of its peers; only of those who may be asked about.
  std::map<int, double> raw_shortfalls() const {
    std::vector<std::vector<double>> all(against_.size());
    for (const Comparison& c : peers_.comparisons) {
      if (!c.kind.clocked || c.context->world_size != context_->world_size) continue;
      for (const PeerValue& v : c.values) all[static_cast<std::size_t>(v.rank)].push_back(v.shortfall);
    }
    std::map<int, double> result;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank].empty()) continue;
      const double middle = median(std::move(all[rank]));
      if (middle >= low_clock) result.emplace(static_cast<int>(rank), middle);
    }
    return result;
  }

  bool named(int rank) const {
    return std::any_of(culprits_.begin(), culprits_.end(), [&](const Diagnosis& d) {
      return d.causes.front() != Cause::slow_silicon &&
             std::any_of(d.places.begin(), d.places.end(), [&](const Culprit& p) {
               return p.rank ? *p.rank == rank : p.host == against_.facts(rank).host;
             });
    });
  }

  bool all_held_back() const {
    if (!all_held_back_) {
      std::size_t held = 0;
      for (std::size_t rank = 0; rank < against_.size(); ++rank)
        held += telemetry_.held_back(static_cast<int>(rank)) ? 1 : 0;
      all_held_back_ = static_cast<double>(held) > most * static_cast<double>(against_.size());
    }
    return *all_held_back_;
  }

  // --- what concerns everybody ---

  void blame_everything(const std::string& family, const std::vector<const Finding*>& findings) {
    Diagnosis d;
    d.causes = {Cause::configuration, Cause::power_or_heat};
    std::vector<Evidence> evidence;
    for (const Finding* f : findings) {
      const bool low_is_good = f->limit_name == "max";
      const double by = low_is_good ? *f->value / *f->limit - 1 : 1 - *f->value / *f->limit;
      evidence.push_back({f->key, f->metric, f->judgement, f->value, f->limit, 100 * by, std::nullopt});
    }
    d.place_count = against_.size();
    d.detail = "most of the " + plural(against_.size(), "rank") + " miss the limits of " + family +
               " alike: what they share, not one of them" + settings();
    if (against_.size() > 0) d.telemetry = telemetry_.text(0);
    d.next = measure_command(family, context_->world_size);
    add_evidence(d, std::move(evidence));
    culprits_.push_back(std::move(d));
  }

  // Settings that are known to make collectives and copies slow, as far as the run recorded them.
  std::string settings() const {
    std::vector<std::string> set;
    for (const auto& [variable, value] : context_->environment) {
      const bool place = variable == "NCCL_DEBUG_FILE" || variable == "NCCL_DEBUG" || variable == "NCCL_HOSTID";
      if (variable.rfind("NCCL_", 0) == 0 && !place) set.push_back(variable + "=" + value);
    }
    if (context_->nccl.nvls) set.push_back("NVLS " + *context_->nccl.nvls);
    if (context_->nccl.transport) set.push_back("transport " + *context_->nccl.transport);
    return set.empty() ? "" : "; set: " + joined(set);
  }

  void judge_collectives() {
    std::vector<Evidence> slow;
    for (const Finding& f : findings_) {
      if (!bad(f) || f.status != Status::fail || !f.value || !f.limit || f.judgement == Judgement::peers) continue;
      const bool step = f.judgement == Judgement::crosscheck && family_of(f.key) == "lora_step";
      if (!is_collective(family_of(f.key)) && !step) continue;
      const bool low_is_good = f.limit_name == "max";
      slow.push_back({f.key, f.metric, f.judgement, f.value, f.limit,
                      100 * (low_is_good ? *f.value / *f.limit - 1 : 1 - *f.value / *f.limit), std::nullopt});
    }
    const auto late = late_rank();
    if (late) {
      Diagnosis d = diagnosis({Cause::late_rank}, {late->first});
      d.fails = !slow.empty();
      d.detail =
          late->second + (named(late->first) ? "" : "; its GPU is as fast as the others") + ": look at its processor";
      d.next = on_host(late->first, "top -b -n 1 -1 | head -40");
      if (d.fails) add_evidence(d, std::move(slow));
      culprits_.push_back(std::move(d));
      return;
    }
    if (slow.empty()) return;
    for (Diagnosis& d : culprits_) {
      const Cause cause = d.causes.front();
      if (!d.fails || cause == Cause::configuration || cause == Cause::slow_silicon) continue;
      // Its victims are slower by what it is slow; a collective that is slower by far has another cause.
      if (d.percent.value_or(0) * 2 <
          strength(*std::max_element(slow.begin(), slow.end(),
                                     [](const Evidence& a, const Evidence& b) { return strength(a) < strength(b); }))) {
        continue;
      }
      d.detail += "; " + slow.front().key + " is slow as well, as it must be";
      return;
    }
    blame_configuration(std::move(slow));
  }

  void blame_configuration(std::vector<Evidence> slow) {
    const bool several = against_.ranks_of().size() > 1;
    Diagnosis d;
    d.causes = {Cause::configuration};
    bool inside = false;  // each host's own AllReduce was measured, and nobody stands out
    for (const Comparison& c : peers_.comparisons) inside = inside || key_part(c.key, "scope") == "node";
    const bool links = std::any_of(peers_.comparisons.begin(), peers_.comparisons.end(),
                                   [](const Comparison& c) { return family_of(c.key) == "p2p"; });
    if (several) d.causes.push_back(Cause::slow_link);
    d.place_count = against_.size();
    d.detail = std::string("ranks wait for each other longer than ") + (links ? "their links explain" : "expected") +
               ", and nobody is late: " +
               (several ? inside ? "each host alone is fine, so the network between them, or how it is used"
                                 : "the network between hosts, or how it is used"
                        : "the algorithm or the transport") +
               settings();
    const auto key = slow.front().key;
    d.next = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING " + measure_command(key, context_->world_size);
    add_evidence(d, std::move(slow));
    culprits_.push_back(std::move(d));
  }

  // In a collective the late rank waits least and its victims most; and every benchmark begins with a barrier. Late is
  // only who arrives late: a rank that waits least for another reason is as innocent as the network makes it look.
  std::optional<std::pair<int, std::string>> late_rank() const {
    std::map<int, std::size_t> late, blamed;
    std::map<int, std::vector<double>> delays;
    std::size_t barriers = 0, collectives = 0;
    for (const auto& [key, benchmark] : benchmarks_) {
      if (benchmark.context->world_size != context_->world_size || against_.size() < 2) continue;
      if (benchmark.error() != nullptr || benchmark.waiver() != nullptr) continue;
      if (const auto arrival = known(rank_values(benchmark, "arrival_us")); arrival.size() > 1) {
        ++barriers;
        const Late limit = late_limit(arrival);
        for (const auto& [rank, delay] : arrival) {
          if (delay <= limit.us) continue;
          ++late[rank];
          delays[rank].push_back(delay - limit.centre);
        }
      }
      if (!is_collective(family_of(key))) continue;
      ++collectives;
      if (const auto rank = rank_to_blame(benchmark)) ++blamed[*rank];
    }
    for (const auto& [rank, times] : late) {
      if (barriers < enough_barriers || static_cast<double>(times) <= most * static_cast<double>(barriers)) continue;
      return std::pair(rank, "comes " + fmt::format("{:.0f}", median(delays[rank])) + " us after the others to " +
                                 std::to_string(times) + " of " + plural(barriers, "benchmark"));
    }
    for (const auto& [rank, times] : blamed) {
      if (collectives < enough_barriers || static_cast<double>(times) <= most * static_cast<double>(collectives))
        continue;
      return std::pair(rank, "waits least in " + std::to_string(times) + " of " + plural(collectives, "collective") +
                                 ": the others wait for it");
    }
    return std::nullopt;
  }

  struct Late {
    double centre, us;
  };

  static Late late_limit(const std::vector<std::pair<int, double>>& arrival) {
    std::vector<double> values;
    for (const auto& [rank, delay] : arrival) values.push_back(delay);
    if (values.size() == 2) return {std::min(values[0], values[1]), std::min(values[0], values[1]) + late_us};
    const double centre = median(values);
    for (double& value : values) value = std::abs(value - centre);
    return {centre, centre + std::max(late_us, late_mads * 1.4826 * median(std::move(values)))};
  }

  static std::vector<std::pair<int, double>> known(const std::vector<std::optional<double>>& values) {
    std::vector<std::pair<int, double>> result;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i]) result.emplace_back(static_cast<int>(i), *values[i]);
    }
    return result;
  }

  // --- data ---

  void judge_data() {
    std::map<int, std::vector<Evidence>> wrong;
    for (const Finding& f : findings_) {
      if (!bad(f)) continue;
      for (const int rank : f.wrong_ranks) {
        if (rank < 0 || static_cast<std::size_t>(rank) >= against_.size()) continue;
        wrong[rank].push_back({f.key, f.metric, f.judgement, std::nullopt, std::nullopt, std::nullopt, std::nullopt});
      }
    }
    for (auto& [rank, evidence] : wrong) {
      Diagnosis d = diagnosis({Cause::wrong_data}, {rank});
      d.detail = "its data were wrong in " + plural(evidence.size(), "benchmark");
      d.next = on_host(rank, "nvidia-smi -q -i " + gpu(rank) + " -d ECC,ROW_REMAPPER");
      add_evidence(d, std::move(evidence));
      culprits_.push_back(std::move(d));
    }
  }

  void sort() {
    const auto order = [](const Diagnosis& d) {
      switch (d.causes.front()) {
        case Cause::wrong_data: return 0;
        case Cause::slow_node: return 1;
        case Cause::slow_gpu: return 2;
        case Cause::slow_link: return 3;
        case Cause::power_or_heat: return 4;
        case Cause::configuration: return 5;
        case Cause::late_rank: return 6;
        case Cause::slow_silicon: return 7;
      }
      return 8;
    };
    std::stable_sort(culprits_.begin(), culprits_.end(), [&](const Diagnosis& a, const Diagnosis& b) {
      if (a.fails != b.fails) return a.fails;
      if (order(a) != order(b)) return order(a) < order(b);
      return a.percent.value_or(0) > b.percent.value_or(0);
    });
  }

  const Benchmarks& benchmarks_;
  const PeerComparison& peers_;
  const std::vector<Finding>& findings_;
  RankTelemetry telemetry_;
  Accusations against_;
  const Context* const context_;                     // null: nothing was measured
  std::map<std::string, std::vector<int>> accused_;  // host -> ranks
  std::map<int, Diagnosis> by_rank_;
  mutable std::optional<bool> all_held_back_;
  std::vector<Diagnosis> culprits_;
};

}  // namespace

std::vector<Diagnosis> diagnose(const Benchmarks& benchmarks, const PeerComparison& peers,
                                const std::vector<Finding>& findings) {
  return Investigation(benchmarks, peers, findings).run();
}

std::vector<Finding> findings_of(const std::vector<Diagnosis>& culprits) {
  std::vector<Finding> findings;
  for (const Diagnosis& d : culprits) {
    if (!d.fails || !d.evidence.empty() || d.causes.front() != Cause::power_or_heat) continue;
    Finding f;
    f.key = "gemm";
    f.metric = "sm_mhz_vs_peers";
    f.judgement = Judgement::peers;
    f.status = Status::fail;
    f.offenders = d.places;
    f.offender_count = d.place_count;
    f.worst = d.places.front();
    f.detail = d.detail + "; " + d.telemetry;
    f.source = "the clocks and throttle reasons of all ranks in this run";
    f.next = d.next;
    findings.push_back(std::move(f));
  }
  return findings;
}

std::string causes_text(const Diagnosis& diagnosis) {
  std::vector<std::string> words;
  for (const Cause cause : diagnosis.causes) words.emplace_back(name(cause));
  return joined(words, ", ", " or ");
}

}  // namespace shakedown
