#include "thresholds/culprits/evidence.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "thresholds/rules/profile.hpp"

namespace shakedown {
namespace {

std::string metric_of(const Finding& f, const Benchmark& measured) {
  return f.judgement == Judgement::baseline ? headline_metric(measured) : f.metric;
}

Evidence evidence_of(const Comparison& c, const PeerValue& v) {
  return {c.key, c.metric, Judgement::peers, v.value, c.centre, 100 * v.shortfall, c.mads(v.shortfall)};
}

// Whether a value breaks the limit that the finding is about.
bool breaks(const Finding& f, int rank, double value) {
  if (f.own) return std::binary_search(f.own->begin(), f.own->end(), rank);
  const auto compared = f.compared();
  if (f.status != Status::fail || !compared || compared->limit.kind == LimitKind::equals) return false;
  return compared->limit.is_missed_by(value);
}

bool both_ways(const Key& key) { return key.part("dir") == "both"; }

// Ordered pairs of ranks that findings of one kind judge.
struct Pairs {
  std::set<RankPair> all, slow;

  // Most are slow, and there is no one GPU that all slow ones touch.
  bool alike() const {
    if (static_cast<double>(slow.size()) <= most * static_cast<double>(all.size())) return false;
    const auto explains = [&](int rank) {
      return std::all_of(slow.begin(), slow.end(), [&](const auto& p) { return p.first == rank || p.second == rank; });
    };
    return !explains(slow.begin()->first) && !explains(slow.begin()->second);
  }
};

}  // namespace

bool bad(const Finding& f) {
  return f.counts() && (f.status == Status::fail || f.status == Status::missing || f.status == Status::invalid);
}

RunEvidence::RunEvidence(const Benchmarks& benchmarks, const UnitTable& table, const std::vector<Finding>& findings)
    : benchmarks_(benchmarks), table_(table), findings_(findings) {
  for (const auto& [key, benchmark] : benchmarks) {
    if (context_ == nullptr || benchmark.context->world_size > context_->world_size) context_ = benchmark.context;
  }
  if (context_ == nullptr) return;
  for (const RankFacts& rank : context_->ranks) ranks_of_[rank.host].push_back(rank.rank);
  read_findings();
  read_peers();
  read_support();
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
  return d;
}

const Benchmark* RunEvidence::benchmark(const Key& key) const {
  const auto found = benchmarks_.find(key);
  return found == benchmarks_.end() ? nullptr : &found->second;
}

// Rules and baselines. Peers speak for themselves, with every rank and not only the first ten.
void RunEvidence::read_findings() {
  const auto kind = [](const Finding& f) { return std::tuple(f.judgement, f.metric, both_ways(f.key)); };
  std::map<std::tuple<Judgement, std::string, bool>, Pairs> copies;
  for (const Finding& f : findings_) {
    const Benchmark* measured = benchmark(f.key);
    const auto source = f.key.number("src");
    if (!source || !f.counts() || measured == nullptr) continue;
    if (measured->context->world_size != context_->world_size) continue;
    const auto values = rank_values(*measured, metric_of(f, *measured));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int rank = static_cast<int>(i);
      const auto from = values[i] ? neighbour(rank, static_cast<int>(*source)) : std::nullopt;
      if (!from || *from == rank) continue;
      Pairs& pairs = copies[kind(f)];
      pairs.all.emplace(*from, rank);
      if (breaks(f, rank, *values[i])) pairs.slow.emplace(*from, rank);
    }
  }
  for (const Finding& f : findings_) {
    const bool speaks = f.judgement == Judgement::rule || f.judgement == Judgement::baseline;
    if (!speaks || !bad(f) || f.status != Status::fail || !f.compared() || f.metric.empty()) continue;
    // What pre-flight found speaks for itself: a fact is no rate. A pair of hosts has two ends and a path between them
    // (fabric.hpp).
    const std::string& family = f.key.family();
    if (is_collective(family) || family == "machine" || family == "preflight" || family == "pairs") continue;
    if (is_shared(f.key, f.metric) && context_->world_size > 1) continue;
    const Benchmark* measured = benchmark(f.key);
    if (measured == nullptr || measured->context->world_size != context_->world_size) continue;
    const auto found = copies.find(kind(f));
    if (found != copies.end() && f.key.number("src") && found->second.alike()) {
      alike_[f.key.family()].push_back(&f);
    } else if (!both_ways(f.key)) {  // the sum of both directions cannot tell which is slow: left to the peers
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
  std::vector<RankPair> broken;  // rank, source
  std::vector<double> by;
  std::size_t known = 0;
  const int source = static_cast<int>(f.key.number("src").value_or(-1));
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    if (!values[rank]) continue;
    ++known;
    const bool named = f.worst && f.worst->rank == static_cast<int>(rank);
    if (spread && !f.own ? !named : !breaks(f, static_cast<int>(rank), *values[rank])) continue;
    broken.emplace_back(static_cast<int>(rank), source);
    by.push_back(limit.shortfall(*values[rank]));
  }
  // Where all GPUs copy at once, one with slow ports slows two: itself and the one that it sends to.
  const bool all_at_once = !f.key.part("shift").empty();
  const bool by_most = known > 1 && source < 0 && broken.size() > (all_at_once ? 2 : 0) &&
                       static_cast<double>(broken.size()) > most * static_cast<double>(known);
  if (by_most || (f.own && f.own->empty())) {
    alike_[f.key.family()].push_back(&f);
    return;
  }
  if (all_at_once) return;  // the sender, the receiver or the link: left to the peers, who compare all of them
  for (std::size_t i = 0; i < broken.size(); ++i) {
    const int rank = broken[i].first;
    Evidence e{f.key,       metric,      f.judgement, values[static_cast<std::size_t>(rank)],
               limit.value, 100 * by[i], std::nullopt};
    if (spread) e.expected = e.percent = std::nullopt;
    if (const auto from = source < 0 ? std::nullopt : neighbour(rank, source)) {
      links_[{*from, rank}].failing.push_back(e);
    } else {
      gpus_[rank].failing[aspect_of(f.key, metric)].push_back(e);
      gpus_[rank].counts = true;
    }
  }
}

std::optional<int> RunEvidence::neighbour(int rank, int local) const {
  for (const int other : neighbours(rank)) {
    if (facts(other).local_rank == local) return other;
  }
  return std::nullopt;
}

void RunEvidence::read_peers() {
  std::vector<std::pair<RankPair, Evidence>> sums;
  for (const Comparison& c : table_.comparisons) {
    if (c.context->world_size != context_->world_size) continue;
    const bool both = both_ways(c.key);
    for (const PeerValue& v : c.values) {
      if (!v.out) continue;
      if (c.key.part("scope") == "node") {
        own_allreduce_[facts(v.unit.rank).host].push_back(evidence_of(c, v));
      } else if (v.unit.kind == UnitKind::link && both) {
        sums.emplace_back(RankPair{v.unit.from, v.unit.rank}, evidence_of(c, v));
      } else if (v.unit.kind == UnitKind::link) {
        links_[{v.unit.from, v.unit.rank}].failing.push_back(evidence_of(c, v));
      } else {
        GpuEvidence& gpu = gpus_[v.unit.rank];
        gpu.failing[aspect_of(c.key, c.metric)].push_back(evidence_of(c, v));
        gpu.counts = gpu.counts || table_.counts;
      }
    }
    for (const PeerHost& h : c.hosts) {
      if (c.outlier(h)) {
        hosts_[h.host].push_back(
            {c.key, c.metric, Judgement::peers, h.value, c.centre, 100 * h.shortfall, h.shortfall / c.host_scale});
      }
    }
  }
  // The sum of both directions cannot tell which of them is slow; it speaks where nothing else does.
  for (const auto& [pair, evidence] : sums) {
    const RankPair back{pair.second, pair.first};
    const auto known = [&](const RankPair& p) { return links_.contains(p) && !links_[p].failing.empty(); };
    if (known(pair) || known(back)) continue;
    links_[pair].failing.push_back(evidence);
    links_[back].failing.push_back(evidence);
  }
}

// What they, their hosts and their links show elsewhere.
void RunEvidence::read_support() {
  std::vector<bool> hosts_with_slow_links(size());
  for (const auto& [pair, link] : links_) {
    for (const int rank : neighbours(pair.second)) hosts_with_slow_links[static_cast<std::size_t>(rank)] = true;
  }
  for (const Comparison& c : table_.comparisons) {
    if (c.context->world_size != context_->world_size || both_ways(c.key)) continue;
    for (const PeerValue& v : c.values) {
      if (v.unit.kind == UnitKind::link) {
        if (!hosts_with_slow_links[static_cast<std::size_t>(v.unit.rank)]) continue;
        LinkEvidence& link = links_[{v.unit.from, v.unit.rank}];
        ++link.total;
        if (c.low(v)) ++link.low;
      } else if (hosts_with_slow_links[static_cast<std::size_t>(v.unit.rank)] || gpus_.contains(v.unit.rank)) {
        GpuEvidence& gpu = gpus_[v.unit.rank];
        const Aspect aspect = aspect_of(c.key, c.metric);
        gpu.shortfalls[aspect].push_back(v.shortfall);
        if (c.low(v)) ++gpu.low[aspect];
      }
    }
  }
}

bool RunEvidence::is_slow(int rank, Aspect aspect) const {
  const auto found = gpus_.find(rank);
  if (found == gpus_.end()) return false;
  const GpuEvidence& c = found->second;
  if (const auto failing = c.failing.find(aspect); failing != c.failing.end() && !failing->second.empty()) return true;
  const auto shortfalls = c.shortfalls.find(aspect);
  const auto low = c.low.find(aspect);
  return shortfalls != c.shortfalls.end() && low != c.low.end() &&
         static_cast<double>(low->second) > most * static_cast<double>(shortfalls->second.size());
}

}  // namespace shakedown
