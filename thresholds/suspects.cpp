#include "thresholds/suspects.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <tuple>

#include "thresholds/metrics.hpp"
#include "thresholds/profile.hpp"

namespace shakedown {
namespace {

Aspect aspect_of(const std::string& key, const std::string& metric) {
  const std::string family = family_of(key);
  if (family == "gemm") return metric == "tflops" ? Aspect::gemm_raw : Aspect::gemm;
  if (family == "hbm" || family == "memtest") return Aspect::memory;
  if (family == "lora_step") return Aspect::gemm_raw;  // mostly that
  return family == "pcie" ? Aspect::pcie : Aspect::other;
}

std::string metric_of(const Finding& f, const Benchmark& measured) {
  return f.judgement == Judgement::baseline ? headline_metric(measured) : f.metric;
}

Evidence evidence_of(const Comparison& c, const PeerValue& v) {
  return {c.key, c.metric, Judgement::peers, v.value, c.centre, 100 * v.shortfall, c.mads(v.shortfall)};
}

// Whether a value breaks the limit that the finding is about.
bool breaks(const Finding& f, double value) {
  if (f.status != Status::fail || !f.limit) return false;
  return f.limit_name == "max" ? value > *f.limit : f.limit_name == "min" && value < *f.limit;
}

bool both_ways(const std::string& key) { return key_part(key, "dir") == "both"; }

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

Accusations::Accusations(const Benchmarks& benchmarks, const PeerComparison& peers,
                         const std::vector<Finding>& findings)
    : benchmarks_(benchmarks), peers_(peers), findings_(findings) {
  for (const auto& [key, benchmark] : benchmarks) {
    if (context_ == nullptr || benchmark.context->world_size > context_->world_size) context_ = benchmark.context;
  }
  if (context_ == nullptr) return;
  for (const RankFacts& rank : context_->ranks) ranks_of_[rank.host].push_back(rank.rank);
  accuse_by_findings();
  accuse_by_peers();
  gather_support();
  accuse_ports();
}

const Benchmark* Accusations::benchmark(const std::string& key) const {
  const auto found = benchmarks_.find(key);
  return found == benchmarks_.end() ? nullptr : &found->second;
}

// Rules and baselines. Peers speak for themselves, with every rank and not only the first ten.
void Accusations::accuse_by_findings() {
  const auto kind = [](const Finding& f) { return std::tuple(f.judgement, f.metric, both_ways(f.key)); };
  std::map<std::tuple<Judgement, std::string, bool>, Pairs> copies;
  for (const Finding& f : findings_) {
    const Benchmark* measured = benchmark(f.key);
    const auto source = key_number(f.key, "src");
    if (!source || !f.counts() || measured == nullptr) continue;
    if (measured->context->world_size != context_->world_size) continue;
    const auto values = rank_values(*measured, metric_of(f, *measured));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int rank = static_cast<int>(i);
      const auto from = values[i] ? neighbour(rank, static_cast<int>(*source)) : std::nullopt;
      if (!from || *from == rank) continue;
      Pairs& pairs = copies[kind(f)];
      pairs.all.emplace(*from, rank);
      if (breaks(f, *values[i])) pairs.slow.emplace(*from, rank);
    }
  }
  for (const Finding& f : findings_) {
    const bool speaks = f.judgement == Judgement::rule || f.judgement == Judgement::baseline;
    if (!speaks || !bad(f) || f.status != Status::fail || !f.limit || !f.value || f.metric.empty()) continue;
    // What pre-flight found speaks for itself: a fact is no rate.
    if (is_collective(family_of(f.key)) || family_of(f.key) == "machine" || family_of(f.key) == "preflight") continue;
    if (is_shared(f.key, f.metric) && context_->world_size > 1) continue;
    const Benchmark* measured = benchmark(f.key);
    if (measured == nullptr || measured->context->world_size != context_->world_size) continue;
    const auto found = copies.find(kind(f));
    if (found != copies.end() && key_number(f.key, "src") && found->second.alike()) {
      alike[family_of(f.key)].push_back(&f);
    } else if (!both_ways(f.key)) {  // the sum of both directions cannot tell which is slow: left to the peers
      accuse_ranks_of(f, *measured);
    }
  }
}

void Accusations::accuse_ranks_of(const Finding& f, const Benchmark& measured) {
  const std::string metric = metric_of(f, measured);
  const auto values = rank_values(measured, metric);
  const bool low_is_good = f.limit_name == "max";
  if (f.limit_name != "min" && f.limit_name != "max" && f.limit_name != "spread_max") return;
  std::vector<RankPair> broken;  // rank, source
  std::vector<double> by;
  std::size_t known = 0;
  const int source = static_cast<int>(key_number(f.key, "src").value_or(-1));
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    if (!values[rank]) continue;
    ++known;
    const bool named = f.worst && f.worst->rank == static_cast<int>(rank);
    if (f.limit_name == "spread_max" ? !named : !breaks(f, *values[rank])) continue;
    broken.emplace_back(static_cast<int>(rank), source);
    by.push_back(low_is_good ? *values[rank] / *f.limit - 1 : 1 - *values[rank] / *f.limit);
  }
  // Where all GPUs copy at once, one with slow ports slows two: itself and the one that it sends to.
  const bool all_at_once = !key_part(f.key, "shift").empty();
  if (known > 1 && source < 0 && broken.size() > (all_at_once ? 2 : 0) &&
      static_cast<double>(broken.size()) > most * static_cast<double>(known)) {
    alike[family_of(f.key)].push_back(&f);
    return;
  }
  if (all_at_once) return;  // the sender, the receiver or the link: left to the peers, who compare all of them
  for (std::size_t i = 0; i < broken.size(); ++i) {
    const int rank = broken[i].first;
    Evidence e{f.key, metric, f.judgement, values[static_cast<std::size_t>(rank)], f.limit, 100 * by[i], std::nullopt};
    if (f.limit_name == "spread_max") e.expected = e.percent = std::nullopt;
    if (const auto from = source < 0 ? std::nullopt : neighbour(rank, source)) {
      links[{*from, rank}].failing.push_back(e);
    } else {
      GpuCase& the_case = cases[rank];
      the_case.failing[aspect_of(f.key, metric)].push_back(e);
      the_case.accuses = true;
    }
  }
}

std::optional<int> Accusations::neighbour(int rank, int local) const {
  for (const int other : neighbours(rank)) {
    if (facts(other).local_rank == local) return other;
  }
  return std::nullopt;
}

void Accusations::accuse_by_peers() {
  std::vector<std::pair<RankPair, Evidence>> sums;
  for (const Comparison& c : peers_.comparisons) {
    if (c.context->world_size != context_->world_size) continue;
    const bool both = both_ways(c.key);
    for (const PeerValue& v : c.values) {
      if (!c.outlier(v)) continue;
      if (key_part(c.key, "scope") == "node") {
        own_allreduce[facts(v.rank).host].push_back(evidence_of(c, v));
      } else if (v.from && both) {
        sums.emplace_back(RankPair{*v.from, v.rank}, evidence_of(c, v));
      } else if (v.from) {
        links[{*v.from, v.rank}].failing.push_back(evidence_of(c, v));
      } else {
        GpuCase& the_case = cases[v.rank];
        the_case.failing[aspect_of(c.key, c.metric)].push_back(evidence_of(c, v));
        the_case.accuses = the_case.accuses || peers_.counts;
      }
    }
    for (const PeerHost& h : c.hosts) {
      if (c.outlier(h)) {
        hosts[h.host].push_back(
            {c.key, c.metric, Judgement::peers, h.value, c.centre, 100 * h.shortfall, h.shortfall / c.host_scale});
      }
    }
  }
  // The sum of both directions cannot tell which of them is slow; it speaks where nothing else does.
  for (const auto& [pair, evidence] : sums) {
    const RankPair back{pair.second, pair.first};
    const auto known = [&](const RankPair& p) { return links.contains(p) && !links[p].failing.empty(); };
    if (known(pair) || known(back)) continue;
    links[pair].failing.push_back(evidence);
    links[back].failing.push_back(evidence);
  }
}

// What the accused, their hosts and their links show elsewhere.
void Accusations::gather_support() {
  std::vector<bool> hosts_with_slow_links(size());
  for (const auto& [pair, link] : links) {
    for (const int rank : neighbours(pair.second)) hosts_with_slow_links[static_cast<std::size_t>(rank)] = true;
  }
  for (const Comparison& c : peers_.comparisons) {
    if (c.context->world_size != context_->world_size || both_ways(c.key)) continue;
    for (const PeerValue& v : c.values) {
      if (v.from) {
        if (!hosts_with_slow_links[static_cast<std::size_t>(v.rank)]) continue;
        LinkCase& link = links[{*v.from, v.rank}];
        ++link.total;
        if (c.low(v)) ++link.low;
      } else if (hosts_with_slow_links[static_cast<std::size_t>(v.rank)] || cases.contains(v.rank)) {
        GpuCase& the_case = cases[v.rank];
        const Aspect aspect = aspect_of(c.key, c.metric);
        the_case.shortfalls[aspect].push_back(v.shortfall);
        if (c.low(v)) ++the_case.low[aspect];
      }
    }
  }
}

Accusations::Share Accusations::share(int rank, bool as_source) const {
  Share result;
  for (const int other : neighbours(rank)) {
    if (other == rank) continue;
    const auto found = links.find(as_source ? RankPair{rank, other} : RankPair{other, rank});
    if (found == links.end()) continue;
    ++result.all;
    if (found->second.slow()) ++result.slow;
  }
  return result;
}

bool Accusations::has_failing(int rank) const {
  return std::any_of(links.begin(), links.end(), [&](const auto& link) {
    return (link.first.first == rank || link.first.second == rank) && !link.second.failing.empty();
  });
}

void Accusations::take_links(int rank, bool row, bool column, std::vector<Evidence>& evidence) {
  for (auto& [pair, link] : links) {
    if (!(row && pair.first == rank) && !(column && pair.second == rank)) continue;
    std::move(link.failing.begin(), link.failing.end(), std::back_inserter(evidence));
    link.failing.clear();
    link.low = 0;
  }
}

// A GPU whose row and column are slow: take out the one that explains most, and look again.
void Accusations::accuse_ports() {
  std::set<std::string> suspects;
  for (const auto& [pair, link] : links) {
    if (!link.failing.empty()) suspects.insert(facts(pair.second).host);
  }
  for (const std::string& host : suspects) {
    const auto& ranks = ranks_of_.at(host);
    for (std::size_t round = 0; round < ranks.size(); ++round) {
      int best = -1;
      std::size_t most_slow = 0;
      bool accused = false;
      for (const int rank : ranks) {
        const Share row = share(rank, true), column = share(rank, false);
        if (!row.nearly() || !column.nearly() || !has_failing(rank)) continue;
        // Of two GPUs that explain the same, the one that is slow by itself as well.
        const bool also = is_slow(rank, Aspect::gemm) || is_slow(rank, Aspect::memory);
        const std::size_t slow = row.slow + column.slow;
        if (best < 0 || slow > most_slow || (slow == most_slow && also && !accused)) {
          best = rank;
          most_slow = slow;
          accused = also;
        }
      }
      if (best < 0 || (ranks.size() == 2 && !accused)) break;  // of two GPUs, either may be the one
      take_links(best, true, true, cases[best].links);
      cases[best].accuses = cases[best].accuses || peers_.counts;
    }
  }
}

bool Accusations::is_slow(int rank, Aspect aspect) const {
  const auto found = cases.find(rank);
  if (found == cases.end()) return false;
  const GpuCase& c = found->second;
  if (const auto failing = c.failing.find(aspect); failing != c.failing.end() && !failing->second.empty()) return true;
  const auto shortfalls = c.shortfalls.find(aspect);
  const auto low = c.low.find(aspect);
  return shortfalls != c.shortfalls.end() && low != c.low.end() &&
         static_cast<double>(low->second) > most * static_cast<double>(shortfalls->second.size());
}

}  // namespace shakedown
