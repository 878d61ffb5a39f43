// The state of a node in Slurm, from lines as scontrol prints them.
#include "node/slurm.hpp"

#include <gtest/gtest.h>

#include <string>

namespace shakedown::slurm_test {
namespace {

/// Returns a node as Slurm 22.05 and 23.11 print it.
std::string node(const std::string& name, const std::string& gres, const std::string& state,
                 const std::string& reason = "") {
  return "NodeName=" + name + " Arch=x86_64 CoresPerSocket=52  CPUAlloc=0 CPUEfctv=208 CPUTot=208 CPULoad=0.42 " +
         "AvailableFeatures=(null) ActiveFeatures=(null) Gres=" + gres + " NodeAddr=" + name + " NodeHostName=" + name +
         " Version=23.11.4 OS=Linux 6.8.0-31-generic #31-Ubuntu SMP PREEMPT_DYNAMIC Sat Apr 20 00:40:06 UTC 2024  " +
         "RealMemory=2063000 AllocMem=0 FreeMem=2010000 Sockets=2 Boards=1 State=" + state +
         " ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=main " +
         (reason.empty() ? "" : "Reason=" + reason + " [root@2026-11-22T10:00:00]") + "\n";
}

TEST(SlurmFacts, OfANodeInOrderHaveNothingToSay) {
  const auto facts = slurm_facts(node("gpu1", "gpu:h200:8(S:0-1)", "MIXED"), "gpu1", 8);
  EXPECT_EQ(facts.at("slurm_answers").number, 1);
  EXPECT_EQ(facts.at("slurm_state").text, "MIXED");
  for (const auto* name : {"slurm_drained", "slurm_gpus_missing", "slurm_gpus_unlisted"}) {
    EXPECT_EQ(facts.at(name).number, 0) << name;
    EXPECT_FALSE(facts.at(name).text) << name;
  }
}

TEST(SlurmFacts, SayWhyANodeGetsNoMoreJobs) {
  const auto answer = node("gpu1", "gpu:8", "IDLE") + node("gpu10", "gpu:8", "ALLOCATED+DRAIN", "bad fan in slot 3");
  EXPECT_EQ(slurm_facts(answer, "gpu1", 8).at("slurm_drained").number, 0);
  const auto drained = slurm_facts(answer, "gpu10", 8).at("slurm_drained");
  EXPECT_EQ(drained.number, 1);
  EXPECT_EQ(drained.text, "ALLOCATED+DRAIN: bad fan in slot 3");
}

TEST(SlurmFacts, CountGpusThatSlurmPromisesAndTheMachineHasNot) {
  const auto promised = [](const std::string& gres, std::optional<double> gpus) {
    return slurm_facts(node("gpu1", gres, "IDLE"), "gpu1", gpus);
  };
  const auto missing = promised("gpu:h200:8(S:0-1),nvme:2", 7).at("slurm_gpus_missing");
  EXPECT_EQ(missing.number, 1);
  EXPECT_EQ(missing.text, "Slurm has 8, the PCI bus 7");
  EXPECT_EQ(promised("gpu:h200:4,gpu:h100:4", 8).at("slurm_gpus_missing").number, 0);
  EXPECT_EQ(promised("(null)", 8).at("slurm_gpus_unlisted").number, 8);
  EXPECT_EQ(promised("gpu:8", std::nullopt).at("slurm_gpus_missing").number, std::nullopt);
}

TEST(SlurmFacts, CountNoSliceOfAGpuAsAGpu) {
  const auto facts =
      slurm_facts(node("gpu1", "gpu:1g.10gb:7(S:0),gpu:2g.20gb.me:2,gpu:h100:7(S:0-1)", "MIXED"), "gpu1", 8);
  EXPECT_EQ(facts.at("slurm_gpus_missing").number, 0);
  EXPECT_EQ(facts.at("slurm_gpus_unlisted").number, 0) << "the slices may be of the eighth";
  EXPECT_EQ(slurm_facts(node("gpu1", "gpu:1g.10gb:7,gpu:h100:8", "IDLE"), "gpu1", 7).at("slurm_gpus_missing").number,
            1);
}

TEST(SlurmFacts, TakeOnlyWholeStatesForDrained) {
  for (const auto* state : {"IDLE+POWERED_DOWN", "IDLE+POWERING_DOWN", "IDLE+POWER_DOWN", "IDLE~", "MIXED+CLOUD"}) {
    EXPECT_EQ(slurm_facts(node("gpu1", "gpu:8", state), "gpu1", 8).at("slurm_drained").number, 0) << state;
  }
  for (const auto* state :
       {"IDLE+DRAIN", "DOWN*", "DOWN*+DRAIN", "MIXED+NOT_RESPONDING", "IDLE+FAIL", "INVALID_REG", "DRAINED$"}) {
    EXPECT_EQ(slurm_facts(node("gpu1", "gpu:8", state), "gpu1", 8).at("slurm_drained").number, 1) << state;
  }
}

TEST(SlurmFacts, SayThatSlurmDoesNotAnswer) {
  const auto silent =
      slurm_facts("slurm_load_node error: Unable to contact slurm controller (connect failure)\n", "gpu1", 8);
  EXPECT_EQ(silent.at("slurm_answers").number, 0);
  EXPECT_EQ(silent.at("slurm_answers").text,
            "slurm_load_node error: Unable to contact slurm controller (connect failure)");
  EXPECT_FALSE(silent.contains("slurm_drained"));
  EXPECT_EQ(slurm_facts("", "gpu1", 8).at("slurm_answers").text, "Slurm does not know the node gpu1");
  EXPECT_EQ(slurm_facts(node("gpu10", "gpu:8", "IDLE"), "gpu1", 8).at("slurm_answers").text,
            slurm_facts("", "gpu1", 8).at("slurm_answers").text);
}

}  // namespace
}  // namespace shakedown::slurm_test
