#include "thresholds/culprits/evidence.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "thresholds/rules/profile.hpp"

namespace shakedown {
namespace {

std::string metric_of(const Finding& f, const Benchmark& measured) {
  return f.judgement == Judgement::baseline ? headline_metric(measured) : f.metric;
}

Evidence evidence_of(const Comparison& c, const PeerValue& v) {
  return {c.key, c.metric, Judgement::peers, v.value, c.centre, 100 * v.shortfall, c.mads(v.shortfall)};
}

// True if the value misses the limit of the finding.
bool breaks(const Finding& f, int rank, double value) {
  if (f.own) return std::binary_search(f.own->begin(), f.own->end(), rank);
  const auto compared = f.compared();
  if (f.status != Status::fail || !compared || compared->limit.kind == LimitKind::equals) return false;
  return compared->limit.is_missed_by(value);
}

bool both_ways(const Key& key) { return key.part("dir") == "both"; }

// The links in the findings of one kind.
struct Links {
  std::set<Unit> all, slow;

  // True if most links are slow, and no GPU is at an end of all slow links.
  bool alike() const {
    if (static_cast<double>(slow.size()) <= majority_share * static_cast<double>(all.size())) return false;
    const auto explains = [&](int rank) {
      return std::ranges::all_of(slow, [&](const Unit& link) { return link.from == rank || link.rank == rank; });
    };
    return !explains(slow.begin()->from) && !explains(slow.begin()->rank);
  }
};

}  // namespace

bool bad(const Finding& f) {
  return f.counts() && (f.status == Status::fail || f.status == Status::missing || f.status == Status::invalid);
}

RunEvidence::RunEvidence(const Benchmarks& benchmarks, UnitTable table, const std::vector<Finding>& findings)
    : benchmarks_(benchmarks), table_(std::move(table)), findings_(findings) {
  for (const auto& [key, benchmark] : benchmarks) {
    if (context_ == nullptr || benchmark.context->world_size > context_->world_size) context_ = benchmark.context;
  }
  if (context_ == nullptr) return;
  for (const RankFacts& rank : context_->ranks) ranks_of_[rank.host].push_back(rank.rank);
  read_findings();
  read_peers();
  count_rows();
}

std::string RunEvidence::gpu(int rank) const { return gpu_in_command(facts(rank)); }

std::string RunEvidence::on_host(int rank, const std::string& command) const {
  return shakedown::on_host(facts(rank).host, command);
}

Diagnosis RunEvidence::diagnosis(std::vector<Cause> causes, const std::vector<int>& ranks) const {
  Diagnosis d;
  d.causes = std::move(causes);
  for (const int rank : ranks) d.places.push_back(culprit(facts(rank)));
  d.place_count = ranks.size();
  d.telemetry = table_.telemetry.text(ranks.front());
  d.heat = table_.telemetry.hot(ranks.front());
  return d;
}

// Returns the benchmark of a finding; nullptr if the finding is not about all ranks.
const Benchmark* RunEvidence::benchmark(const Finding& f) const {
  const auto found = benchmarks_.find(f.key);
  const bool of_all = found != benchmarks_.end() && found->second.context->world_size == context_->world_size;
  return of_all ? &found->second : nullptr;
}

// Collects the findings of rules and baselines. Peer values come from the table, which has those of every rank; a
// finding has only the first ten.
void RunEvidence::read_findings() {
  const auto kind = [](const Finding& f) { return std::tuple(f.judgement, f.metric, both_ways(f.key)); };
  std::map<std::tuple<Judgement, std::string, bool>, Links> copies;
  for (const Finding& f : findings_) {
    const Benchmark* measured = benchmark(f);
    const auto source = f.key.number("src");
    if (!source || !f.counts() || measured == nullptr) continue;
    const auto values = rank_values(*measured, metric_of(f, *measured));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int rank = static_cast<int>(i);
      const auto from = values[i] ? neighbour(rank, static_cast<int>(*source)) : std::nullopt;
      if (!from || *from == rank) continue;
      Links& links = copies[kind(f)];
      links.all.insert(link_unit(*from, rank));
      if (breaks(f, rank, *values[i])) links.slow.insert(link_unit(*from, rank));
    }
  }
  for (const Finding& f : findings_) {
    const bool by_limit = f.judgement == Judgement::rule || f.judgement == Judgement::baseline;
    if (!by_limit || !bad(f) || f.status != Status::fail || !f.compared() || f.metric.empty()) continue;
    // Facts of pre-flight are not rates. Pairs of hosts are left to fabric.hpp, because a pair has two ends and a path
    // between them.
    const std::string& family = f.key.family();
    if (is_collective(family) || family == "machine" || family == "preflight" || family == "pairs") continue;
    if (is_shared(f.key, f.metric) && context_->world_size > 1) continue;
    const Benchmark* measured = benchmark(f);
    if (measured == nullptr) continue;
    const auto found = copies.find(kind(f));
    if (found != copies.end() && f.key.number("src") && found->second.alike()) {
      alike_[family].push_back(&f);
    } else if (!both_ways(f.key)) {  // the sum of both directions does not show which one is slow
      read_ranks_of(f, *measured);
    }
  }
}

void RunEvidence::read_ranks_of(const Finding& f, const Benchmark& measured) {
  const std::string metric = metric_of(f, measured);
  const auto values = rank_values(measured, metric);
  const auto compared = f.compared();
  if (!compared) return;
  const Limit& limit = compared->limit;
  const bool spread = limit.kind == LimitKind::spread_max;
  if (limit.kind != LimitKind::min && limit.kind != LimitKind::max && !spread) return;
  std::vector<int> broken;
  std::size_t known = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) continue;
    ++known;
    const int rank = static_cast<int>(i);
    const bool named = f.worst && f.worst->rank == rank;
    if (spread && !f.own ? named : breaks(f, rank, *values[i])) broken.push_back(rank);
  }
  // If all GPUs copy at once, a GPU with slow ports also slows down the GPU to which it sends.
  const auto source = f.key.number("src");
  const bool all_at_once = !f.key.part("shift").empty();
  const bool by_most = known > 1 && !source && broken.size() > (all_at_once ? 2 : 0) &&
                       static_cast<double>(broken.size()) > majority_share * static_cast<double>(known);
  if (by_most || (f.own && f.own->empty())) {
    alike_[f.key.family()].push_back(&f);
    return;
  }
  // The cause may be the sender, the receiver or the link; the peer comparison decides, because it has all copies.
  if (all_at_once) return;
  for (const int rank : broken) {
    const double value = *values[static_cast<std::size_t>(rank)];
    Evidence e{f.key, metric, f.judgement, value, std::nullopt, std::nullopt, std::nullopt};
    if (!spread) e.expected = limit.value, e.percent = 100 * limit.shortfall(value);
    const auto from = source ? neighbour(rank, static_cast<int>(*source)) : std::nullopt;
    table_.shown[unit_at(rank, from)][aspect_of(f.key, metric)].failing.push_back(std::move(e));
  }
}

std::optional<int> RunEvidence::neighbour(int rank, int local) const {
  for (const int other : neighbours(rank)) {
    if (facts(other).local_rank == local) return other;
  }
  return std::nullopt;
}

void RunEvidence::read_peers() {
  std::vector<std::pair<Unit, Evidence>> sums;
  for (const Comparison& c : table_.comparisons) {
    if (c.context->world_size != context_->world_size) continue;
    const Aspect aspect = aspect_of(c.key, c.metric);
    for (const PeerValue& v : c.values) {
      if (!v.out) continue;
      if (both_ways(c.key) && v.unit.kind == UnitKind::link) {
        sums.emplace_back(v.unit, evidence_of(c, v));
      } else {
        const Unit unit = aspect == Aspect::collective ? host_unit(neighbours(v.unit.rank).front()) : v.unit;
        table_.shown[unit][aspect].failing.push_back(evidence_of(c, v));
      }
    }
    for (const PeerHost& h : c.hosts) {
      if (!c.outlier(h)) continue;
      table_.shown[host_unit(ranks_of_.at(h.host).front())][Aspect::other].failing.push_back(
          {c.key, c.metric, Judgement::peers, h.value, c.centre, 100 * h.shortfall, h.shortfall / c.host_scale});
    }
  }
  // The sum of both directions does not show which one is slow, so it is used only if there are no other values.
  for (const auto& [link, evidence] : sums) {
    const Unit back = link_unit(link.rank, link.from);
    if (!shown(link, Aspect::other).failing.empty() || !shown(back, Aspect::other).failing.empty()) continue;
    table_.shown[link][Aspect::other].failing.push_back(evidence);
    table_.shown[back][Aspect::other].failing.push_back(evidence);
  }
}

// Counts the rows of outliers. For a host with a slow link, counts the rows of all its GPUs and links.
void RunEvidence::count_rows() {
  std::vector<bool> has_slow_link(size());  // whether the host of the rank has a slow link
  for (const auto& [link, aspects] : units(UnitKind::link)) {
    for (const int rank : neighbours(link.rank)) has_slow_link[static_cast<std::size_t>(rank)] = true;
  }
  for (const Comparison& c : table_.comparisons) {
    if (c.context->world_size != context_->world_size || both_ways(c.key)) continue;
    const Aspect aspect = aspect_of(c.key, c.metric);
    for (const PeerValue& v : c.values) {
      if (!has_slow_link[static_cast<std::size_t>(v.unit.rank)] && !table_.shown.contains(v.unit)) continue;
      Shown& shown = table_.shown[v.unit][aspect];
      ++shown.rows;
      if (c.low(v)) ++shown.low;
    }
  }
}

const Shown& RunEvidence::shown(const Unit& unit, Aspect aspect) const {
  static const Shown nothing;
  const auto found = table_.shown.find(unit);
  if (found == table_.shown.end()) return nothing;
  const auto of = found->second.find(aspect);
  return of == found->second.end() ? nothing : of->second;
}

std::vector<Evidence> RunEvidence::failing(const Unit& unit) const {
  std::vector<Evidence> all;
  const auto found = table_.shown.find(unit);
  if (found == table_.shown.end()) return all;
  for (const auto& [aspect, shown] : found->second) all.insert(all.end(), shown.failing.begin(), shown.failing.end());
  return all;
}

bool RunEvidence::counts(const std::vector<Evidence>& evidence) const {
  return table_.counts || std::ranges::any_of(evidence, [](const Evidence& e) { return e.by != Judgement::peers; });
}

}  // namespace shakedown
