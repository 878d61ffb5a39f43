// Tests single doubtful values: they are measured again, and count only if they repeat. The number of repetitions of a
// row changes no verdict.
#include "thresholds/units/doubt.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/nightly.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/judge/nodes.hpp"

namespace shakedown::doubt_test {
namespace {

const std::filesystem::path root = SHAKEDOWN_SOURCE_DIR;
const std::string healthy_run = "tests/data/h200-sxm-4ranks-full/1";

/// Returns the folders that have results of GEMM, which each kind of run has.
std::vector<std::string> stored_runs() {
  std::vector<std::string> folders;
  for (const char* part : {"ci/baselines", "tests/data"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / part)) {
      if (entry.path().filename() != "gemm.json") continue;
      folders.push_back(std::filesystem::relative(entry.path().parent_path(), root).string());
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

const References& references() {
  static const References all(load_profiles(root / "thresholds"));
  return all;
}

Verdict judged(const std::vector<Results>& files) {
  JudgeOptions options;
  options.allow_faults = options.mixed_runs = true;
  return judge(Measured(files), references(), options);
}

std::string bad_findings(const std::vector<Results>& files) {
  std::string text;
  for (const Finding& f : judged(files).findings) {
    if (f.counts() && !f.good()) text += fmt::format("\n  {}: {} {}: {}", name(f.status), f.key, f.metric, f.detail);
  }
  return text;
}

/// State, culprits and the decision about each node.
std::string outcome_of(const std::vector<Results>& files) {
  const Verdict verdict = judged(files);
  std::string text(name(verdict.state));
  for (const Diagnosis& d : verdict.culprits) {
    text += fmt::format("; {} {}", d.fails ? "fails" : "notes", causes_text(d));
    for (const Culprit& place : d.places) text += " " + shakedown::text(place);
  }
  for (const NodeDecision& node : decide_nodes(verdict).nodes)
    text += fmt::format("; {} {}", node.host, name(node.state));
  return text;
}

/// Measures the row at `index` `times` times in all, with the same values.
void repeat(std::vector<Row>& rows, std::size_t index, int times) {
  rows[index].repetitions = times;
  const Row row = rows[index];
  for (int i = 1; i < times; ++i) {
    rows.push_back(row);
    rows.back().repetition = i;
  }
}

/// Measures all rows with this key `times` times as often, with the same values.
void repeat_all(std::vector<Row>& rows, const Key& key, int times) {
  std::vector<Row> same;
  std::ranges::copy_if(rows, std::back_inserter(same), [&](const Row& row) { return row.key == key; });
  const auto once = static_cast<int>(same.size());
  for (int i = 1; i < times; ++i) {
    for (Row& row : same) {
      row.repetition += once;
      rows.push_back(row);
    }
  }
  for (Row& row : rows) row.repetitions = row.key == key ? once * times : row.repetitions;
}

std::map<std::string, std::vector<RankData>> by_key(const std::vector<Row>& rows) {
  std::map<std::string, std::vector<RankData>> measured;
  for (const Row& row : rows) measured[row.key].push_back(row);
  return measured;
}

bool has(const std::vector<Doubt>& doubts, const std::string& key) {
  return std::ranges::any_of(doubts, [&](const Doubt& doubt) { return doubt.key == key; });
}

bool is_measured(const Row& row) {
  return !row.error && !row.waived && row.by_rank.contains("seconds") && family_of(row.key) != "preflight";
}

bool is_rate_or_time(const Row& row, const std::string& metric) {
  const Metric* known = find_metric(row.key, metric);
  return metric == "seconds" || metric == "tflops_per_w" || metric == "algbw_gb_per_s" ||
         (known != nullptr && (known->work != nullptr || known->peers));
}

/// Sets a rank to `factor` of its rate, which is then that of the row; for a collective all ranks. False if the row has
/// no value of the rank.
bool stall(Row& row, std::size_t rank, double factor) {
  const bool all = is_collective(family_of(row.key));
  const auto scale = [&](const std::string& metric, double& value) {
    value = metric == "seconds" || lower_is_better(metric) ? value / factor : value * factor;
  };
  bool changed = false;
  const auto slowest = [&row] {
    const auto& seconds = row.by_rank["seconds"];
    return (*std::max_element(seconds.begin(), seconds.end())).value_or(1);
  };
  const double before = slowest();
  for (auto& [metric, values] : row.by_rank) {
    if (!is_rate_or_time(row, metric) || metric == "capacity_gb") continue;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!values[i] || (!all && i != rank)) continue;
      scale(metric, *values[i]);
      changed = true;
    }
  }
  if (!changed) return false;
  const double longer = slowest() / before;
  for (auto& [metric, value] : row.metrics) {
    const auto column = row.by_rank.find(metric);
    const bool known = column != row.by_rank.end() && rank < column->second.size() && column->second[rank];
    if (metric.ends_with("_per_second")) {
      value /= longer;
    } else if (!all && known) {
      value = *column->second[rank];
    } else if (is_rate_or_time(row, metric) || metric.ends_with("_us")) {
      scale(metric, value);
    }
  }
  row.real_time *= longer;
  return true;
}

/// Sizes that differ by a factor of 4: the others show that one is off.
bool is_of_sweep(const std::string& key) {
  return key.starts_with("allreduce/dtype:f32/bytes:") && std::count(key.begin(), key.end(), '/') == 2 &&
         key_number(key, "bytes") >= std::int64_t{1} << 24;
}

/// Training steps take seconds; pairs of hosts have rounds of their own.
bool may_stall(const Row& row) { return is_measured(row) && !is_training(family_of(row.key)); }

/// A collective has one figure for all ranks, a bidirectional copy one for two.
bool accuses_one_rank(const std::string& key) {
  return !is_collective(family_of(key)) && key_part(key, "dir") != "both";
}

// The nightly tests try each row once, and the numbers of measurements in turn.
TEST(AVerdict, DoesNotDependOnHowOftenARowWasMeasured) {
  const std::vector<int> numbers{2, 3, 5};
  std::size_t turn = 0, tried = 0;
  for (const std::string& folder : stored_runs()) {
    auto files = read_results(std::vector{root / folder});
    // On the host backend, a copy that is slow in each measurement is a warning, and in the only one it is none.
    const bool on_host = files.front().context.backend == Backend::host;
    const auto outcome = [&] {
      const std::string text = outcome_of(files);
      return on_host ? text.substr(0, text.find(';')) : text;
    };
    const std::string before = outcome();
    for (Results& file : files) {
      for (std::size_t i = 0, n = file.rows.size(); i < n; ++i) {
        if (!is_measured(file.rows[i]) || (++turn % 60 != 0 && !testing_support::is_nightly())) continue;
        const auto rows = file.rows;
        for (const int times : testing_support::is_nightly() ? std::vector{numbers[turn % 3]} : numbers) {
          repeat_all(file.rows, rows[i].key, times);
          EXPECT_EQ(outcome(), before) << folder << ": " << rows[i].key << " " << times << " times";
          ++tried;
          file.rows = rows;
        }
      }
    }
  }
  EXPECT_GT(tried, 100u);
}

TEST(AHealthyRun, HasHardlyAnyRowInDoubt) {
  for (const std::string& folder : stored_runs()) {
    std::size_t rows = 0;
    std::string doubts;
    for (const Results& file : read_results(std::vector{root / folder})) {
      for (const Doubt& doubt : rows_in_doubt(by_key(file.rows), 0)) {
        ++rows;
        doubts += "\n  " + doubt.key;
      }
    }
    EXPECT_LE(rows, 3u) << folder << doubts;
  }
}

TEST(AValueThatIsOffOnce, IsMeasuredAgainAndThenForgotten) {
  auto files = read_results(std::vector{root / healthy_run});
  const std::string healthy = outcome_of(files);
  ASSERT_TRUE(healthy.starts_with("PASS"));
  std::size_t turn = 0, tried = 0;
  for (Results& file : files) {
    for (std::size_t i = 0, n = file.rows.size(); i < n; ++i) {
      if (!may_stall(file.rows[i]) || (!testing_support::is_nightly() && ++turn % 4 != 0)) continue;
      const auto rows = file.rows;
      const bool collective = is_collective(family_of(rows[i].key));
      if (collective ? !is_of_sweep(rows[i].key) : !accuses_one_rank(rows[i].key)) continue;
      for (std::size_t rank = 0; rank < 4; ++rank) {
        if (!stall(file.rows[i], rank, 0.6)) continue;
        ++tried;
        const bool doubted = has(rows_in_doubt(by_key(file.rows), 0), rows[i].key);
        const bool alone =
            std::count_if(rows.begin(), rows.end(), [&](const Row& row) { return row.key == rows[i].key; }) == 1;
        EXPECT_TRUE(doubted || !alone) << rows[i].key << " rank " << rank;
        const std::string once = outcome_of(files);
        EXPECT_TRUE(collective || !once.starts_with("FAIL"))
            << rows[i].key << " rank " << rank << ": " << once << bad_findings(files);
        for (int k = 1; k < 3; ++k) {
          file.rows.push_back(rows[i]);
          file.rows.back().repetition = k;
        }
        EXPECT_EQ(outcome_of(files), healthy) << rows[i].key << " rank " << rank << bad_findings(files);
        file.rows = rows;
      }
    }
  }
  EXPECT_GT(tried, 20u);
}

bool may_fail(const std::vector<Results>& files, const Key& key) {
  const auto findings = judged(files).findings;
  return std::ranges::any_of(findings, [&](const Finding& f) { return f.key == key && f.counts() && !f.good(); });
}

std::size_t measurements(const std::vector<Row>& rows, const Key& key) {
  return static_cast<std::size_t>(std::ranges::count(rows, key, &Row::key));
}

// A stall of one rank makes a collective of all ranks slow.
TEST(ACollectiveThatMissesALimitOnce, IsMeasuredAgainAndNeverFailsAlone) {
  std::size_t turn = 0, tried = 0;
  for (const std::string& folder : stored_runs()) {
    auto files = read_results(std::vector{root / folder});
    const std::string healthy = outcome_of(files);
    if (files.front().context.backend == Backend::host || !healthy.starts_with("PASS")) continue;
    for (Results& file : files) {
      for (std::size_t i = 0, n = file.rows.size(); i < n; ++i) {
        const auto rows = file.rows;
        const Key key = rows[i].key;
        if (!is_collective(key.family()) || !is_measured(rows[i]) || measurements(rows, key) > 1) continue;
        if (!testing_support::is_nightly() && ++turn % 20 != 0) continue;
        if (!stall(file.rows[i], 0, 0.4)) continue;
        if (may_fail(files, key)) {
          ++tried;
          const std::string outcome = outcome_of(files);
          EXPECT_TRUE(outcome.starts_with("INCONCLUSIVE")) << folder << ": " << key << ": " << outcome;
          EXPECT_TRUE(has(collectives_in_doubt({file}, references().profiles, nullptr), key)) << folder << ": " << key;
          const auto slow = file.rows;
          repeat(file.rows, i, 3);
          EXPECT_TRUE(outcome_of(files).starts_with("FAIL")) << folder << ": " << key << " is slow each time";
          EXPECT_FALSE(has(collectives_in_doubt({file}, references().profiles, nullptr), key)) << "three are enough";
          file.rows = slow;
          for (int k = 1; k < 3; ++k) {
            file.rows.push_back(rows[i]);
            file.rows.back().repetition = k;
          }
          EXPECT_EQ(outcome_of(files), healthy) << folder << ": " << key << bad_findings(files);
        }
        file.rows = rows;
      }
    }
  }
  EXPECT_GT(tried, 5u);
}

TEST(TwoCollectivesThatMissLimits, ConfirmEachOther) {
  auto files = read_results(std::vector{root / healthy_run});
  std::size_t slow = 0;
  for (Results& file : files) {
    for (Row& row : file.rows) {
      if (is_of_sweep(row.key) && slow < 2 && stall(row, 0, 0.4)) ++slow;
    }
  }
  ASSERT_EQ(slow, 2u);
  EXPECT_TRUE(outcome_of(files).starts_with("FAIL"));
}

void expect_failure(double factor, bool (*is_tried)(const Row&)) {
  auto files = read_results(std::vector{root / healthy_run});
  std::size_t turn = 0, tried = 0;
  for (Results& file : files) {
    for (std::size_t i = 0, n = file.rows.size(); i < n; ++i) {
      if (!may_stall(file.rows[i]) || (!testing_support::is_nightly() && ++turn % 4 != 0)) continue;
      const auto rows = file.rows;
      if (!accuses_one_rank(rows[i].key) || !is_tried(rows[i]) || !stall(file.rows[i], 1, factor)) continue;
      ++tried;
      repeat(file.rows, i, 3);
      const std::string outcome = outcome_of(files);
      EXPECT_TRUE(outcome.starts_with("FAIL") && outcome.find("rank 1") != std::string::npos)
          << rows[i].key << ": " << outcome << bad_findings(files);
      file.rows = rows;
    }
  }
  EXPECT_GT(tried, 5u);
}

TEST(AValueThatIsOffEachTime, FailsAndNamesItsRank) { expect_failure(0.6, is_measured); }

TEST(AValueThatIsOffEachTime, FailsBy10PercentWhereHealthyGpusAgree) {
  expect_failure(0.9, [](const Row& row) {
    const std::string family = family_of(row.key);
    return family == "hbm" || (family == "p2p" && key_part(row.key, "op") != "latency");
  });
}

}  // namespace
}  // namespace shakedown::doubt_test
