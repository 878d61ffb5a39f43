// Tests shakedown rehearse: the cluster that it simulates, the probabilities that it promises, and its text.
#include "report/rehearse.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "tests/nightly.hpp"
#include "tests/thresholds/results_builder.hpp"

namespace shakedown::rehearse_test {
namespace {

using testing_support::Folder;

const std::filesystem::path noise_folder = SHAKEDOWN_SOURCE_DIR "/thresholds/rehearsal/noise";

Arguments with_hosts(int hosts, int gpus = 8) {
  Arguments arguments;
  arguments.rehearsal.hosts = hosts;
  arguments.rehearsal.gpus = gpus;
  return arguments;
}

bool has_fault(const Rehearsal& rehearsal, const std::string& fault) {
  return std::any_of(rehearsal.found.begin(), rehearsal.found.end(), [&](const Found& f) { return f.fault == fault; });
}

TEST(RehearsalPlan, HasTheHostsOfTheRosterAndTheLargestLeafSwitch) {
  const Folder folder;
  folder.write("site.yaml",
               "schema: 2\nsite: here\nroster: [n1, n2, n3, n4, n5]\n"
               "topology: {n1: a, n2: a, n3: a, n4: b, n5: b}\n");
  Arguments arguments;
  arguments.site = folder.path() / "site.yaml";
  const auto plan = rehearsal_plan(arguments, noise_folder);
  EXPECT_EQ(plan.shape.hosts, 5);
  EXPECT_EQ(plan.shape.leaf_hosts, 3);
  EXPECT_TRUE(plan.shape.leaves_are_known);
  arguments.rehearsal.hosts = 12;
  EXPECT_EQ(rehearsal_plan(arguments, noise_folder).shape.hosts, 12) << "the flag is first";
}

TEST(RehearsalPlan, HasFewerClustersTheLargerTheyAre) {
  EXPECT_EQ(rehearsal_plan(with_hosts(16), noise_folder).clusters, 50);
  EXPECT_EQ(rehearsal_plan(with_hosts(17), noise_folder).clusters, 30);
}

TEST(RehearsalPlan, IsRefusedWithoutANumberOfHostsOrWithUnknownNoise) {
  EXPECT_THROW(rehearsal_plan({}, noise_folder), InputError);
  EXPECT_THROW(rehearsal_plan(with_hosts(513), noise_folder), InputError);
  auto arguments = with_hosts(1);
  arguments.rehearsal.noise = "./calm";
  EXPECT_THROW(rehearsal_plan(arguments, noise_folder), InputError) << "a path";
  arguments.rehearsal.noise = "silence";
  try {
    rehearsal_plan(arguments, noise_folder);
    ADD_FAILURE() << "there is no such noise";
  } catch (const InputError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("--noise: \"silence\" "));
  }
}

TEST(Rehearsal, HasOnlyFaultsThatTheClusterCanHave) {
  const auto faults_of = [](int hosts, int gpus, int leaf_hosts) {
    auto plan = rehearsal_plan(with_hosts(hosts, gpus), noise_folder);
    plan.clusters = 1;
    plan.shape.leaf_hosts = leaf_hosts;
    return rehearse(plan, testing_support::shipped_profiles());
  };
  const auto one = faults_of(1, 1, 16), host = faults_of(1, 8, 16), leaf = faults_of(4, 8, 4), two = faults_of(4, 8, 2);
  EXPECT_FALSE(has_fault(one, "NVLink of one GPU"));
  EXPECT_TRUE(has_fault(host, "NVLink of one GPU"));
  EXPECT_FALSE(has_fault(host, "one host") || has_fault(host, "one NIC"));
  EXPECT_TRUE(has_fault(leaf, "one NIC") && has_fault(leaf, "one host"));
  EXPECT_FALSE(has_fault(leaf, "one leaf switch")) << "all hosts are under it";
  EXPECT_TRUE(has_fault(two, "one leaf switch"));
}

TEST(Rehearsal, IsRefusedWhereAHealthyClusterWouldNotPass) {
  auto plan = rehearsal_plan(with_hosts(2, 2), noise_folder);
  plan.clusters = 1;
  EXPECT_THROW(rehearse(plan, testing_support::shipped_profiles()), InputError) << "the rates are those of 8 GPUs";
  plan.shape = {.hosts = 1, .gpus = 8};
  EXPECT_THROW(rehearse(plan, testing_support::profile("")), InputError) << "nothing is judged";
}

// Two independent rates agree if neither is outside of what the other promises.
TEST(Rehearsal, PromisesWhatUnseenClustersShow) {
  auto plan = rehearsal_plan(with_hosts(1), noise_folder);
  plan.clusters = testing_support::is_nightly() ? 100 : 2;
  const auto promised = rehearse(plan, testing_support::shipped_profiles());
  plan.seed = 500'001;
  const auto seen = rehearse(plan, testing_support::shipped_profiles());
  ASSERT_EQ(promised.found.size(), seen.found.size());
  for (std::size_t i = 0; i < seen.found.size(); ++i) {
    const auto &a = promised.found[i], &b = seen.found[i];
    EXPECT_EQ(a.fault, b.fault);
    EXPECT_LE(1 - binomial_upper_bound(a.of - a.named, a.of, 0.025), binomial_upper_bound(b.named, b.of, 0.025))
        << a.fault << " " << a.part << ": " << a.named << " and " << b.named;
    EXPECT_LE(1 - binomial_upper_bound(b.of - b.named, b.of, 0.025), binomial_upper_bound(a.named, a.of, 0.025))
        << a.fault << " " << a.part << ": " << a.named << " and " << b.named;
  }
}

TEST(Rehearsal, TextHasIntervalsAndClausesOfWhatIsFoundForSure) {
  auto plan = rehearsal_plan(with_hosts(2), noise_folder);
  plan.clusters = 100;
  const Rehearsal rehearsal{{{"one NIC", 0.03, 10, 100}, {"one NIC", 0.05, 93, 100}, {"one NIC", 0.1, 100, 100}}, 1, 2};
  const auto text = rehearsal_text(plan, rehearsal);
  for (const auto* part :
       {"rehearsal: 2 hosts with 8 GPUs each, as if each leaf switch had 2; quick tier, rates of H200, noise "
        "\"mixed\", "
        "seeds from 1\n",
        "  one NIC                 10/100 (5 to 18 %)      93/100 (86 to 97 %)     100/100 (96 to 100 %)\n",
        "A healthy part is named in 1 of 300 (at most 1.6 %) of the clusters with a fault.\n",
        "A cluster without a fault does not pass in 2 of 100 (at most 6.2 %).\n",
        "3. If slow by 10 % or more, one NIC is named with a probability of at least 97 %.\n",
        "4. A cluster without a fault does not pass with a probability of at most 6.2 %.\n", "--plan --ranks=16\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find("by 5 % or more"), std::string::npos) << "its bound is below 90 %";
  const Rehearsal nothing{{{"one NIC", 0.03, 0, 100}, {"one NIC", 0.05, 0, 100}, {"one NIC", 0.1, 60, 100}}, 0, 0};
  EXPECT_NE(rehearsal_text(plan, nothing).find(" 60 of 100 "), std::string::npos);
  plan.clusters = 28;
  EXPECT_NE(rehearsal_text(plan, nothing).find("--clusters=29"), std::string::npos);
}

}  // namespace
}  // namespace shakedown::rehearse_test
