#include "thresholds/culprits/copies.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/statistics.hpp"

namespace shakedown {
namespace {

/// If a link is slower than the other copies of its GPU by more than this percentage, the link itself has a fault. If
/// the ports of the GPU are slow, or another program uses it, its copies differ by less.
constexpr double own_fault_percent = 20;
constexpr std::size_t enough_links = 3;

/// True if the GPU's own work is slow enough to fail. A GPU that is only a little slower, such as one with another make
/// of memory, is not the cause of a slow copy.
bool fails_by_itself(const RunEvidence& evidence, int rank) {
  return std::ranges::any_of(std::array{Aspect::gemm, Aspect::memory},
                             [&](Aspect aspect) { return !evidence.shown(gpu_unit(rank), aspect).failing.empty(); });
}

}  // namespace

/// Copies to or from the other GPUs of the host.
struct SlowCopies::Share {
  std::size_t slow = 0, all = 0, open = 0;
  bool nearly() const { return all > 0 && static_cast<double>(slow) >= nearly_all_share * static_cast<double>(all); }
};

SlowCopies::SlowCopies(const RunEvidence& evidence) : evidence_(evidence) {
  std::set<std::string> hosts;
  for (const auto& [link, aspects] : evidence.units(UnitKind::link)) {
    if (open(link)) hosts.insert(evidence.facts(link.rank).host);
  }
  for (const std::string& host : hosts) judge_ports(evidence.ranks_of().at(host));
  judge_kernels();
}

/// Returns the slow copies that are not explained yet.
bool SlowCopies::open(const Unit& link) const {
  return !evidence_.shown(link, Aspect::other).failing.empty() && !explained_.contains(link);
}

void SlowCopies::explain(const Unit& link, std::vector<Evidence>& evidence) {
  if (!explained_.insert(link).second) return;
  const auto failing = evidence_.failing(link);
  evidence.insert(evidence.end(), failing.begin(), failing.end());
}

void SlowCopies::explain(const std::string& host) {
  for (const auto& [link, aspects] : evidence_.units(UnitKind::link)) {
    if (evidence_.facts(link.rank).host == host) explained_.insert(link);
  }
}

void SlowCopies::explain_copies(int rank, bool out, bool in, std::vector<Evidence>& evidence) {
  const double most_out = most_of_gpu(rank, true), most_in = most_of_gpu(rank, false);
  for (const int other : evidence_.neighbours(rank)) {
    const Unit to = link_unit(rank, other), from = link_unit(other, rank);
    if (out && percent(to) <= most_out) explain(to, evidence);
    if (in && percent(from) <= most_in) explain(from, evidence);
  }
}

// Returns the shortfall of a link: the median of its evidence.
double SlowCopies::percent(const Unit& link) const {
  std::vector<double> percents;
  for (const Evidence& e : evidence_.failing(link)) {
    if (e.percent) percents.push_back(*e.percent);
  }
  return percents.empty() ? 0 : median(std::move(percents));
}

// Returns the largest shortfall among the copies that this GPU explains, in one direction.
double SlowCopies::most_of_gpu(int rank, bool as_source) const {
  std::vector<double> percents;
  for (const int other : evidence_.neighbours(rank)) {
    if (other != rank) percents.push_back(percent(as_source ? link_unit(rank, other) : link_unit(other, rank)));
  }
  return percents.size() < enough_links ? HUGE_VAL : median(std::move(percents)) + own_fault_percent;
}

bool SlowCopies::has_open(const std::string& host) const {
  return std::ranges::any_of(evidence_.units(UnitKind::link), [&](const auto& entry) {
    return open(entry.first) && evidence_.facts(entry.first.rank).host == host;
  });
}

SlowCopies::Share SlowCopies::share(int rank, bool as_source) const {
  Share result;
  for (const int other : evidence_.neighbours(rank)) {
    const Unit link = as_source ? link_unit(rank, other) : link_unit(other, rank);
    if (other == rank || !evidence_.table().shown.contains(link)) continue;
    ++result.all;
    if (evidence_.shown(link, Aspect::other).is_slow() && !explained_.contains(link)) ++result.slow;
    if (open(link)) ++result.open;
  }
  return result;
}

// Finds GPUs of a host whose copies are slow in both directions. The GPU that explains most copies is first.
void SlowCopies::judge_ports(const std::vector<int>& ranks) {
  for (std::size_t round = 0; round < ranks.size(); ++round) {
    int best = -1;
    std::size_t most_slow = 0;
    bool best_is_slow = false;
    for (const int rank : ranks) {
      const Share row = share(rank, true), column = share(rank, false);
      if (!row.nearly() || !column.nearly() || row.open + column.open == 0) continue;
      // If two GPUs explain the same number of copies, chooses the one whose own work is also slow.
      const bool also = fails_by_itself(evidence_, rank);
      const std::size_t slow = row.slow + column.slow;
      if (best < 0 || slow > most_slow || (slow == most_slow && also && !best_is_slow)) {
        best = rank;
        most_slow = slow;
        best_is_slow = also;
      }
    }
    if (best < 0 || (ranks.size() == 2 && !best_is_slow)) return;  // if there are two GPUs, either may be at fault
    explain_copies(best, true, true, of_gpu_[best]);
  }
}

// Finds GPUs whose own work is slow and whose kernels copy slowly: another program uses the SMs, or they are faulty.
// Kernels of the source do writes; kernels of the destination do reads and measure latency. Copy engines need no SM.
void SlowCopies::judge_kernels() {
  for (const auto& [link, aspects] : evidence_.units(UnitKind::link)) {
    if (!open(link)) continue;
    std::set<int> workers;
    for (const Evidence& e : evidence_.failing(link)) {
      const bool by_kernel = e.key.part("engine") == "sm";
      workers.insert(!by_kernel ? -1 : e.key.part("op") == "write" ? link.from : link.rank);
    }
    const int worker = *workers.begin();
    if (workers.size() > 1 || worker < 0 || !fails_by_itself(evidence_, worker)) continue;
    const bool is_source = worker == link.from;
    // The other end explains the link if nearly all copies at that end are slow, and few copies of this GPU are.
    const Share own = share(worker, is_source), other = share(is_source ? link.rank : link.from, !is_source);
    if (own.nearly() || !other.nearly()) explain(link, of_gpu_[worker]);
  }
}

std::vector<Diagnosis> SlowCopies::suspects() {
  std::vector<Diagnosis> found;
  for (const auto& [host, ranks] : evidence_.ranks_of()) {
    if (ranks.size() < 3) continue;
    for (const int rank : ranks) {
      judge_side(rank, true, found);
      judge_side(rank, false, found);
    }
  }
  for (const auto& [link, aspects] : evidence_.units(UnitKind::link)) {
    if (open(link)) judge_link(link, found);
  }
  return found;
}

// Returns all copies out of a GPU, or all into it.
void SlowCopies::judge_side(int rank, bool out, std::vector<Diagnosis>& found) {
  const Share side = share(rank, out);
  if (side.all < 2 || !side.nearly()) return;
  std::vector<Evidence> evidence;
  explain_copies(rank, out, !out, evidence);
  if (evidence.empty()) return;
  Diagnosis d = evidence_.diagnosis({Cause::slow_link, Cause::slow_gpu}, {rank});
  d.fails = evidence_.counts(evidence);
  d.detail = out ? "all copies out of the GPU are slow, copies into the GPU are normal"
                 : "all copies into the GPU are slow, copies out of the GPU are normal";
  d.next = evidence_.on_host(rank, "nvidia-smi nvlink -e -i " + evidence_.gpu(rank));
  add_evidence(d, std::move(evidence));
  found.push_back(std::move(d));
}

void SlowCopies::judge_link(const Unit& link, std::vector<Diagnosis>& found) {
  const Unit back = link_unit(link.rank, link.from);
  const bool both = open(back), only_two = evidence_.neighbours(link.rank).size() == 2;
  Diagnosis d = evidence_.diagnosis(
      both && only_two ? std::vector{Cause::slow_link, Cause::slow_gpu} : std::vector{Cause::slow_link},
      {link.from, link.rank});
  d.telemetry.clear();
  std::vector<Evidence> evidence;
  explain(link, evidence);
  d.fails = evidence_.counts(evidence);
  explain(back, evidence);
  const std::string ends = "from local GPU " + std::to_string(evidence_.facts(link.from).local_rank) + " to " +
                           std::to_string(evidence_.facts(link.rank).local_rank);
  d.detail = both ? "copies between the two are slow in both directions" +
                        std::string(only_two ? "; with two GPUs the faulty part may be the link or either GPU" : "")
             : of_gpu_.contains(link.from) || of_gpu_.contains(link.rank)
                 ? "copies " + ends + " are much slower than other copies of both"
                 : "copies " + ends + " are slow, other copies of both are normal";
  d.next = evidence_.on_host(link.from, "nvidia-smi nvlink -e -i " + evidence_.gpu(link.from));
  add_evidence(d, std::move(evidence));
  found.push_back(std::move(d));
}

}  // namespace shakedown
