// Changes every figure of stored healthy runs by itself. No changed run may pass, unless the catalogue says why the
// change is harmless. Facts of pre-flight are tested with the profiles instead.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <iterator>
#include <map>
#include <regex>
#include <set>

#include "tests/nightly.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/judge/judge.hpp"

namespace shakedown::falsified_test {
namespace {

const std::filesystem::path root = SHAKEDOWN_SOURCE_DIR;

/// One change in nine is tried outside of the nightly tests.
const std::size_t stride = testing_support::is_nightly() ? 1 : 9;

using Value = std::optional<double>;

struct Change {
  const char* name;
  Value (*of)(double);
};
constexpr std::array<Change, 7> changes{{
    {"x 10", [](double v) { return Value(v * 10); }},
    {"/ 10", [](double v) { return Value(v / 10); }},
    {"x 1.3", [](double v) { return Value(v * 1.3); }},
    {"/ 1.3", [](double v) { return Value(v / 1.3); }},
    {"negated", [](double v) { return Value(-v); }},
    {"dropped", [](double) { return Value(); }},
    {"x 0.9, against the others", [](double v) { return Value(v * 0.9); }},
}};

enum class Where { run, rank, everywhere };
constexpr std::array<std::string_view, 3> words_of_where{"of the run", "of one rank", "everywhere"};

/// False if there is nothing to change.
bool falsify(Row& row, const std::string& metric, Where where, const Change& change) {
  bool changed = false;
  if (const auto run = row.metrics.find(metric); where != Where::rank && run != row.metrics.end()) {
    const Value value = change.of(run->second);
    changed = value != run->second;
    if (value) {
      run->second = *value;
    } else {
      row.metrics.erase(run);
    }
  }
  const auto column = row.by_rank.find(metric);
  if (where == Where::run || column == row.by_rank.end()) return changed;
  const auto last = std::make_reverse_iterator(column->second.end());
  const auto first = std::make_reverse_iterator(column->second.begin());
  for (auto rank = last; rank != first; ++rank) {
    if (!*rank) continue;
    const Value value = change.of(**rank);
    changed = changed || value != *rank;
    *rank = value;
    if (where == Where::rank) break;
  }
  if (where == Where::everywhere && change.name == std::string_view("dropped")) row.by_rank.erase(column);
  return changed;
}

std::set<std::string> metrics_of(const Row& row) {
  std::set<std::string> names;
  for (const auto& [name, value] : row.metrics) names.insert(name);
  for (const auto& [name, values] : row.by_rank) names.insert(name);
  return names;
}

struct Count {
  std::size_t tried = 0, harmless = 0;
  std::vector<std::string> unexplained;
};

class StoredRun {
 public:
  StoredRun(const std::string& folder, bool whole)
      : files_(read_results(std::vector{root / folder})), all_(load_profiles(root / "thresholds/h200-sxm.yaml")) {
    if (!whole) keep_rules_of_what_was_measured();
    for (const Results& file : files_) {
      References& own = of_family_.emplace(family_of(file.rows.front().key), all_).first->second;
      std::erase_if(own.profiles.front().rules,
                    [&](const Rule& rule) { return family_of(rule.benchmark) != family_of(file.rows.front().key); });
    }
  }

  /// One of this number of changes is tried.
  void falsify_all(std::size_t one_of, Count& count) {
    const Verdict healthy = judge(Measured(files_), all_, {});
    for (const Finding& f : healthy.findings) ASSERT_TRUE(f.good() || !f.counts()) << f.key << " " << f.detail;
    ASSERT_EQ(healthy.state, State::pass) << verdict_line(healthy);
    for (std::size_t i = 0; i < files_.size(); ++i) {
      if (files_[i].rows.empty() || family_of(files_[i].rows.front().key) == "preflight") continue;
      for (std::size_t r = 0; r < files_[i].rows.size(); ++r) falsify_row(i, r, one_of, count);
    }
  }

 private:
  void keep_rules_of_what_was_measured() {
    std::set<std::string> measured;
    for (const Results& file : files_) {
      for (const Row& row : file.rows) {
        measured.insert(row.key);
        measured.insert(std::regex_replace(row.key.text(), std::regex("/src:[0-9]+/dst:[0-9]+/"), "/src:*/dst:*/"));
        measured.insert(std::regex_replace(row.key.text(), std::regex("(shift|rank):[0-9]+"), "$1:*"));
      }
    }
    std::erase_if(all_.profiles.front().rules, [&](const Rule& rule) { return !measured.contains(rule.benchmark); });
  }

  void falsify_row(std::size_t file, std::size_t r, std::size_t one_of, Count& count) {
    const Row before = files_[file].rows[r];
    if (before.error || before.waived) return;
    for (const std::string& metric : metrics_of(before)) {
      for (const Where where : {Where::run, Where::rank, Where::everywhere}) {
        for (const Change& change : changes) {
          if (++turn_ % one_of != 0) continue;
          Row row = before;
          if (!falsify(row, metric, where, change)) continue;
          ++count.tried;
          files_[file].rows[r] = std::move(row);
          if (!passes_alone(file)) continue;
          const Metric* known = find_metric(before.key, metric);
          const bool drops = change.name == std::string_view("dropped");
          if (known != nullptr && !(drops ? known->may_lack : known->harmless).empty()) {
            ++count.harmless;
          } else if (judge(Measured(files_), all_, {}).state == State::pass) {
            count.unexplained.push_back(fmt::format("{} {} {}, {}", before.key, metric,
                                                    words_of_where[static_cast<std::size_t>(where)], change.name));
          }
        }
      }
    }
    files_[file].rows[r] = before;
  }

  /// A value that fails by itself also fails among others.
  bool passes_alone(std::size_t file) const {
    JudgeOptions options;
    const std::string family = family_of(files_[file].rows.front().key);
    options.families = {{family}};
    const Measured alone(std::vector<Results>(1, files_[file]));
    return is_good(judge(alone, of_family_.at(family), options).state);
  }

  std::vector<Results> files_;
  References all_;
  std::map<std::string, References> of_family_;
  std::size_t turn_ = 0;
};

TEST(FalsifiedRuns, PassNowhereUnlessTheCatalogueSaysWhy) {
  Count count;
  StoredRun("tests/data/h200-sxm-4ranks-full/1", true).falsify_all(stride, count);
  StoredRun("ci/baselines/h200-sxm/2ranks/1", true).falsify_all(5 * stride, count);
  StoredRun("tests/data/h200-sxm-4ranks", false).falsify_all(5 * stride, count);
  StoredRun("tests/data/h200-sxm-2ranks", false).falsify_all(5 * stride, count);
  fmt::print("tried {}, passed with a reason {}, unexplained {}\n", count.tried, count.harmless,
             count.unexplained.size());
  EXPECT_GT(count.tried, 20000 / stride);
  for (const std::string& what : count.unexplained) ADD_FAILURE() << what;
}

}  // namespace
}  // namespace shakedown::falsified_test
