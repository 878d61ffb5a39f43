// Tests the limits of the shared storage, and that a host with a slow path to it is named.
#include "thresholds/rules/storage_rules.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/rules/site.hpp"

namespace shakedown::storage_rules_test {
namespace {

using testing_support::Folder;
using testing_support::ResultsBuilder;
using testing_support::Values;

const std::string written = "storage/op:write/bytes:1073741824", read = "storage/op:read/bytes:1073741824",
                  visible = "storage/op:visible";

/// Four hosts with two GPUs each.
class StorageRules : public testing::Test {
 protected:
  Verdict judged(const std::string& limits = "") const {
    const Measured measured{builder.results()};
    const auto profile = testing_support::profile(
        "  - {benchmark: \"preflight/of:folder\", metric: write_gb_per_s, every: host, min: 0.1, source: s}\n");
    if (limits.empty()) return judge(measured, std::vector{on_site(profile.front(), nullptr, measured)}, {});
    const Folder folder;
    const auto site = read_site(
        folder.write("site.yaml", "schema: 2\nsite: here\nstorage: {" + limits + ", source: the contract}\n"));
    return judge(measured, std::vector{on_site(profile.front(), &site, measured)}, {});
  }
  static const Finding& finding(const Verdict& verdict, const std::string& key, const std::string& metric) {
    const auto found = std::ranges::find_if(
        verdict.findings, [&](const Finding& f) { return f.key.text() == key && f.metric == metric; });
    if (found == verdict.findings.end()) throw std::logic_error(key + " has no finding of " + metric);
    return *found;
  }

  ResultsBuilder builder{8, 4};
};

TEST_F(StorageRules, AreNoneWithoutTheFamily) {
  builder.add("hbm/op:copy/engine:sm/bytes:1073741824", "hbm_gb_per_s", 4000);
  EXPECT_TRUE(rules_of_storage({}, Measured{builder.results()}).empty());
}

TEST_F(StorageRules, NameTheHostBelowTheLimitOfTheSite) {
  builder.add(written, "write_gb_per_s", 3, Values{6, 6, 6, 6, 3, 3, 6, 6}).repeated();
  builder.add(read, "read_gb_per_s", 11);
  const auto verdict = judged("write_gb_per_s: 5, read_gb_per_s: 10");
  EXPECT_TRUE(finding(verdict, read, "read_gb_per_s").good());
  const auto& slow = finding(verdict, written, "write_gb_per_s");
  EXPECT_EQ(slow.status, Status::fail);
  EXPECT_EQ(slow.limit->value, 5);
  EXPECT_EQ(slow.worst->host, "node2");
  EXPECT_EQ(slow.part.kind, PartKind::host);
  EXPECT_EQ(slow.source, "the contract");
}

TEST_F(StorageRules, LeaveRatesWithoutALimitUnjudgedAndShowThem) {
  builder.add(read, "read_gb_per_s", 11);
  builder.add(visible, "visible_s", 0.01).by_rank("slowest_visible_s", Values(8, 0.01));
  const auto verdict = judged();
  EXPECT_TRUE(finding(verdict, visible, "slowest_visible_s").good());
  ASSERT_EQ(verdict.unjudged.size(), 1U);
  EXPECT_EQ(verdict.unjudged.front().key.text(), read);
  EXPECT_EQ(verdict.unjudged.front().value, 11);
}

TEST_F(StorageRules, FailAFileThatARankSeesAfterMoreThanASecond) {
  builder.add(visible, "visible_s", 0.1).by_rank("slowest_visible_s", {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 3, 0.1});
  const auto verdict = judged();
  const auto& late = finding(verdict, visible, "slowest_visible_s");
  EXPECT_EQ(late.status, Status::fail);
  EXPECT_EQ(late.worst->rank, 6);
}

TEST_F(StorageRules, AHostThatIsSlowerThanTheOthersIsTheSuspect) {
  builder.add(written, "write_gb_per_s", 1, Values{4, 4, 4, 4, 4, 4, 1, 1}).repeated();
  builder.add(read, "read_gb_per_s", 2, Values{8, 8, 8, 8, 8, 8, 2, 2}).repeated();
  const auto verdict = judged();
  ASSERT_EQ(verdict.culprits.size(), 1U);
  EXPECT_EQ(verdict.culprits.front().causes.front(), Cause::slow_node);
  EXPECT_EQ(verdict.culprits.front().places.front().host, "node3");
}

}  // namespace
}  // namespace shakedown::storage_rules_test
