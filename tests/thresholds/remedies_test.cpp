// Tests the table of remedies and its use in verdicts.
#include "thresholds/catalogue/remedies.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "base/files.hpp"
#include "base/process.hpp"
#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/headline.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/judge/nodes.hpp"

namespace shakedown::remedies_test {
namespace {

using testing_support::shipped_profiles;

TEST(Remedies, HaveARowForEachFactThatCanFailARun) {
  for (const Profile& profile : shipped_profiles()) {
    for (const Rule& rule : profile.rules) {
      if (family_of(rule.benchmark) != "preflight" || rule.severity != Severity::fail) continue;
      if (rule.metric == "dcgm_failed") continue;  // its next step is the same test, with the requested level
      EXPECT_TRUE(remedy_of(rule.metric, "GPU-1", "1").has_value()) << profile.name << ": " << rule.metric;
    }
  }
}

TEST(Remedies, AreOfFactsThatARuleNames) {
  std::set<std::string> ruled{"nics", "rail_names"};  // a site file orders them
  for (const Profile& profile : shipped_profiles()) {
    for (const Rule& rule : profile.rules) ruled.insert(rule.metric);
  }
  for (const RemedyRow& row : remedy_rows()) EXPECT_TRUE(ruled.contains(std::string(row.fact))) << row.fact;
}

TEST(Remedies, NameTheGpuAndTheLimitInTheCommand) {
  EXPECT_EQ(remedy_of("mig", "GPU-4f2a", "0")->command, "nvidia-smi -i GPU-4f2a -mig 0");
  EXPECT_EQ(remedy_of("power_limit_w", "GPU-4f2a", "700")->command, "nvidia-smi -i GPU-4f2a -pl 700");
  EXPECT_FALSE(remedy_of("no_such_fact", "GPU-4f2a", "0").has_value());
}

TEST(Remedies, HaveTheirFactAsId) {
  for (const RemedyRow& row : remedy_rows()) EXPECT_EQ(name(*remedy_of(row.fact, "GPU-1", "0")->id), row.fact);
  EXPECT_EQ(remedy_named("no_such_fact"), std::nullopt);
}

Verdict with_fact(const std::string& key, const std::string& fact, double value) {
  return judge(Measured(testing_support::stored_run_with(key, fact, value)), References(shipped_profiles()), {});
}

TEST(Remedies, AreTheNextStepOfAFactAndNotTheSameMeasurementAgain) {
  const Verdict verdict = with_fact("preflight/of:gpu", "remap_pending", 1);
  const Headline headline = headline_of(verdict);
  EXPECT_EQ(headline.fault.next, "ssh vm nvidia-smi --gpu-reset -i GPU-e3e30726-1cf2-f144-a5a1-90232b968f48");
  EXPECT_TRUE(headline.fault.what.ends_with(": remap_pending is 1, must be 0"));
}

TEST(Remedies, DecideWhetherANodeNeedsHands) {
  const auto action = [](const std::string& key, const std::string& fact, double value) {
    const NodeList list = decide_nodes(with_fact(key, fact, value));
    EXPECT_EQ(list.nodes.at(0).state, NodeState::bad) << fact;
    return list.nodes.at(0).action;
  };
  EXPECT_EQ(action("preflight/of:gpu", "remap_pending", 1), Action::reset);
  EXPECT_EQ(action("preflight/of:gpu", "mig", 1), Action::reset);
  EXPECT_EQ(action("preflight/of:nvlink", "fabric_trouble", 1), Action::reset);
  EXPECT_EQ(action("preflight/of:gpu", "remap_failed", 1), Action::isolate);
  EXPECT_EQ(action("preflight/of:gpu", "pcie_width", 8), Action::isolate);
  EXPECT_EQ(action("preflight/of:host", "gpus_missing", 1), Action::isolate);
}

TEST(Remedies, AreRefusedWithLineAndColumn) {
  const testing_support::Folder folder;
  const auto table = folder.path() / "table.hpp";
  const auto refusal = [&](const std::string& text) {
    const auto output =
        output_of({REMEDIES_TABLE, folder.write("r.yaml", text).string(), table.string()}, std::chrono::minutes(1));
    EXPECT_EQ(output.code, 2) << text;
    EXPECT_FALSE(std::filesystem::exists(table));
    return output.text;
  };
  const std::string row = "- {fact: mig, means: m, action: setting, command: c, source: s}\n";
  for (const auto& [text, reason] : std::vector<std::pair<std::string, std::string>>{
           {row + row, ":2:10: duplicate fact \"mig\""},
           {"- {fact: mig, means: m, action: setting, command: c}\n", "a row without \"source\""},
           {"- {fact: mig, means: m, action: pray, command: c, source: s}\n", "pray"},
           {"- {fact: mig, means: m, action: setting, command: 'c {host}', source: s}\n", "unknown placeholder {host}"},
           {"- {fact: mig, means: m, action: setting, command: 'c; d', source: s}\n", "more than a command"},
           {"- {fact: 'a b', means: m, action: setting, command: c, source: s}\n", "not a name"}}) {
    EXPECT_NE(refusal(text).find(reason), std::string::npos) << text << refusal(text);
  }
}

}  // namespace
}  // namespace shakedown::remedies_test
