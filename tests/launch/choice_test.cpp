// Tests the choice of the launcher for every scheduler, and without one, from environment variables alone.
#include "launch/choice.hpp"
#include "launch/with_mpirun.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/files.hpp"
#include "base/host_list.hpp"
#include "base/text.hpp"
#include "launch/hosts.hpp"
#include "launch/mpirun_prefix.hpp"

namespace shakedown::choice_test {
namespace {

using Variables = std::map<std::string, std::string>;

class LaunchChoice : public testing::Test {
 protected:
  LaunchSite site(const Variables& variables) const {
    LaunchSite result;
    result.environment = [variables](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
    result.gpus = 3;
    result.srun_plugins = "pmix pmix_v4 none";
    return result;
  }
  Launch choose(const Variables& variables = {}) const { return choose_launch(site(variables)); }
  std::string prefix(const Variables& variables = {}) const { return joined(choose(variables).prefix, " "); }
  std::string refusal(const LaunchSite& of) const {
    try {
      return "starts " + joined(choose_launch(of).prefix, " ");
    } catch (const CannotRun& error) {
      return error.what();
    } catch (const InputError& error) {
      return error.what();
    }
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

  const Variables two{{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_JOB_NODELIST", "node-a[1-2]"}};
  Variables two_and(const std::string& name, const std::string& value) const {
    auto all = two;
    all[name] = value;
    return all;
  }
  const Variables operators{{"OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile"}};
  const std::string host_file = "# workers\nworker-0.job slots=8\nworker-1.job slots=8\n\n";
};

TEST_F(LaunchChoice, AProcessThatSomebodyStartedAsARankIsThatRankAndStartsNobody) {
  const Variables third{{"RANK", "2"}, {"WORLD_SIZE", "16"}, {"MASTER_ADDR", "pod-0"}, {"MASTER_PORT", "29500"}};
  const auto with = [&](const std::string& name, const std::string& value) {
    auto all = third;
    all[name] = value;
    return all;
  };
  const auto launch = choose(third);
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.prefix, (std::vector<std::string>{}));
  EXPECT_EQ(launch.discovery, (std::vector<std::string>{}));
  EXPECT_EQ(launch.expected(), "ranks=16") << "of which none may be missing";
  EXPECT_TRUE(has(launch.note, "rank 2 of 16")) << launch.note;
  EXPECT_TRUE(has(launch.note, "pod-0:29500")) << launch.note;

  EXPECT_EQ(choose(with("WORLD_SIZE", "1")).rank, std::nullopt);
  EXPECT_TRUE(has(refusal(site(with("WORLD_SIZE", "0"))), "WORLD_SIZE=0 is not a number of ranks"));
  EXPECT_EQ(choose({{"RANK", "2"}}).rank, std::nullopt) << "a word that many scripts use";
  EXPECT_EQ(choose({{"WORLD_SIZE", "16"}, {"MASTER_ADDR", "pod-0"}}).rank, std::nullopt)
      << "for those that srun starts";
  EXPECT_TRUE(has(refusal(site(with("MASTER_PORT", ""))), "RANK=2 and WORLD_SIZE=16 without MASTER_PORT: ranks cannot"))
      << "each would measure its own machine and pass it";
  auto job = two_and("RANK", "0");
  job["WORLD_SIZE"] = "2";
  EXPECT_TRUE(has(choose(job).prefix.front(), "srun")) << "what starts the ranks is known";
  EXPECT_EQ(choose(with("OMPI_COMM_WORLD_RANK", "2")).rank, std::nullopt) << "mpirun has started it";
  EXPECT_EQ(prefix(with("SHAKEDOWN_LAUNCH", "my launcher")), "my launcher");
  EXPECT_EQ(rank_of(site(with("SHAKEDOWN_LAUNCH", "my launcher")).environment), std::nullopt);
  EXPECT_TRUE(has(refusal(site(with("RANK", "16"))), "not below WORLD_SIZE=16"));
  EXPECT_TRUE(has(refusal(site(with("RANK", "x"))), "RANK=x"));
}

TEST_F(LaunchChoice, APodWithSeveralGpusStartsTheRanksOfItsGpus) {
  // As Kubeflow's training operator 1.8 sets them in the second pod of two.
  const Variables job{
      {"RANK", "1"},       {"WORLD_SIZE", "16"},   {"MASTER_ADDR", "job-master-0"}, {"MASTER_PORT", "23456"},
      {"PET_NNODES", "2"}, {"PET_NODE_RANK", "1"}, {"PET_NPROC_PER_NODE", "8"}};
  const auto with = [&](Variables changed, const std::string& without = "") {
    for (const auto& [name, value] : job) changed.emplace(name, value);
    changed.erase(without);
    return changed;
  };
  const auto launch = choose(job);
  EXPECT_EQ(joined(launch.prefix, " "), "shakedown ranks 8 8");
  EXPECT_EQ(launch.rank, 8);
  EXPECT_EQ(rank_of(site(job).environment), 8) << "only rank 0 has a verdict";
  EXPECT_EQ(launch.expected(), "ranks=16");
  EXPECT_EQ(launch.variables, (std::vector<std::pair<std::string, std::string>>{
                                  {"WORLD_SIZE", "16"}, {"MASTER_ADDR", "job-master-0"}, {"MASTER_PORT", "23456"}}));
  EXPECT_TRUE(has(launch.note, "pod 1 of 2 starts ranks 8 to 15 of 16")) << launch.note;
  EXPECT_EQ(choose(with({{"RANK", "0"}, {"PET_NODE_RANK", "0"}})).rank, 0);

  // The operator counts a pod of "auto" as one rank.
  EXPECT_EQ(prefix(with({{"PET_NPROC_PER_NODE", "auto"}, {"WORLD_SIZE", "2"}})), "shakedown ranks 3 3");
  EXPECT_EQ(prefix(with({{"PET_NPROC_PER_NODE", "gpu"}, {"SHAKEDOWN_RANKS", "2"}})), "shakedown ranks 2 2");
  auto one_gpu = site(with({{"PET_NPROC_PER_NODE", "auto"}, {"WORLD_SIZE", "2"}}));
  one_gpu.gpus = 1;
  EXPECT_EQ(joined(choose_launch(one_gpu).prefix, " "), "shakedown ranks 1 1");
  EXPECT_EQ(prefix(with({{"WORLD_SIZE", "2"}}, "PET_NNODES")), "shakedown ranks 8 8")
      << "before PET_NNODES, WORLD_SIZE was the number of pods";

  EXPECT_EQ(choose(with({{"LOCAL_RANK", "0"}})).rank, 1) << "torchrun has started it";
  EXPECT_TRUE(choose(with({{"LOCAL_RANK", "0"}})).prefix.empty());
  EXPECT_EQ(prefix(with({{"PET_NNODES", "1"}, {"PET_NODE_RANK", "0"}, {"RANK", "0"}})),
            "mpirun --bind-to none --oversubscribe -np 3")
      << "the only pod";
  EXPECT_TRUE(has(refusal(site(with({{"PET_NODE_RANK", "2"}}))), "RANK=2 "));
  EXPECT_TRUE(has(refusal(site(with({{"PET_NODE_RANK", "x"}}))), "RANK=x"));
}

TEST_F(LaunchChoice, APodOfATrainJobHasOnlyTheVariablesOfTorchrun) {
  const Variables job{{"PET_NNODES", "4"},
                      {"PET_NODE_RANK", "2"},
                      {"PET_NPROC_PER_NODE", "8"},
                      {"PET_MASTER_ADDR", "job-node-0-0.job"},
                      {"PET_MASTER_PORT", "29500"}};
  const auto launch = choose(job);
  EXPECT_EQ(joined(launch.prefix, " "), "shakedown ranks 16 8");
  EXPECT_EQ(launch.ranks, 32);
  EXPECT_TRUE(has(launch.note, "job-node-0-0.job:29500")) << launch.note;
  auto elastic = job;
  elastic["PET_NNODES"] = "1:4";
  EXPECT_TRUE(has(refusal(site(elastic)), "torchrun: PET_NNODES=1:4 "))
      << "torchrun would decide how many pods take part";
  auto with_master = elastic;
  with_master.insert({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}});
  EXPECT_TRUE(has(refusal(site(with_master)), "PET_NNODES=1:4 ")) << "one rank would measure one GPU of the pod";
  auto many = job;
  many["PET_NPROC_PER_NODE"] = "1025";
  EXPECT_TRUE(has(refusal(site(many)), "PET_NPROC_PER_NODE=1025 is more than one host can run"));
  many["PET_NPROC_PER_NODE"] = "1000", many["PET_NNODES"] = "2000000000";
  EXPECT_TRUE(has(refusal(site(many)), "WORLD_SIZE=2000000000"));
  many["PET_NNODES"] = "2147484";
  EXPECT_TRUE(has(refusal(site(many)), "WORLD_SIZE=2147484")) << "an int cannot count their ranks";
  many["PET_NNODES"] = "2147483";
  EXPECT_EQ(choose(many).ranks, 2147483000);
  many["PET_NPROC_PER_NODE"] = "auto", many["PET_NNODES"] = "4", many["SHAKEDOWN_RANKS"] = "0";
  EXPECT_TRUE(has(refusal(site(many)), "SHAKEDOWN_RANKS=0 measures nothing"));
  auto lost = job;
  lost.erase("PET_MASTER_ADDR");
  EXPECT_TRUE(has(refusal(site(lost)), "torchrun: PET_NNODES=4 promises several hosts"));
}

TEST_F(LaunchChoice, AMachineWithThreeGpusRunsThreeRanksAndNeverMore) {
  EXPECT_EQ(prefix(), "mpirun --bind-to none --oversubscribe -np 3");
  EXPECT_EQ(choose().expected(), "") << "the host's own GPUs are counted by the judge";
  EXPECT_TRUE(choose().discovery.empty()) << "this host answers for itself";
}

TEST_F(LaunchChoice, AMachineWithoutGpusRunsTwoRanksMoreThanCoresIfNeedBe) {
  auto without = site({});
  without.gpus = 0;
  EXPECT_EQ(joined(choose_launch(without).prefix, " "), "mpirun --bind-to none --oversubscribe -np 2");
  without.root = true;
  EXPECT_TRUE(has(joined(choose_launch(without).prefix, " "), "--allow-run-as-root"));
}

TEST_F(LaunchChoice, MoreRanksThanMpirunStartsQuicklyConnectOverTcp) {
  auto many = site({{"SHAKEDOWN_RANKS", "129"}, {"MASTER_PORT", "29500"}});
  const auto launch = choose_launch(many);
  EXPECT_EQ(joined(launch.prefix, " "), "shakedown ranks 0 129");
  const std::map<std::string, std::string> variables(launch.variables.begin(), launch.variables.end());
  EXPECT_EQ(variables.at("WORLD_SIZE") + " " + variables.at("MASTER_ADDR"), "129 127.0.0.1");
  EXPECT_EQ(variables.at("MASTER_PORT"), "") << "each start chooses a free port, whatever the user's jobs use";
  EXPECT_TRUE(has(launch.note, "129 ranks of this host start without mpirun")) << launch.note;
  EXPECT_FALSE(launch.rank) << "a start that fails is repeated";
  many.mpirun = false;
  EXPECT_EQ(joined(choose_launch(many).prefix, " "), "shakedown ranks 0 129");
  const Variables of_mpi{{"SHAKEDOWN_RANKS", "129"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}};
  EXPECT_EQ(prefix(of_mpi), "mpirun --bind-to none --oversubscribe -np 129")
      << "the ranks would take the variables of that MPI for their own";
}

TEST_F(LaunchChoice, ANumberOfRanksThatTheUserSetWins) {
  EXPECT_EQ(prefix({{"SHAKEDOWN_RANKS", "7"}}), "mpirun --bind-to none --oversubscribe -np 7");
  EXPECT_TRUE(has(refusal(site({{"SHAKEDOWN_RANKS", "many"}})), "SHAKEDOWN_RANKS=many"));
  EXPECT_TRUE(has(refusal(site({{"SHAKEDOWN_RANKS", "0"}})), "measures nothing"));
  EXPECT_TRUE(has(refusal(site({{"SHAKEDOWN_RANKS", "-1"}})), "SHAKEDOWN_RANKS=-1"));
  EXPECT_TRUE(has(refusal(site({{"SHAKEDOWN_RANKS", "2x"}})), "SHAKEDOWN_RANKS=2x"));
  EXPECT_TRUE(has(refusal(site({{"SHAKEDOWN_RANKS", "1025"}})), "SHAKEDOWN_RANKS=1025"));
  EXPECT_EQ(prefix({{"SHAKEDOWN_RANKS", "128"}}), "mpirun --bind-to none --oversubscribe -np 128");
  EXPECT_EQ(prefix({{"SHAKEDOWN_RANKS", "1"}}), "") << "one rank needs no launcher";
  const auto one = choose_launch(site({{"SHAKEDOWN_RANKS", "1"}, {"SLURM_PROCID", "0"}})).variables;
  EXPECT_TRUE(std::ranges::any_of(one, [](const auto& v) {
    return v == std::pair<std::string, std::string>("OMPI_COMM_WORLD_RANK", "");
  })) << "nor is it a rank of MPI, whatever started this program";
  EXPECT_EQ(prefix({{"SHAKEDOWN_RANKS", ""}}), "mpirun --bind-to none --oversubscribe -np 3")
      << "an empty one says nothing";
}

TEST_F(LaunchChoice, ThePrefixOfTheUserWinsOverEverything) {
  const auto launch = choose(two_and("SHAKEDOWN_LAUNCH", "srun --mpi=pmix  -N4"));
  EXPECT_EQ(launch.prefix, (std::vector<std::string>{"srun", "--mpi=pmix", "-N4"}));
  EXPECT_EQ(launch.discovery, launch.prefix);
  EXPECT_EQ(launch.expected(), "") << "only the discovery knows";
  EXPECT_TRUE(has(refusal(site({{"SHAKEDOWN_LAUNCH", " "}})), "SHAKEDOWN_LAUNCH is blank"));
}

TEST_F(LaunchChoice, APrefixOfMpirunIsLeftAsItIsUnlessAHostThatItNamesIsAbsent) {
  const auto left = [this](const std::string& prefix, const std::string& file = "") {
    auto of = site({{"SHAKEDOWN_LAUNCH", prefix}});
    of.host_file = file;
    EXPECT_EQ(joined(choose_launch(of).prefix, " "), prefix);
    of.absent = {"u2"};
    return choose_launch(of);
  };
  const auto by_list = left("mpirun --mca plm_rsh_agent ssh -H u1:2,u2:2,u3:2 -np 6 --bind-to none numactl -l");
  EXPECT_EQ(by_list.named, (std::vector<std::string>{"u1", "u2", "u3"}));
  EXPECT_EQ(joined(by_list.prefix, " "),
            "mpirun --host u1:2,u3:2 --mca plm_rsh_agent ssh --bind-to none -np 4 numactl -l");
  EXPECT_EQ(joined(by_list.alone, " "),
            "mpirun --mca plm_rsh_agent ssh --bind-to none --map-by ppr:1:node --oversubscribe --host");
  EXPECT_EQ(by_list.expected(), "") << "the user says how many there should be";
  const auto by_file = left("/opt/bin/mpirun --map-by ppr:2:node --oversubscribe --hostfile hosts", "u1 slots=2\nu2\n");
  EXPECT_EQ(joined(by_file.prefix, " "), "/opt/bin/mpirun --host u1:2 --oversubscribe --map-by ppr:2:node");
  EXPECT_EQ(host_file_of(site({{"SHAKEDOWN_LAUNCH", "mpirun --hostfile F x"}}).environment), "F");
  EXPECT_EQ(joined(left("srun -N3 -n 3").prefix, " "), "srun -N3 -n 3") << "what it names is not known";
  EXPECT_EQ(joined(left("mpirun -np 3 -host u1,u2 env -np 2 -host u2").prefix, " "),
            "mpirun --host u1:1 env -np 2 -host u2");
}

TEST_F(LaunchChoice, APrefixOfMpirunWithoutAHostKeepsItsRanksOnlyWhereTheyAreTheSameOnEach) {
  const auto left = [this](const std::string& prefix, const std::vector<std::string>& absent) {
    auto of = site({{"SHAKEDOWN_LAUNCH", prefix}});
    of.absent = absent;
    return joined(choose_launch(of).prefix, " ");
  };
  for (const std::string program : {"mpirun", "mpiexec", "orterun", "/opt/bin/mpiexec"}) {
    EXPECT_EQ(left(program + " -n 4 -host u1:2,u2:2", {"u1"}), program + " --host u2:2 -np 2");
  }
  EXPECT_EQ(left("mpirun -np 5 --host u1:3,u2:2", {"u1"}), "mpirun --host u2:2") << "how many are on u2 is not said";
  EXPECT_EQ(left("mpirun -np 4 --host u1:2,u2:2", {"u1", "u2"}), "mpirun -np 4 --host u1:2,u2:2") << "none is left";
  EXPECT_EQ(left("mpirun --tag-output -q -np 2 -H u1,u2 -N 1 x", {"u1"}),
            "mpirun --host u2:1 --tag-output -q -N 1 -np 1 x");
  EXPECT_EQ(left("mpirun --gmca a b -v -H u1,u2", {"u2"}), "mpirun --host u1:1 --gmca a b -v");
}

TEST_F(LaunchChoice, AWrapperAfterMpirunStartsWhateverMpirunStarts) {
  const auto without_u2 = [this](const std::string& prefix) {
    auto of = site({{"SHAKEDOWN_LAUNCH", prefix}});
    EXPECT_EQ(joined(choose_launch(of).prefix, " "), prefix);
    of.absent = {"u2"};
    return choose_launch(of);
  };
  for (const std::string wrapper :
       {"numactl --interleave=all", "env FOO=1 BAR=2", "apptainer exec --nv -H /root image.sif", "taskset -c 0-3",
        "/opt/wrap -np 2 --host u9"}) {
    const auto launch = without_u2("mpirun -n 4 --host u1:2,u2:2 --report-bindings --display-map " + wrapper);
    EXPECT_EQ(joined(launch.prefix, " "), "mpirun --host u1:2 --report-bindings --display-map -np 2 " + wrapper);
    EXPECT_EQ(launch.discovery, launch.prefix);
    EXPECT_EQ(joined(launch.wrapper, " "), wrapper) << "a host that is asked alone is asked by it, too";
    EXPECT_EQ(launch.named, (std::vector<std::string>{"u1", "u2"}));
  }
}

TEST_F(LaunchChoice, MpirunIsKnownByItsNameAndAnotherMpisMpiexecIsNot) {
  const auto is = [](const std::string& program) { return is_mpirun({program, "-n", "2"}); };
  EXPECT_TRUE(is("mpirun") && is("/opt/openmpi/bin/mpirun") && is("orterun"));
  EXPECT_FALSE(is("mpiexec") || is("/opt/mpirun/bin/srun") || is("env") || is_mpirun({}));
}

TEST_F(LaunchChoice, MpirunHandsOnTheVariablesThatRanksNeedAndThatAreSet) {
  auto listed = site(operators);
  listed.host_file = host_file;
  EXPECT_FALSE(has(joined(choose_launch(listed).prefix, " "), "-x"));
  for (const auto* name : {"SHAKEDOWN_FAULT", "LD_LIBRARY_PATH", "CUDA_HOME", "VIRTUAL_ENV", "CONDA_PREFIX"}) {
    auto variables = operators;
    variables[name] = "x";
    auto set = site(variables);
    set.host_file = host_file;
    EXPECT_TRUE(has(joined(choose_launch(set).prefix, " "), std::string("-x ") + name)) << name;
  }
}

TEST_F(LaunchChoice, WithoutMpirunNothingIsMissedWithOneGpu) {
  auto one = site({});
  one.mpirun = false;
  one.gpus = 1;
  EXPECT_EQ(choose_launch(one).note, "");
  one.gpus = 2;
  EXPECT_TRUE(has(choose_launch(one).note, "2 GPUs")) << choose_launch(one).note;
}

TEST_F(LaunchChoice, OneHostNeedsNoSshThoughMpirunAsksForOne) {
  const auto isolated = [this](bool ssh) {
    LaunchSite of = site({});
    of.ssh = ssh;
    const auto variables = choose_launch(of).variables;
    return std::count(variables.begin(), variables.end(),
                      std::pair<std::string, std::string>("OMPI_MCA_plm", "isolated"));
  };
  EXPECT_EQ(isolated(true), 0);
  EXPECT_EQ(isolated(false), 1);
}

TEST_F(LaunchChoice, OnOneHostOpenMpiListensOnLoopbackUnlessTheUserHasOtherSettings) {
  using Settings = std::map<std::string, std::string>;
  const auto interfaces = [this](const Variables& variables) {
    Settings found;
    for (const auto& [name, value] : choose(variables).variables) {
      if (has(name, "_tcp_if_")) found.emplace(name, value);
    }
    return found;
  };
  const Settings loopback{{"OMPI_MCA_btl_tcp_if_include", "lo"}, {"OMPI_MCA_oob_tcp_if_include", "lo"}};
  EXPECT_EQ(interfaces({}), loopback);
  EXPECT_EQ(interfaces(two), Settings()) << "two hosts";
  EXPECT_EQ(interfaces({{"OMPI_MCA_btl_tcp_if_include", "eth0"}, {"OMPI_MCA_oob_tcp_if_exclude", "eth1"}}), Settings());
}

TEST_F(LaunchChoice, WithoutALauncherOneProcessRunsAndWhatIsMissedIsSaid) {
  auto without = site({});
  without.mpirun = false;
  const auto launch = choose_launch(without);
  EXPECT_TRUE(launch.prefix.empty());
  EXPECT_TRUE(has(launch.note, "3 GPUs")) << launch.note;
}

TEST_F(LaunchChoice, ASlurmJobOfTwoNodesIsStartedOnBothARankForEachGpu) {
  const auto launch = choose(two);
  EXPECT_EQ(joined(launch.prefix, " "),
            "srun --mpi=none --kill-on-bad-exit=1 --cpu-bind=none --overcommit -N 2 -n 6 --ntasks-per-node=3");
  EXPECT_EQ(joined(launch.discovery, " "),
            "srun --mpi=none --kill-on-bad-exit=0 --cpu-bind=none --overcommit -N 2 -n 2 --ntasks-per-node=1");
  EXPECT_EQ(launch.hosts, (std::vector<std::string>{"node-a1", "node-a2"}));
  const std::map<std::string, std::string> variables(launch.variables.begin(), launch.variables.end());
  EXPECT_EQ(variables.at("SLURM_OVERLAP"), "1") << "an earlier step may not end where a node hangs";
  EXPECT_EQ(launch.expected(), "hosts=2");
  EXPECT_TRUE(has(prefix(two_and("SLURM_NTASKS", "2")), " -n 6 ")) << "even if it asks for one task per node";
}

TEST_F(LaunchChoice, ASlurmJobWithATaskPerGpuIsStartedAsItSays) {
  EXPECT_EQ(prefix(two_and("SLURM_NTASKS", "6")), "srun --mpi=none --kill-on-bad-exit=1 --cpu-bind=none");
}

TEST_F(LaunchChoice, AListOfNodesThatIsNoneIsRefusedWithItsVariable) {
  EXPECT_EQ(choose(two_and("SLURM_JOB_NODELIST", "r[1-2]n[08-09]")).hosts.size(), 4U);
  try {
    choose(two_and("SLURM_JOB_NODELIST", "node[2-1]"));
    ADD_FAILURE() << "node[2-1] was taken";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "SLURM_JOB_NODELIST: host list \"node[2-1]\": the range 2-1 is descending");
  }
}

TEST_F(LaunchChoice, TasksWithoutGpusAreCounted) {
  auto tasks = site(two_and("SLURM_NTASKS", "4"));
  tasks.gpus = 0;
  EXPECT_EQ(choose_launch(tasks).expected(), "hosts=2,ranks=4");
}

TEST_F(LaunchChoice, ASlurmJobOfOneNodeIsMpirunsUnlessItHasMoreTasksThanRanks) {
  EXPECT_EQ(prefix({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "1"}, {"SLURM_NTASKS", "1"}}),
            "mpirun --bind-to none --oversubscribe -np 3");
  EXPECT_EQ(prefix({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "1"}, {"SLURM_NTASKS", "3"}}),
            "mpirun --bind-to none --oversubscribe -np 3");
  EXPECT_TRUE(has(prefix({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "1"}, {"SLURM_NTASKS", "4"}}), "srun"));
  EXPECT_EQ(prefix({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SHAKEDOWN_RANKS", "2"}}),
            "mpirun --bind-to none --oversubscribe -np 2")
      << "the user has said how many";
}

TEST_F(LaunchChoice, VariablesOfTorchrunDoNotReachRanksOfSrun) {
  auto variables = two;
  variables["RANK"] = "0";
  variables["WORLD_SIZE"] = "2";
  const auto with = choose(variables).variables;
  for (const auto* name : {"RANK", "WORLD_SIZE"}) {
    EXPECT_EQ(std::count(with.begin(), with.end(), std::pair<std::string, std::string>(name, "")), 1) << name;
  }
}

TEST_F(LaunchChoice, WithoutSrunASlurmJobIsMpiruns) {
  auto none = site(two);
  none.srun_plugins = "";
  EXPECT_EQ(joined(choose_launch(none).prefix, " "), "mpirun --bind-to none --map-by ppr:3:node --oversubscribe");
  none.mpirun = false;
  EXPECT_TRUE(has(refusal(none), "without srun")) << refusal(none);
}

TEST_F(LaunchChoice, AStepOfAJobOfTwoNodesIsRefusedButNotItsScript) {
  EXPECT_TRUE(has(refusal(site(two_and("SLURM_STEP_ID", "0"))), "a step of a Slurm job of 2 nodes"));
  EXPECT_TRUE(has(refusal(site(two_and("SHAKEDOWN_RANKS", "2"))), "SHAKEDOWN_RANKS "));
  EXPECT_TRUE(has(prefix(two_and("SLURM_STEP_ID", "4294967290")), "srun")) << "salloc's shell is no step";
  EXPECT_TRUE(has(prefix(two_and("SLURM_STEP_ID", "4294967291")), "srun")) << "nor is the batch script";
}

TEST_F(LaunchChoice, AStepOfTheHighestUsualNumberIsOne) {
  EXPECT_TRUE(has(refusal(site(two_and("SLURM_STEP_ID", "4294967289"))), "2 nodes"));
}

// As Slurm 22.05 sets them for `srun -N1 --gpus-per-node=3 shakedown accept` (tests/slurm/cluster.sh).
const Variables one_task{
    {"SLURM_JOB_ID", "7"},          {"SLURM_JOB_NUM_NODES", "1"},  {"SLURM_JOB_NODELIST", "node-a1"},
    {"SLURMD_NODENAME", "node-a1"}, {"SLURM_NTASKS", "1"},         {"SLURM_TASKS_PER_NODE", "1"},
    {"SLURM_STEP_ID", "0"},         {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_NUM_TASKS", "1"},
    {"SLURM_GPUS_ON_NODE", "3"},    {"SLURM_STEP_GPUS", "0,1,2"},  {"CUDA_VISIBLE_DEVICES", "0,1,2"},
    {"SLURM_PROCID", "0"}};

TEST_F(LaunchChoice, OneTaskOfAStepOnOneNodeStartsARankForEachGpuThatItSees) {
  EXPECT_EQ(prefix(one_task), "mpirun --bind-to none --oversubscribe -np 3") << "though the task is one slot";
  const auto variables = choose(one_task).variables;
  for (const auto* name : {"OMPI_MCA_ras", "PRTE_MCA_ras"}) {
    const std::pair<std::string, std::string> no_slots_of_slurm(name, "^slurm");
    EXPECT_EQ(std::count(variables.begin(), variables.end(), no_slots_of_slurm), 1) << name;
  }
  auto by_pmi = one_task;
  by_pmi["PMI_RANK"] = "0";
  by_pmi["PMI_SIZE"] = "1";
  EXPECT_EQ(prefix(by_pmi), prefix(one_task));
  auto of_user = one_task;
  of_user["OMPI_MCA_ras"] = "slurm";
  for (const auto& [name, value] : choose(of_user).variables) EXPECT_NE(name, "OMPI_MCA_ras") << value;
  for (const auto& [name, value] : choose().variables) EXPECT_FALSE(has(name, "ras")) << "no Slurm, no setting";
}

TEST_F(LaunchChoice, SeveralTasksOfAStepAreRefused) {
  auto several = one_task;
  several["SLURM_NTASKS"] = several["SLURM_STEP_NUM_TASKS"] = "3";
  EXPECT_TRUE(has(refusal(site(several)), "3 times (SLURM_STEP_NUM_TASKS)")) << "each would measure all GPUs, at once";
  several["SLURM_STEP_ID"] = "4294967291";
  EXPECT_TRUE(has(prefix(several), "mpirun")) << "the batch script is one process";
  several["SHAKEDOWN_LAUNCH"] = "env";
  several["SLURM_STEP_ID"] = "0";
  EXPECT_EQ(prefix(several), "env");
}

TEST_F(LaunchChoice, SallocOfOneNodeFromALoginNodeMeasuresTheNodeOfTheJob) {
  const Variables salloc{{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "1"}, {"SLURM_JOB_NODELIST", "node-a1"}};
  auto login = site(salloc);
  login.host = "login";
  login.gpus = 0;
  const auto launch = choose_launch(login);
  EXPECT_EQ(joined(launch.discovery, " "),
            "srun --mpi=none --kill-on-bad-exit=0 --cpu-bind=none --overcommit -N 1 -n 1 --ntasks-per-node=1");
  EXPECT_EQ(launch.expected(), "hosts=1");
  EXPECT_EQ(launch.hosts, std::vector<std::string>{"node-a1"});
  login.gpus = 3;  // as the node then answers
  EXPECT_EQ(joined(choose_launch(login).prefix, " "),
            "srun --mpi=none --kill-on-bad-exit=1 --cpu-bind=none --overcommit -N 1 -n 3 --ntasks-per-node=3");
  auto ranks = site(salloc);
  ranks.host = "login";
  const auto environment = ranks.environment;
  ranks.environment = [&](const std::string& name) {
    return name == "SHAKEDOWN_RANKS" ? std::optional<std::string>("2") : environment(name);
  };
  EXPECT_TRUE(has(joined(choose_launch(ranks).prefix, " "), "-N 1 -n 2 --ntasks-per-node=2"));
  auto on_node = site(salloc);
  on_node.host = "node-a1.cluster";
  EXPECT_EQ(joined(choose_launch(on_node).prefix, " "), "mpirun --bind-to none --oversubscribe -np 3");
}

TEST_F(LaunchChoice, AnOperatorsHostFileIsUsedWhole) {
  for (const auto* variable : {"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"}) {
    auto listed = site({{variable, "/etc/mpi/hostfile"}});
    listed.host_file = host_file;
    listed.gpus = 0;  // in the launcher's pod
    const auto launch = choose_launch(listed);
    EXPECT_EQ(joined(launch.prefix, " "), "mpirun --bind-to none");
    EXPECT_EQ(joined(launch.discovery, " "), "mpirun --bind-to none --map-by ppr:1:node --oversubscribe");
    EXPECT_EQ(launch.expected(), "hosts=2");
    EXPECT_EQ(launch.hosts, (std::vector<std::string>{"worker-0.job", "worker-1.job"}));
  }
}

TEST_F(LaunchChoice, AHostFileOfOneHostTakesTheUsersNumberOfRanks) {
  auto listed = site({{"OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile"}, {"SHAKEDOWN_RANKS", "2"}});
  listed.host_file = "worker-0 slots=8\n";
  EXPECT_EQ(joined(choose_launch(listed).prefix, " "), "mpirun --bind-to none -np 2");
  EXPECT_EQ(choose_launch(listed).expected(), "hosts=1");
}

TEST_F(LaunchChoice, ASlurmJobWithoutAHostKeepsItsTasksOfEachOther) {
  auto slurm = site(two_and("SLURM_NTASKS", "8"));
  slurm.absent = {"node-a1"};
  const auto launch = choose_launch(slurm);
  EXPECT_EQ(joined(launch.prefix, " "),
            "srun --mpi=none --kill-on-bad-exit=1 --cpu-bind=none --exclude=node-a1 --overcommit -N 1 -n 4 "
            "--ntasks-per-node=4");
  EXPECT_EQ(joined(launch.discovery, " "),
            "srun --mpi=none --kill-on-bad-exit=0 --cpu-bind=none --overcommit --exclude=node-a1 -N 1 -n 1 "
            "--ntasks-per-node=1");
}

TEST_F(LaunchChoice, AHostFileThatCannotBeUsedWholeIsRefused) {
  auto listed = site(operators);
  EXPECT_TRUE(has(refusal(listed), "/etc/mpi/hostfile names no hosts"));
  listed.host_file = host_file;
  listed.mpirun = false;
  EXPECT_TRUE(has(refusal(listed), "install Open MPI"));
  listed = site({{"OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile"}, {"SHAKEDOWN_RANKS", "2"}});
  listed.host_file = host_file;
  EXPECT_TRUE(has(refusal(listed), "/etc/mpi/hostfile has 2"));
}

TEST_F(LaunchChoice, HostsOfAnotherSchedulerAreNotPassedOver) {
  auto pbs = site({{"PBS_NODEFILE", "nodes"}});
  pbs.host_file = "node1\nnode2\n";
  EXPECT_TRUE(has(refusal(pbs), "$PBS_NODEFILE"));
  pbs.host_file = "node1\nnode1\n";
  EXPECT_EQ(refusal(pbs), "starts mpirun --bind-to none --oversubscribe -np 3") << "one host of it is this one";
  pbs.host_file = std::nullopt;
  EXPECT_TRUE(has(refusal(pbs), "nodes, which the scheduler names, cannot be read"))
      << "its number of hosts is unknown";
}

TEST_F(LaunchChoice, SeveralHostsThatAVariablePromisesAreNotPassedOver) {
  for (const auto& [variable, value, scheduler] : {std::tuple{"FLUX_JOB_NNODES", "2", "Flux"},
                                                   {"AWS_BATCH_JOB_NUM_NODES", "2", "AWS Batch"},
                                                   {"NGC_ARRAY_SIZE", "4", "Base Command Platform"},
                                                   {"VC_WORKER_NUM", "2", "Volcano"},
                                                   {"_CONDOR_NPROCS", "2", "HTCondor"},
                                                   {"PJM_NODE", "2", "PJM"},
                                                   {"SKYPILOT_NUM_NODES", "2", "SkyPilot"},
                                                   {"DSTACK_NODES_NUM", "2", "dstack"},
                                                   {"LWS_GROUP_SIZE", "2", "LeaderWorkerSet"},
                                                   {"PET_NNODES", "1:4", "torchrun"},
                                                   {"PET_NNODES", "many", "torchrun"}}) {
    const auto why = refusal(site({{variable, value}}));
    EXPECT_TRUE(has(why, std::string(scheduler) + ": " + variable + "=" + value)) << why;
    EXPECT_TRUE(has(why, "SHAKEDOWN_LAUNCH='")) << why;
  }
  for (const auto& [variable, value] : {std::pair{"LSB_MCPU_HOSTS", "c05n14 42 "},
                                        {"LSB_HOSTS", "c05n14 c05n14"},
                                        {"SM_HOSTS", "[\"algo-1\"]"},
                                        {"AZ_BATCH_HOST_LIST", "10.0.0.4"},
                                        {"AWS_BATCH_JOB_NUM_NODES", "1"},
                                        {"FLUX_JOB_NNODES", "1"},
                                        {"PET_NNODES", "1"}}) {
    EXPECT_EQ(refusal(site({{variable, value}})), "starts mpirun --bind-to none --oversubscribe -np 3") << variable;
  }
}

TEST_F(LaunchChoice, TheHostFileOfEachSchedulerIsLookedAt) {
  for (const auto* variable : {"PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE", "OAR_NODEFILE", "OAR_NODE_FILE",
                               "COBALT_NODEFILE", "HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE", "LOADL_HOSTFILE"}) {
    auto listed = site({{variable, "nodes"}});
    listed.agent = false;
    listed.host_file = "n1.site\nn1.site\nn2.site\n";
    EXPECT_TRUE(has(refusal(listed), "nodes lists several hosts")) << variable;
    EXPECT_TRUE(has(refusal(listed), "such as SHAKEDOWN_LAUNCH='mpirun")) << variable;
  }
}

TEST_F(LaunchChoice, HostsOfLsfAreStartedByBlaunchARankForEachGpu) {
  const auto value = [](const Launch& launch, const std::string& name) {
    for (const auto& [variable, text] : launch.variables) {
      if (variable == name) return text;
    }
    return std::string("none");
  };
  const Variables job{{"LSB_MCPU_HOSTS", "batch3 1 c05n14 42 c05n15 42 "}};
  auto of_lsf = site(job);
  of_lsf.host = "batch3";
  const auto launch = choose_launch(of_lsf);
  EXPECT_EQ(joined(launch.prefix, " "),
            "mpirun --bind-to none --host c05n14:42,c05n15:42 --map-by ppr:3:node --oversubscribe");
  EXPECT_EQ(joined(launch.discovery, " "),
            "mpirun --bind-to none --host c05n14:42,c05n15:42 --map-by ppr:1:node --oversubscribe");
  EXPECT_EQ(launch.expected(), "hosts=2");
  EXPECT_TRUE(has(launch.note, "batch3 has one slot and no GPU: it is the launch node")) << launch.note;
  for (const auto* name : {"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"}) {
    EXPECT_EQ(value(launch, name), "blaunch") << name;
  }
  EXPECT_EQ(value(launch, "OMPI_MCA_plm_rsh_num_concurrent"), "2");
  of_lsf.gpus = 0;
  EXPECT_EQ(joined(choose_launch(of_lsf).prefix, " "), "mpirun --bind-to none --host c05n14:42,c05n15:42");
  of_lsf.absent = {"c05n14"};
  EXPECT_EQ(joined(choose_launch(of_lsf).prefix, " "), "mpirun --bind-to none --host c05n15:42");
  auto of_user = job;
  of_user["OMPI_MCA_plm_rsh_agent"] = "mine";
  EXPECT_EQ(value(choose(of_user), "OMPI_MCA_plm_rsh_agent"), "none") << "a setting of the user has priority";
}

TEST_F(LaunchChoice, AFirstHostThatMayBeAComputeNodeIsNoLaunchNode) {
  const auto hosts = [this](const std::string& list, const std::string& host, bool has_gpus) {
    auto of_lsf = site({{"LSB_MCPU_HOSTS", list}});
    of_lsf.host = host;
    of_lsf.has_gpus = has_gpus;
    return joined(choose_launch(of_lsf).hosts, " ");
  };
  EXPECT_EQ(hosts("n1 1 n2 8", "n1", false), "n2");
  EXPECT_EQ(hosts("n1 1 n2 8", "n1.site", false), "n2");
  EXPECT_EQ(hosts("n1 1 n2 8", "n1", true), "n1 n2") << "it has GPUs";
  EXPECT_EQ(hosts("n1 1 n2 8", "n3", false), "n1 n2") << "it is another host";
  EXPECT_EQ(hosts("n1 2 n2 8", "n1", false), "n1 n2") << "it has two slots";
  EXPECT_EQ(hosts("n1 1 n2 1", "n1", false), "n1 n2") << "all have one slot";
  EXPECT_EQ(hosts("n1 1 n2 8 n3 1", "n1", false), "n1 n2 n3");
}

TEST_F(LaunchChoice, WorkersOfAnOperatorAreStartedByItsAgentEvenIfThereIsOne) {
  auto listed = site({{"HYDRA_HOST_FILE", "nodes"},
                      {"HYDRA_LAUNCHER_EXEC", "/etc/mpi/kubexec.sh"},
                      {"HYDRA_LAUNCH_EXTRA_ARGS", "-v"}});
  listed.host = "job-launcher";
  listed.host_file = "job-worker-0:8\n";
  listed.gpus = 0;
  const auto launch = choose_launch(listed);
  EXPECT_EQ(joined(launch.prefix, " "), "mpirun --bind-to none --host job-worker-0:8");
  const std::pair<std::string, std::string> agent("OMPI_MCA_plm_rsh_agent", "/etc/mpi/kubexec.sh -v");
  EXPECT_EQ(std::count(launch.variables.begin(), launch.variables.end(), agent), 1);
  listed.other_mpi = true;
  EXPECT_TRUE(has(refusal(listed), "another MPI"));
}

TEST_F(LaunchChoice, AListOfASchedulerWithoutHostsIsRefused) {
  for (const auto* variable : {"PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "HYDRA_HOST_FILE"}) {
    auto listed = site({{variable, "nodes"}});
    listed.host_file = "# none\n";
    EXPECT_TRUE(has(refusal(listed), "nodes, which is the scheduler's, names no hosts")) << variable;
  }
}

TEST_F(LaunchChoice, AListOfHostsOfACloudServiceIsLookedAt) {
  for (const auto& [variable, value] :
       {std::pair{"SM_HOSTS", "[\"algo-1\", \"algo-2\"]"}, {"AZ_BATCH_HOST_LIST", "10.0.0.4,10.0.0.5"}}) {
    EXPECT_TRUE(has(refusal(site({{variable, value}})), std::string(variable) + " ")) << variable;
  }
}

// As Slurm 22.05 sets them for `sbatch -N1 : -N2 --gpus-per-node=2` (tests/ci/slurm_test.sh has a real one).
const Variables heterogeneous{{"SLURM_JOB_ID", "7"},
                              {"SLURM_HET_SIZE", "2"},
                              {"SLURM_JOB_NUM_NODES", "1"},
                              {"SLURM_NTASKS", "1"},
                              {"SLURM_JOB_NODELIST", "node-a3"},
                              {"SLURM_JOB_NODELIST_HET_GROUP_0", "node-a3"},
                              {"SLURM_JOB_NODELIST_HET_GROUP_1", "node-a[1-2]"},
                              {"SLURM_NTASKS_HET_GROUP_0", "1"},
                              {"SLURM_NTASKS_HET_GROUP_1", "2"}};

TEST_F(LaunchChoice, AHeterogeneousJobOfSlurmIsStartedOnAllItsComponents) {
  auto job = site(heterogeneous);
  job.gpus = 0;
  const auto launch = choose_launch(job);
  EXPECT_EQ(joined(launch.prefix, " "),
            "srun --mpi=none --kill-on-bad-exit=1 --cpu-bind=none --overcommit --het-group=0 --nodelist=node-a3 "
            "-N 1 -n 1 --ntasks-per-node=1 : "
            "--mpi=none --kill-on-bad-exit=1 --cpu-bind=none --overcommit --het-group=1 --nodelist=node-a1,node-a2 "
            "-N 2 -n 2 --ntasks-per-node=1");
  EXPECT_TRUE(has(joined(launch.discovery, " "), "--kill-on-bad-exit=0 ")) << "a host that fails ends no other";
  EXPECT_EQ(launch.hosts, (std::vector<std::string>{"node-a3", "node-a1", "node-a2"}));
  EXPECT_EQ(launch.expected(), "hosts=3,ranks=3");

  job.gpus_by_host = {{"node-a3", 4}, {"node-a1", 8}, {"node-a2", 8}};
  EXPECT_TRUE(has(joined(choose_launch(job).prefix, " "), "-N 1 -n 4 --ntasks-per-node=4 : "));
  EXPECT_TRUE(has(joined(choose_launch(job).prefix, " "), "-N 2 -n 16 --ntasks-per-node=8"));
  EXPECT_EQ(choose_launch(job).expected(), "hosts=3");
  job.absent = {"node-a1"};
  EXPECT_TRUE(has(joined(choose_launch(job).prefix, " "), "--nodelist=node-a2 -N 1 -n 8 --ntasks-per-node=8"));
  job.absent = {"node-a3"};
  EXPECT_FALSE(has(joined(choose_launch(job).prefix, " "), ":")) << "a component without a host is not started";
  EXPECT_EQ(choose_launch(job).expected(), "hosts=3") << "but expected";
}

TEST_F(LaunchChoice, AComponentWithoutGpusIsLeftOutOnlyIfTheJobAskedForNone) {
  auto answers = site(heterogeneous);
  answers.gpus_by_host = {{"node-a3", 0}, {"node-a1", 8}, {"node-a2", 8}};
  EXPECT_TRUE(has(refusal(answers), "node-a3: no GPU, but other components of this Slurm job have some"))
      << "they may be lost";
  EXPECT_TRUE(has(refusal(answers), "SHAKEDOWN_LAUNCH='srun --mpi=none --het-group=1 --ntasks-per-node=8'"));
  auto asked = heterogeneous;
  asked["SLURM_GPUS_PER_NODE_HET_GROUP_1"] = "8";
  auto told = site(asked);
  told.gpus_by_host = answers.gpus_by_host;
  const auto launch = choose_launch(told);
  EXPECT_EQ(launch.hosts, (std::vector<std::string>{"node-a1", "node-a2"}));
  EXPECT_TRUE(has(launch.note, "node-a3: ")) << launch.note;
}

TEST_F(LaunchChoice, AHeterogeneousJobThatCannotBeStartedIsRefused) {
  auto without_srun = site(heterogeneous);
  without_srun.srun_plugins = "";
  EXPECT_TRUE(has(refusal(without_srun), "Slurm (heterogeneous job): SLURM_HET_SIZE=2"));
  auto unlisted = heterogeneous;
  unlisted.erase("SLURM_JOB_NODELIST_HET_GROUP_1");
  EXPECT_TRUE(has(refusal(site(unlisted)), "Slurm (heterogeneous job): SLURM_HET_SIZE=2"));
  auto step = heterogeneous;
  step["SLURM_STEP_ID"] = "0";
  EXPECT_TRUE(has(refusal(site(step)), "3 nodes"));
  auto ranks = heterogeneous;
  ranks["SHAKEDOWN_RANKS"] = "2";
  EXPECT_TRUE(has(refusal(site(ranks)), "SHAKEDOWN_RANKS "));
}

TEST_F(LaunchChoice, TheOldNameOfTheNumberOfNodesOfASlurmJobIsRead) {
  auto old = two;
  old["SLURM_NNODES"] = old["SLURM_JOB_NUM_NODES"];
  old.erase("SLURM_JOB_NUM_NODES");
  EXPECT_EQ(choose(old).prefix, choose(two).prefix);
}

TEST_F(LaunchChoice, OneOfSeveralFrontDoorsThatAnMpiLauncherStartedIsRefused) {
  EXPECT_TRUE(
      has(refusal(site({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})), "PMI_SIZE=2: an MPI launcher has started this"));
  EXPECT_TRUE(
      has(refusal(site({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}})), "OMPI_COMM_WORLD_SIZE=4: "));
  EXPECT_EQ(prefix({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}), "mpirun --bind-to none --oversubscribe -np 3");
}

TEST_F(LaunchChoice, HostsThatAreAbsentAreLeftOutAndStayExpected) {
  auto listed = site(operators);
  listed.host_file = host_file;
  listed.absent = {"worker-1"};
  EXPECT_TRUE(has(joined(choose_launch(listed).prefix, " "), "--host worker-0.job:8"));
  EXPECT_EQ(choose_launch(listed).expected(), "hosts=2");
  auto slurm = site(two);
  slurm.absent = {"node-a2"};
  EXPECT_EQ(joined(choose_launch(slurm).prefix, " "),
            "srun --mpi=none --kill-on-bad-exit=1 --cpu-bind=none --exclude=node-a2 --overcommit -N 1 -n 3 "
            "--ntasks-per-node=3");
  EXPECT_EQ(choose_launch(slurm).expected(), "hosts=2");
}

TEST_F(LaunchChoice, NoHostThatIsThereIsRefused) {
  auto listed = site(operators);
  listed.host_file = host_file;
  listed.absent = {"worker-0", "worker-1"};
  EXPECT_TRUE(has(refusal(listed), "worker-0.job, worker-1.job"));
}

TEST_F(LaunchChoice, ADeadHostIsNoticedWithinSecondsUnlessTheUserHasOtherSettings) {
  const auto value = [](const Launch& launch, const std::string& name) {
    for (const auto& [variable, text] : launch.variables) {
      if (variable == name) return text;
    }
    return std::string("none");
  };
  EXPECT_EQ(value(choose(), "OMPI_MCA_oob_tcp_keepalive_time"), "8");
  EXPECT_EQ(value(choose({{"SHAKEDOWN_LAUNCH", "mpirun"}}), "OMPI_MCA_oob_tcp_keepalive_time"), "8");
  EXPECT_EQ(value(choose({{"OMPI_MCA_oob_tcp_keepalive_time", "300"}}), "OMPI_MCA_oob_tcp_keepalive_time"), "none");
}

TEST_F(LaunchChoice, AHostFileWithAnErrorIsRefusedWithFileAndLine) {
  const auto refused = [](const LaunchSite& one) -> std::string {
    try {
      choose_launch(one);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  auto listed = site(operators);
  listed.host_file = "worker-0\nworker-1 slots=many\n";
  EXPECT_TRUE(has(refused(listed), "/etc/mpi/hostfile:2:1: \"slots=many\""));
  auto by_user = site({{"SHAKEDOWN_LAUNCH", "mpirun --hostfile F x"}});
  by_user.host_file = "a x=1\n";
  EXPECT_TRUE(has(refused(by_user), "F:1:1: \"x=1\""));
  EXPECT_TRUE(has(refused(site({{"SHAKEDOWN_LAUNCH", "mpirun -H a,b:x"}})), "SHAKEDOWN_LAUNCH: \"b:x\""));
}

TEST(Hosts, AFileCountsSlotsHoweverTheyAreWritten) {
  const auto hosts = with_slots(hosts_of_file("a slots=8\n# no host\nb:4\nc\nc\nfe80::1\n", "hosts"));
  ASSERT_EQ(hosts.size(), 4U);
  EXPECT_EQ(hosts[0].slots, 8);
  EXPECT_EQ(hosts[1].name, "b");
  EXPECT_EQ(hosts[1].slots, 4);
  EXPECT_EQ(hosts[2].slots, 2);
  EXPECT_EQ(hosts[3].name, "fe80::1");
}

}  // namespace
}  // namespace shakedown::choice_test
