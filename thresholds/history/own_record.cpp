#include "thresholds/history/own_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "thresholds/catalogue/families.hpp"
#include "thresholds/catalogue/metrics.hpp"

namespace shakedown {
namespace {

// Between launches on the same GPUs, bursts of GEMM differ by 0.6 %, HBM and copies by 0.1 % and large collectives by
// 0.3 % (standard deviations of ci/baselines/h200-sxm; thresholds/rehearsal/noise/calm.yaml).
constexpr double max_loss = 0.03, max_loss_of_collective = 0.05;

/// A figure, with the earlier one.
struct OwnFigure {
  const Key* key;
  std::string metric;
  double value, before;

  double loss() const { return 1 - value / before; }
};

/// The figures of one family of a GPU, or of the node if there is no rank.
struct OwnFigures {
  std::string family;
  std::optional<std::size_t> rank;
  std::vector<OwnFigure> rows;

  /// Returns the figure with the loss that most rows confirm: the lower median.
  const OwnFigure& middle() const { return rows[(rows.size() - 1) / 2]; }
};

class OwnComparison {
 public:
  /// Returns the record of a rank; null if it has none.
  using RecordOf = std::function<const OwnRecord*(const RankFacts&)>;

  /// `shared` is the record of figures of all GPUs together; null if there is none.
  OwnComparison(RecordOf record_of, const OwnRecord* shared) : record_of_(std::move(record_of)), shared_(shared) {}

  void add(const Key& key, const Benchmark& benchmark) {
    const std::string metric = headline_metric(benchmark);
    if (metric.empty() || lower_is_better(metric)) return;
    const FigureName name(key, metric);
    if (shared_ != nullptr && shared_->shared.contains(name)) {
      if (const auto value = run_value(benchmark, metric))
        add(std::nullopt, {&key, metric, *value, shared_->shared.at(name)});
      return;
    }
    const RankValues values = rank_values(benchmark, metric);
    for (std::size_t rank = 0; rank < std::min(values.size(), benchmark.context->ranks.size()); ++rank) {
      const RankFacts& facts = benchmark.context->ranks[rank];
      const OwnRecord* const record = values[rank] ? record_of_(facts) : nullptr;
      if (record == nullptr) continue;
      const auto gpu = record->by_gpu.find(gpu_id(facts));
      if (gpu == record->by_gpu.end()) continue;
      const auto before = gpu->second.find(name);
      if (before != gpu->second.end()) add(rank, {&key, metric, *values[rank], before->second});
    }
  }

  /// Returns the groups, each with its rows by rising loss.
  std::vector<OwnFigures> groups() && {
    std::vector<OwnFigures> all;
    for (auto& [name, group] : groups_) {
      std::ranges::stable_sort(group.rows, {}, &OwnFigure::loss);
      all.push_back(std::move(group));
    }
    return all;
  }

 private:
  void add(std::optional<std::size_t> rank, OwnFigure row) {
    OwnFigures& group = groups_[{row.key->family(), rank}];
    group.family = row.key->family();
    group.rank = rank;
    group.rows.push_back(std::move(row));
  }

  RecordOf record_of_;
  const OwnRecord* shared_;
  std::map<std::pair<std::string, std::optional<std::size_t>>, OwnFigures> groups_;
};

double allowed_loss(const OwnFigures& group) { return is_collective(group.family) ? max_loss_of_collective : max_loss; }

/// Returns the finding of a family from its slow groups, the slowest first.
Finding own_finding(const std::vector<const OwnFigures*>& slow, const OwnRecord& record, const Context& context) {
  const OwnFigures& group = *slow.front();
  const OwnFigure& row = group.middle();
  Finding finding;
  classify(finding, Code::baseline, group.rows.size());
  finding.key = *row.key;
  finding.metric = row.metric + "_vs_own";
  finding.judgement = Judgement::baseline;
  finding.status = Status::fail;
  if (context.backend == Backend::host) finding.severity = Severity::warn;
  finding.value = row.value;
  finding.unit = unit_of(row.metric);
  finding.limit = {LimitKind::min, row.before * (1 - allowed_loss(group))};
  finding.detail = fmt::format("{:.1f} % below its own median of {} ({} {}), by the median of {}", 100 * row.loss(),
                               plural(record.runs, "accepted run"), number_text(row.before), finding.unit,
                               plural(group.rows.size(), "row"));
  finding.source = "ledger, newest run " + record.newest;
  std::vector<Culprit> offenders;
  for (const OwnFigures* const one : slow) {
    if (one->rank) offenders.push_back(culprit(context.ranks[*one->rank], one->middle().value));
  }
  name_offenders(finding, std::move(offenders));
  finding.next = measure_command(finding.key, context.world_size);
  return finding;
}

/// Returns the figures of each GPU and family that are in its record.
template <class IsWanted>
std::vector<OwnFigures> compared_figures(const Measured& measured, OwnComparison comparison,
                                         const IsWanted& is_wanted) {
  for (const auto& [key, benchmark] : measured.benchmarks) {
    if (benchmark.error() == nullptr && benchmark.waiver() == nullptr && is_wanted(key)) comparison.add(key, benchmark);
  }
  return std::move(comparison).groups();
}

}  // namespace

std::string gpu_id(const RankFacts& facts) { return facts.serial.value_or(facts.uuid.value_or("")); }

OwnRecordJudgement judge_own_record(const Measured& measured, const OwnRecord& record) {
  OwnRecordJudgement judgement;
  if (record.runs == 0) {
    judgement.summary = "no accepted run of these GPUs with this software in the ledger";
    return judgement;
  }
  const OwnComparison comparison([&](const RankFacts&) { return &record; }, &record);
  const std::vector<OwnFigures> groups = compared_figures(measured, comparison, [](const Key&) { return true; });
  std::map<std::string, std::vector<const OwnFigures*>> slow;
  std::size_t rows = 0;
  for (const OwnFigures& group : groups) {
    rows += group.rows.size();
    if (group.middle().loss() > allowed_loss(group)) slow[group.family].push_back(&group);
  }
  std::vector<std::string> families;
  for (auto& [family, of_family] : slow) {
    families.push_back(family);
    std::ranges::stable_sort(of_family, std::greater(), [](const OwnFigures* group) { return group->middle().loss(); });
    judgement.findings.push_back(own_finding(of_family, record, measured.files.front().context));
  }
  judgement.summary = fmt::format("{} compared with {} of the same GPUs, newest {}: {}", plural(rows, "figure"),
                                  plural(record.runs, "accepted run"), record.newest,
                                  slow.empty() ? "none is slower" : "slower in " + joined(families));
  return judgement;
}

std::map<std::string, OwnDrift> own_drifts(const Measured& measured, const std::map<std::string, OwnRecord>& by_host) {
  const Context& context = measured.files.front().context;
  const auto record_of = [&](const RankFacts& rank) -> const OwnRecord* {
    const auto index = static_cast<std::size_t>(rank.rank);
    const auto found = by_host.find(rank.host);
    const bool is_here = index < context.ranks.size() && context.ranks[index].host == rank.host;
    return is_here && found != by_host.end() ? &found->second : nullptr;
  };
  const bool has_shared = context.hosts == 1 && !by_host.empty();
  const OwnComparison comparison(record_of, has_shared ? &by_host.begin()->second : nullptr);
  const auto groups = compared_figures(measured, comparison, [](const Key& key) {
    const FamilyRow* const family = family_row(key.family());
    return family != nullptr && family->in_gate;
  });
  const auto part_of_limit = [](const OwnFigures& group) { return group.middle().loss() / allowed_loss(group); };
  std::map<std::string, const OwnFigures*> worst;  // by host
  for (const OwnFigures& group : groups) {
    const auto [of_host, fresh] = worst.emplace(context.ranks[group.rank.value_or(0)].host, &group);
    if (!fresh && part_of_limit(group) > part_of_limit(*of_host->second)) of_host->second = &group;
  }
  std::map<std::string, OwnDrift> drifts;
  for (const auto& [host, group] : worst) {
    const std::string gpu = group->rank ? gpu_id(context.ranks[*group->rank]) : "";
    drifts[host] = {group->family, gpu, -100 * group->middle().loss(), by_host.at(host).runs,
                    part_of_limit(*group) > 1};
  }
  return drifts;
}

}  // namespace shakedown
