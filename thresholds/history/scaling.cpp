// Checks that a GPU keeps its rate when more GPUs work. This check exists because an efficiency of 20.6 % was once
// reported as 98 %.
#include "thresholds/history/scaling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/rules/fabric_rates.hpp"

namespace shakedown {
namespace {

constexpr const char* busbw = "busbw_gb_per_s";
/// A difference of a step between launches is mentioned if it is at least this fraction of the step's time.
constexpr double min_shown_share = 0.02;

/// Returns "4 nodes" or "1 rank".
std::string size_text(int count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// Returns the rate of a rank. For local work it is the median over ranks. For work of all ranks it is the value of the
// run, which is that of the slowest rank.
std::optional<double> rate_of(const Benchmark& benchmark, const Metric& metric) {
  if (benchmark.error() != nullptr || benchmark.waiver() != nullptr) return std::nullopt;
  std::vector<double> rates;
  for (const auto& value : rank_values(benchmark, std::string(metric.name))) {
    if (value) rates.push_back(*value);
  }
  auto rate =
      metric.shared || rates.empty() ? run_value(benchmark, std::string(metric.name)) : median(std::move(rates));
  return rate && *rate > 0 ? rate : std::nullopt;
}

// Returns the slowest rank's value.
std::optional<double> largest_of_ranks(const Benchmark& benchmark, const char* metric) {
  std::optional<double> largest;
  for (const auto& value : rank_values(benchmark, metric)) {
    if (value && (!largest || *value > *largest)) largest = value;
  }
  return largest;
}

/// Returns the part of a step that took the additional time, compared with fewer nodes.
std::string loss_of_step(const Benchmark& small, const Benchmark& large) {
  const auto before = run_value(small, "step_ms"), after = run_value(large, "step_ms");
  const auto work = largest_of_ranks(small, "compute_ms"), more_work = largest_of_ranks(large, "compute_ms");
  if (!before || !after || !work || !more_work) return "";
  const double lost = *after - *before;
  if (lost < min_shown_share * *before) return "";
  const auto said = [&](const char* what, double was, double is) {
    return fmt::format("{}: {} of the {} ms that a step lost ({} to {} ms)", what, number_text(is - was),
                       number_text(lost), number_text(was), number_text(is));
  };
  if (*more_work - *work >= lost / 2) return said("the slowest rank's own work", *work, *more_work);
  return said("waiting for others and AllReduce", *before - *work, *after - *more_work);
}

class Scaling {
 public:
  Scaling(const std::vector<ScalingSet>& sets, std::optional<double> host_gb_per_s) : host_gb_per_s_(host_gb_per_s) {
    std::set<int> hosts;
    for (const auto& set : sets) {
      if (!set.files.empty()) hosts.insert(set.files.front().context.hosts);
      asked_ = asked_ || set.asked_hosts;
    }
    by_nodes_ = asked_ || hosts.size() > 1;
    for (const auto& set : sets) add(set);
  }

  ScalingJudgement run() {
    if (!asked_ && launches_.size() < 2) {
      throw InputError("scaling needs results of at least two numbers of ranks; name them with --scaling");
    }
    std::set<std::string> keys;
    for (const auto& [size, launch] : launches_) {
      for (const auto& [key, benchmark] : launch) keys.insert(key);
    }
    if (by_nodes_) judge_allreduce(keys);
    for (const auto& key : keys) judge_rate(key);
    if (out_.findings.empty()) {
      throw InputError("scaling: no GEMM, HBM or training step was measured with two numbers of ranks");
    }
    return std::move(out_);
  }

 private:
  void add(const ScalingSet& set) {
    if (!set.files.empty()) {
      const Context& context = set.files.front().context;
      launches_[by_nodes_ ? context.hosts : context.world_size] = benchmarks_of(set.files);
    }
    if (!set.asked_hosts) return;
    const int hosts = set.files.empty() ? 0 : set.files.front().context.hosts;
    if (hosts == *set.asked_hosts) asked_sizes_.insert(hosts);
    if (hosts == *set.asked_hosts && set.lost.empty()) return;
    Finding f = finding("machine/scaling", "");
    f.status = Status::missing;
    f.detail = size_text(*set.asked_hosts, "node") + ": " +
               (set.lost.empty() ? hosts == 0 ? "nothing was measured" : std::to_string(hosts) + " were left"
                                 : joined(set.lost) + " was lost");
    out_.findings.push_back(std::move(f));
  }

  static Finding finding(const std::string& key, const std::string& metric) {
    Finding f;
    classify(f, Code::scaling);
    f.key = Key(key);
    f.metric = metric;
    f.judgement = Judgement::crosscheck;
    return f;
  }

  const char* unit() const { return by_nodes_ ? "node" : "rank"; }

  /// A key, and its rate in each launch that has it, by size.
  struct At {
    const Benchmark* benchmark;
    double rate;
  };
  std::map<int, At> of(const std::string& key, const Metric& metric) const {
    std::map<int, At> found;
    for (const auto& [size, launch] : launches_) {
      const auto benchmark = launch.find(key);
      if (benchmark == launch.end()) continue;
      if (const auto rate = rate_of(benchmark->second, metric)) found.emplace(size, At{&benchmark->second, *rate});
    }
    return found;
  }

  ScalingPoint& point(const std::string& key, const Metric& metric, const At& at) {
    const Context& context = *at.benchmark->context;
    return out_.points.emplace_back(
        ScalingPoint{key, std::string(metric.name), context.hosts, context.world_size, at.rate});
  }

  void judge(const ScalingPoint& point, double least, std::string detail, std::string source) {
    Finding f = finding(point.key, point.metric + "_efficiency");
    f.value = point.efficiency;
    f.limit = {LimitKind::min, least};
    f.detail = std::move(detail);
    f.source = std::move(source);
    if (!(*f.value >= least)) {
      f.status = Status::fail;
      f.next = measure_command(point.key, point.ranks);
    }
    out_.findings.push_back(std::move(f));
  }

  void judge_rate(const std::string& key) {
    const auto all = metrics();
    const auto kind = std::find_if(all.begin(), all.end(),
                                   [&](const Metric& m) { return m.least_scaling && m.is_of(family_of(key)); });
    if (kind == all.end() || !key_part(key, "active").empty()) return;
    const auto launches = of(key, *kind);
    const int largest = launches_.rbegin()->first;
    if (by_nodes_ ? launches.empty() : launches.size() < 2 || !launches.contains(largest)) return;
    const auto& [base_size, base] = *launches.begin();
    for (const int size : asked_sizes_) {
      if (!launches.contains(size)) missing(key, size);
    }
    if (by_nodes_ && base_size != 1) {
      if (!asked_sizes_.contains(1)) missing(key, 1);
      return;
    }
    std::string steps;
    for (const auto& [size, at] : launches) {
      const double part = at.rate / base.rate;
      steps += (steps.empty() ? "" : ", ") + size_text(size, unit()) + " " + number_text(at.rate) + " " +
               unit_of(kind->name) + fmt::format(" ({:.1f} %)", 100 * part);
      auto& shown = point(key, *kind, at);
      shown.efficiency = part;
      if (size > base_size) shown.limited_by = loss_of_step(*base.benchmark, *at.benchmark);
      if (size == base_size || (!by_nodes_ && size != largest)) continue;
      judge(
          shown, *kind->least_scaling,
          "of each rank: " + steps + (shown.limited_by.empty() ? "" : "; " + shown.limited_by),
          by_nodes_ ? "the same benchmark on one node: the slowest rank there" : "the same benchmark with fewer ranks");
    }
  }

  void missing(const std::string& key, int nodes) {
    Finding f = finding(key, "");
    f.status = Status::missing;
    f.detail = "has no figure of " + size_text(nodes, "node") +
               (nodes == 1 ? ", but the efficiency is relative to one node" : "");
    out_.findings.push_back(std::move(f));
  }

  void judge_allreduce(const std::set<std::string>& keys) {
    std::string key;  // key of the largest size without a variant that two launches have
    for (const auto& candidate : keys) {
      if (family_of(candidate) != "allreduce" || key_part(candidate, "dtype") != "f32") continue;
      if (Key(candidate).parts().size() != 2) continue;  // the key has a variant, or is measured inside each host
      if (key_number(candidate, "bytes").value_or(0) < key_number(key, "bytes").value_or(0)) continue;
      if (of(candidate, *find_metric(Key(candidate), busbw)).size() > 1) key = candidate;
    }
    if (key.empty()) return;
    const Metric& metric = *find_metric(Key(key), busbw);
    const auto launches = of(key, metric);
    std::optional<double> one_node, nics = host_gb_per_s_;
    std::string source = "the rate of its NICs", network = "NICs: they allow ";
    for (const int size : asked_sizes_) {
      if (size > 1 && !launches.contains(size)) missing(key, size);
    }
    for (const auto& [size, at] : launches) {
      auto& shown = point(key, metric, at);
      if (size == 1) {
        one_node = at.rate;
        continue;
      }
      ClusterShape shape{static_cast<double>(size), static_cast<double>(at.benchmark->context->world_size), 1};
      if (!nics) {
        nics = at.rate / allreduce_limit(shape);
        source = "what " + size_text(size, "node") + " reached";
        network = "the network: by " + source + " it allows ";
        shown.limited_by = "the rate of the NICs is unknown: larger numbers of nodes are compared with this";
        continue;
      }
      shape.host_gb_per_s = *nics;
      const double limit = allreduce_limit(shape);
      const bool node_limits = one_node && *one_node < limit;
      const double expected = node_limits ? *one_node : limit;
      shown.efficiency = at.rate / expected;
      shown.limited_by = node_limits ? "the rate of one node, " + number_text(expected) + " GB/s"
                                     : network + number_text(expected) + " GB/s";
      judge(shown, allreduce_part,
            size_text(size, "node") + ": " + number_text(at.rate) + " GB/s; upper limit: " + shown.limited_by,
            "the smaller of one node's rate and of " + source + " (docs/measuring.md)");
    }
  }

  std::optional<double> host_gb_per_s_;
  bool asked_ = false, by_nodes_ = false;
  std::set<int> asked_sizes_;
  std::map<int, Benchmarks> launches_;  // by number of nodes, or of ranks
  ScalingJudgement out_;
};

}  // namespace

ScalingJudgement judge_scaling(const std::vector<ScalingSet>& sets, std::optional<double> host_gb_per_s) {
  return Scaling(sets, host_gb_per_s).run();
}

}  // namespace shakedown
