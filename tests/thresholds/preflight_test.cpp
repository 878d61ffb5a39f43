// Tests facts of pre-flight with the shipped profiles: a healthy machine passes, and each wrong fact gives its finding,
// culprit and words.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/catalogue/majority.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/judge/verdict.hpp"
#include "thresholds/rules/site.hpp"

namespace shakedown::preflight_test {
namespace {

using testing_support::Folder;
using testing_support::ResultsBuilder;

/// The facts of a healthy machine with H200, which a test may change before the judgement.
class Machine {
 public:
  explicit Machine(int ranks = 8, int hosts = 1) : builder_(ranks, hosts), ranks_(static_cast<std::size_t>(ranks)) {
    for (const auto* name :
         {"gpus_missing", "gpus_missing_in_cuda", "gpus_not_isolated", "ib_ports_down", "roce_ports_down"}) {
      host(name, 0);
    }
    host("gpus_pci", ranks / hosts);
    host("memory_gb", 2164);
    host("shm_free_gb", 1000);
    host("disk_free_gb", 1000);
    host("ib_ports", 8);
    host("ib_rate_gbit", 400);
    host("ib_link_downed", 0);
    host("nvswitches", 4);
    host("fabric_manager", 1);
    host("governor", "performance");
    host("clocksource", "tsc");
    host("gpudirect_rdma", 1);
    host("driver", "580.159.03");
    host("kernel", "6.8.0");
    host("os", "Ubuntu 24.04");
    host("cpu", "Xeon");
    host("ib_firmware", "28.39");
    host("memlock", "unlimited");
    for (const auto* name :
         {"mig", "ecc_uncorrected", "ecc_uncorrected_ever", "remap_pending", "remap_failed", "throttled",
          "compute_mode", "processes", "xids", "rows_remapped", "ecc_corrected", "pcie_replays"}) {
      gpu(name, 0);
    }
    for (const auto* name : {"cuda_opens", "ecc", "persistence"}) gpu(name, 1);
    gpu("memory_gb", 150.7);
    gpu("pcie_gen", 5);
    gpu("pcie_width", 16);
    gpu("power_limit_w", 700);
    gpu("temperature_c", 32);
    gpu("vbios", "96.00");
    put("nvlink", "nvlinks_up", 18);
    put("nvlink", "nvlink_errors", 0);
    put("nvlink", "fabric_trouble", 0);
    for (const auto* name : {"cuda", "cublaslt", "nccl", "mpi", "nccl_settings"}) put("software", name, "same");
    put("binding", "numa_near", 1);
    put("binding", "ranks_per_core", 1);
    put_host("clock", "clock_offset_ms", 0.1);
    put_host("network", "hosts_unreachable", 0);
  }

  template <class Value>
  void host(const std::string& name, const Value& value) {
    put_host("host", name, value);
  }
  template <class Value>
  void gpu(const std::string& name, const Value& value) {
    put("gpu", name, value);
  }
  void put(const std::string& part, const std::string& name, double value) {
    numbers_[part][name].assign(ranks_, value);
  }
  void put(const std::string& part, const std::string& name, const std::string& value) {
    texts_[part][name].assign(ranks_, value);
  }
  template <class Value>
  void put_host(const std::string& part, const std::string& name, const Value& value) {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (builder_.context.ranks[rank].local_rank == 0) set(rank, part, name, value);
    }
  }
  /// Returns the facts of one rank, with an explanation.
  void set(std::size_t rank, const std::string& part, const std::string& name, std::optional<double> value,
           const std::string& text = "") {
    auto& values = numbers_[part][name];
    values.resize(ranks_);
    values[rank] = value;
    if (text.empty()) return;
    texts_[part][name].resize(ranks_);
    texts_[part][name][rank] = text;
  }
  void set(std::size_t rank, const std::string& part, const std::string& name, double value) {
    set(rank, part, name, std::optional(value));
  }
  void set(std::size_t rank, const std::string& part, const std::string& name, const std::string& value) {
    texts_[part][name].resize(ranks_);
    texts_[part][name][rank] = value;
  }
  void set(std::size_t rank, const std::string& part, const std::string& name, const char* value) {
    set(rank, part, name, std::string(value));
  }
  void forget(const std::string& part, const std::string& name) {
    numbers_[part].erase(name);
    texts_[part].erase(name);
  }

  ResultsBuilder& builder() { return builder_; }

  Results results() {
    for (const auto* part : {"host", "gpu", "nvlink", "software", "binding", "clock", "network"}) {
      builder_.add_facts(std::string("preflight/of:") + part, numbers_[part], texts_[part]);
    }
    // Only inside a Slurm job.
    if (numbers_.contains("slurm")) builder_.add_facts("preflight/of:slurm", numbers_["slurm"], texts_["slurm"]);
    // Only if it was requested.
    for (const auto* part : {"dcgm", "dcgm_gpu"}) {
      if (!numbers_.contains(part)) continue;
      builder_.add_facts(std::string("preflight/of:") + part, numbers_[part], texts_[part]);
    }
    builder_.add_waiver("preflight/of:folder", "no folder was named (--shared-folder=DIR)");
    return builder_.results("preflight.json");
  }

  Verdict judged(const JudgeOptions& options = only_preflight()) {
    static const auto shipped = load_profiles(std::filesystem::path(SHAKEDOWN_SOURCE_DIR) / "thresholds");
    return judge({results()}, shipped, options);
  }

  static JudgeOptions only_preflight() {
    JudgeOptions options;
    options.families = {{"preflight"}};
    return options;
  }

 private:
  ResultsBuilder builder_;
  std::size_t ranks_;
  std::map<std::string, ByRank> numbers_;
  std::map<std::string, TextByRank> texts_;
};

/// Returns the only bad finding; without exactly one, a finding that no test accepts.
Finding only_complaint(const Verdict& verdict) {
  std::vector<Finding> bad;
  for (const auto& finding : verdict.findings) {
    if (!finding.good()) bad.push_back(finding);
  }
  EXPECT_EQ(bad.size(), 1u);
  for (const auto& finding : bad) {
    if (bad.size() > 1) ADD_FAILURE() << finding.key << " " << finding.metric << ": " << finding.detail;
  }
  return bad.size() == 1 ? bad.front() : Finding{};
}

/// Expects that the machine fails, with this place and this text.
void expect_failure(Machine& machine, const std::string& metric, const std::string& who, const std::string& detail,
                    Status status = Status::fail) {
  const auto verdict = machine.judged();
  const auto finding = only_complaint(verdict);
  EXPECT_EQ(finding.metric, metric);
  EXPECT_EQ(finding.status, status);
  EXPECT_EQ(finding.detail, detail);
  ASSERT_FALSE(finding.offenders.empty());
  EXPECT_EQ(text(finding.offenders.front()), who);
  EXPECT_EQ(verdict.state, State::fail);
  EXPECT_EQ(verdict.exit_code, 1);
  const bool is_mended = status == Status::fail && metric != "dcgm_failed";  // the others are measured again
  EXPECT_EQ(finding.remedy.has_value(), is_mended) << metric;
  EXPECT_NE(finding.next.find(is_mended ? "ssh node" : "bench_preflight"), std::string::npos) << finding.next;
}

const char* const rank3 = "rank 3 node0 GPU-1003 0000:13:00.0";

TEST(Preflight, OfAHealthyMachinePasses) {
  const auto verdict = Machine().judged();
  for (const auto& finding : verdict.findings) {
    EXPECT_TRUE(finding.good()) << finding.key << " " << finding.metric << ": " << finding.detail;
  }
  EXPECT_EQ(verdict.state, State::fit);
  EXPECT_EQ(Machine(16, 2).judged().state, State::fit) << "two hosts";
}

// Expects a warning with this place: a fact that costs time, or may fail soon.
TEST(Preflight, WarnsOfFactsThatCostTime) {
  struct Case {
    const char *part, *metric;
    double value;
  };
  for (const auto& [part, metric, value] : {Case{"gpu", "rows_remapped", 2},
                                            {"gpu", "ecc_corrected", 5},
                                            {"gpu", "pcie_replays", 1},
                                            {"host", "ib_link_downed", 3},
                                            {"host", "fabric_manager", 0}}) {
    Machine machine;
    machine.set(0, part, metric, value);
    const Verdict verdict = machine.judged();
    const Finding finding = only_complaint(verdict);
    EXPECT_EQ(finding.metric, metric);
    EXPECT_EQ(finding.status, Status::fail);
    EXPECT_FALSE(finding.counts());
    EXPECT_EQ(finding.worst->host, "node0");
    EXPECT_EQ(verdict.state, State::fit);
  }
  for (const auto& [metric, value] : {std::pair{"governor", "powersave"}, {"clocksource", "hpet"}}) {
    Machine machine;
    machine.host(metric, value);
    EXPECT_NE(only_complaint(machine.judged()).detail.find(value), std::string::npos);
  }
}

TEST(Preflight, AsksForFactsOnlyWhereTheyCanBe) {
  Machine machine;  // in a virtual machine without InfiniBand
  for (const char* name : {"ib_ports", "nvswitches", "fabric_manager"}) machine.host(name, 0);
  for (const char* name : {"ib_rate_gbit", "ib_link_downed", "governor"}) machine.forget("host", name);
  const Verdict verdict = machine.judged();
  for (const Finding& finding : verdict.findings) {
    EXPECT_TRUE(finding.good()) << finding.key << " " << finding.metric << ": " << finding.detail;
    EXPECT_NE(finding.metric, "fabric_manager");
  }
}

TEST(Preflight, FailsForANicOfAnotherRateAndForAnOldDriver) {
  Machine machine(24, 3);
  machine.set(8, "host", "ib_rate_gbit", 200);
  expect_failure(machine, "ib_rate_gbit", "node1", "ib_rate_gbit 200 on node1, 400 on 2 others");
  for (const auto& [driver, good] :
       {std::pair{"525.60.13", true}, {"525.105", true}, {"525.60.9", false}, {"470.82", false}}) {
    Machine old;
    old.host("driver", driver);
    EXPECT_EQ(old.judged().state, good ? State::fit : State::fail) << driver;
  }
}

TEST(Preflight, FailsWithSevenOfEightGpus) {
  Machine machine;
  machine.set(0, "host", "gpus_missing", 1, "0000:17:00.0 is on the PCI bus, but not in NVML");
  expect_failure(machine, "gpus_missing", "node0", "0000:17:00.0 is on the PCI bus, but not in NVML");
}

TEST(Preflight, JudgesWhatSlurmSaysInsideOfItsJobsAlone) {
  const auto in_slurm = [](double answers, double drained, double missing) {
    Machine machine(16, 2);
    for (const std::size_t first : {0U, 8U}) {
      const bool second = first > 0;
      machine.set(first, "slurm", "slurm_answers", second ? answers : 1.0,
                  second ? "Slurm does not know the node node1" : "");
      machine.set(first, "slurm", "slurm_drained", second ? drained : 0.0, second ? "MIXED+DRAIN: bad fan" : "");
      machine.set(first, "slurm", "slurm_gpus_missing", second ? missing : 0.0);
      machine.set(first, "slurm", "slurm_gpus_unlisted", 0.0);
    }
    return machine;
  };
  EXPECT_EQ(in_slurm(1, 0, 0).judged().state, State::fit);
  EXPECT_EQ(only_complaint(in_slurm(1, 1, 0).judged()).metric, "slurm_drained");
  EXPECT_EQ(only_complaint(in_slurm(0, 0, 0).judged()).metric, "slurm_answers");
  EXPECT_EQ(in_slurm(1, 1, 0).judged().state, State::fit) << "a warning";
  EXPECT_EQ(in_slurm(1, 0, 1).judged().state, State::fail);
}

TEST(Preflight, JudgesWhatDcgmSaysWhereItWasAsked) {
  const auto asked = [](double answers) {
    Machine machine;
    machine.put_host("dcgm", "dcgm_answers", answers);
    machine.put("dcgm_gpu", "dcgm_answers", answers);
    for (const char* name : {"dcgm_failed", "dcgm_warned"}) {
      machine.put_host("dcgm", name, 0);
      machine.put("dcgm_gpu", name, 0);
    }
    return machine;
  };
  EXPECT_EQ(asked(1).judged().state, State::fit);
  Machine sick = asked(1);
  sick.set(3, "dcgm_gpu", "dcgm_failed", 1, "GPU 3, memory: row remapping failed");
  expect_failure(sick, "dcgm_failed", rank3, "GPU 3, memory: row remapping failed");
  Machine untested = asked(1);
  untested.set(3, "dcgm_gpu", "dcgm_failed", std::nullopt, "DCGM ran no test on this GPU");
  expect_failure(untested, "dcgm_failed", rank3, "ranks without a value; DCGM ran no test on this GPU",
                 Status::missing);
  Machine warned = asked(1);
  warned.set(0, "dcgm", "dcgm_warned", 1, "software: page retirement is pending");
  EXPECT_EQ(only_complaint(warned.judged()).metric, "dcgm_warned");
  EXPECT_EQ(warned.judged().state, State::fit) << "a warning";
  Machine silent = asked(0);
  for (std::size_t rank = 0; rank < 8; ++rank)
    silent.set(rank, "dcgm_gpu", "dcgm_failed", std::nullopt, "printed nothing");
  silent.set(0, "dcgm", "dcgm_answers", 0, "printed nothing");
  expect_failure(silent, "dcgm_answers", "node0", "printed nothing");
}

TEST(Preflight, FailsForARankWhoseGpuCudaCannotOpen) {
  Machine machine;
  machine.set(3, "gpu", "cuda_opens", 0, "8 ranks on this host but only 7 visible GPUs");
  machine.builder().context.ranks[3].device = "no usable cuda device";
  const auto verdict = machine.judged();
  EXPECT_EQ(verdict.profile, "h200-sxm") << "the other ranks say what machine it is";
  EXPECT_TRUE(only_complaint(verdict).detail.starts_with("8 ranks "));
  EXPECT_TRUE(only_complaint(verdict).detail.ends_with(" 7 visible GPUs"));
}

TEST(Preflight, FailsForALinkThatIsDown) {
  Machine machine;
  machine.set(3, "nvlink", "nvlinks_up", 17, "link 5 is down");
  expect_failure(machine, "nvlinks_up", rank3, "link 5 is down");
}

TEST(Preflight, FailsForRowsThatWaitToBeRemapped) {
  Machine machine;
  machine.set(3, "gpu", "remap_pending", 1);
  expect_failure(machine, "remap_pending", rank3, "");
}

TEST(Preflight, FailsForANarrowPcieLink) {
  Machine machine;
  machine.set(3, "gpu", "pcie_width", 8);
  expect_failure(machine, "pcie_width", rank3, "");
}

TEST(Preflight, FailsForAGpuThatIsThrottledAtRest) {
  Machine machine;
  machine.set(3, "gpu", "throttled", 1, "heat (hardware)");
  expect_failure(machine, "throttled", rank3, "heat (hardware)");
}

TEST(Preflight, FailsForAGpuThatIsDivided) {
  Machine machine;
  machine.set(3, "gpu", "mig", 1);
  expect_failure(machine, "mig", rank3, "");
}

TEST(Preflight, FailsForAnotherProgramOnAGpu) {
  Machine machine;
  machine.set(3, "gpu", "processes", 1, "pid 4321 (python3) with 2.0 GB");
  expect_failure(machine, "processes", rank3, "pid 4321 (python3) with 2.0 GB");
}

/// Without a site file, a port that is down or slower may be for storage, or a spare one.
void expect_failure_on_a_known_network(Machine& machine, const std::string& metric, const std::string& who,
                                       const std::string& detail) {
  machine.host("nics", 8);
  const auto on = [&](const std::string& members) {
    const Folder folder;
    const auto site = read_site(folder.write("site.yaml", "schema: 2\nsite: here\ninclude: h200-sxm\n" + members));
    const auto shipped = profiles_of(&site, testing_support::shipped_profiles());
    const Measured measured{machine.results()};
    return judge(measured, std::vector{on_site(shipped.front(), &site, measured)}, Machine::only_preflight());
  };
  for (const auto& [members, state] :
       {std::pair{"racks: {}\n", State::fit}, {"fabric: {nics: 8, nic_gbit: 400, source: order}\n", State::fail}}) {
    const auto verdict = on(members);
    const auto finding = only_complaint(verdict);
    EXPECT_EQ(verdict.state, state) << members;
    EXPECT_EQ(finding.counts(), state == State::fail);
    EXPECT_EQ(finding.metric, metric);
    EXPECT_EQ(finding.status, Status::fail);
    EXPECT_EQ(finding.detail, detail);
    EXPECT_EQ(text(finding.offenders.at(0)), who);
  }
}

/// The verdict on this machine at a site that orders eight rails of 400 Gbit/s for each host.
Verdict with_ordered_rails(Machine& machine) {
  const Folder folder;
  const auto site = read_site(folder.write("site.yaml",
                                           "schema: 2\nsite: here\ninclude: h200-sxm\n"
                                           "fabric: {nics: 8, nic_gbit: 400, source: order}\n"));
  const auto shipped = profiles_of(&site, testing_support::shipped_profiles());
  const Measured measured{machine.results()};
  return judge(measured, std::vector{on_site(shipped.front(), &site, measured)}, Machine::only_preflight());
}

TEST(Preflight, FailsForFewerOrSlowerRailsThanTheSiteOrders) {
  const auto judged = [&](double nics, const std::string& rate_fact, double rate) {
    Machine machine;
    machine.set(0, "host", "nics", nics);
    machine.set(0, "host", "rail_ports", "as read");
    machine.set(0, "host", "ib_ports", rate_fact == "ib_rate_gbit" ? 8 : 0);
    machine.set(0, "host", "roce_ports", rate_fact == "roce_rate_gbit" ? 8 : 0);
    machine.set(0, "host", "efa_ports", rate_fact == "efa_rate_gbit" ? 8 : 0);
    machine.set(0, "host", rate_fact, rate);
    return with_ordered_rails(machine);
  };
  for (const std::string layer : {"ib_rate_gbit", "roce_rate_gbit", "efa_rate_gbit"}) {
    EXPECT_EQ(judged(8, layer, 400).state, State::fit) << layer;
    EXPECT_EQ(judged(16, layer, 400).state, State::fit) << layer;
    EXPECT_EQ(only_complaint(judged(8, layer, 200)).metric, layer);
    EXPECT_EQ(only_complaint(judged(7, layer, 400)).metric, "nics");
  }
  EXPECT_EQ(judged(0, "ib_rate_gbit", 400).state, State::fail) << "none at all is fewer";
}

TEST(Preflight, DoesNotPassIfTheNumberOfOrderedRailsIsUnknown) {
  Machine machine;
  machine.set(0, "host", "rail_ports", "as read");
  const auto verdict = with_ordered_rails(machine);
  EXPECT_EQ(verdict.state, State::fail);
  EXPECT_EQ(only_complaint(verdict).metric, "nics");
  EXPECT_EQ(only_complaint(verdict).status, Status::missing);
}

TEST(Preflight, OfAnEarlierReleaseOnlyWarnsThatItDidNotCountTheOrderedRails) {
  Machine machine;
  const auto verdict = with_ordered_rails(machine);
  EXPECT_EQ(verdict.state, State::fit);
  EXPECT_EQ(only_complaint(verdict).metric, "nics");
  EXPECT_EQ(only_complaint(verdict).status, Status::missing);
  EXPECT_FALSE(only_complaint(verdict).counts());
}

TEST(Preflight, FailsForHostMemoryWithErrorsAndWarnsOfFaultyVersions) {
  Machine machine;
  machine.set(0, "host", "edac_uncorrected", 2, "mc1: 2");
  expect_failure(machine, "edac_uncorrected", "node0", "mc1: 2");
  Machine old;
  old.set(3, "software", "faulty_versions", 1, "nccl 2.18.1: it damages data");
  const auto finding = only_complaint(old.judged());
  EXPECT_EQ(finding.metric, "faulty_versions");
  EXPECT_FALSE(finding.counts());
}

TEST(Preflight, FailsForOtherRailsThanTheSiteNames) {
  const Folder folder;
  const auto site =
      read_site(folder.write("site.yaml", "schema: 2\nsite: here\ninclude: h200-sxm\nrails: ['mlx5_[0-1]']\n"));
  const auto shipped = profiles_of(&site, testing_support::shipped_profiles());
  const auto judged = [&](const std::string& rails) {
    Machine machine;
    machine.set(0, "host", "rail_names", rails);
    const Measured measured{machine.results()};
    return judge(measured, std::vector{on_site(shipped.front(), &site, measured)}, Machine::only_preflight());
  };
  EXPECT_EQ(judged("mlx5_0/1, mlx5_1/1").state, State::fit);
  EXPECT_EQ(only_complaint(judged("mlx5_0/1")).metric, "rail_names");
}

TEST(Preflight, FailsForLessThanTheSiteOrders) {
  const auto judged = [](const std::string& order) {
    const Folder folder;
    const auto site = read_site(
        folder.write("site.yaml", "schema: 2\nsite: here\ninclude: h200-sxm\norder: {" + order + ", source: o}\n"));
    const auto shipped = profiles_of(&site, testing_support::shipped_profiles());
    Machine machine;
    const Measured measured{machine.results()};
    return judge(measured, std::vector{on_site(shipped.front(), &site, measured)}, Machine::only_preflight());
  };
  for (const auto* held : {"gpus: 8", "gpu_memory_gb: 141", "driver: '580.95'", "host_memory_gb: 2000",
                           "nic_firmware: '28.39'", "nvlinks: 18", "kernel: 6.8.0"}) {
    EXPECT_EQ(judged(held).state, State::fit) << held;
  }
  for (const auto& [missed, metric] : {std::pair{"gpus: 16", "gpus_pci"},
                                       {"gpu_memory_gb: 180", "memory_gb"},
                                       {"driver: '590.1'", "driver"},
                                       {"host_memory_gb: 4000", "memory_gb"},
                                       {"nic_firmware: '28.40'", "ib_firmware"},
                                       {"nvlinks: 20", "nvlinks_up"}}) {
    const auto finding = only_complaint(judged(missed));
    EXPECT_EQ(finding.metric, metric) << missed;
    EXPECT_EQ(finding.source, "ordered: o");
  }
}

TEST(Preflight, FailsForADeadInfinibandPortWhereTheSiteNamesTheNics) {
  Machine machine;
  machine.set(0, "host", "ib_ports_down", 1, "mlx5_4/1 is DOWN (Polling)");
  expect_failure_on_a_known_network(machine, "ib_ports_down", "node0", "mlx5_4/1 is DOWN (Polling)");
}

TEST(Preflight, FailsForAPortSlowerThanTheOthersOfItsHostWhereTheSiteNamesTheNics) {
  Machine machine(16, 2);
  machine.set(8, "host", "ports_slow", 1, "mlx5_3/1 has 200 Gb/s, others 400");
  machine.set(0, "host", "ports_slow", 0.0);
  expect_failure_on_a_known_network(machine, "ports_slow", "node1", "mlx5_3/1 has 200 Gb/s, others 400");
}

TEST(Preflight, FailsForAPortThatWaitsForASubnetManager) {
  Machine machine;
  machine.set(0, "host", "ib_ports_init", 1, "mlx5_4/1 is INIT (LinkUp)");
  expect_failure(machine, "ib_ports_init", "node0", "mlx5_4/1 is INIT (LinkUp)");
}

TEST(Preflight, FailsForAHostWithOtherFramesThanTheOthers) {
  Machine machine(24, 3);
  machine.host("roce_mtu", 9000);
  machine.set(16, "host", "roce_mtu", 4500);
  expect_failure(machine, "roce_mtu", "node2", "roce_mtu 4500 on node2, 9000 on 2 others");
}

TEST(Preflight, WarnsOfWhatMakesTrafficBetweenHostsSlow) {
  const auto warns = [](Machine& machine, const std::string& metric, const std::string& words) {
    const Verdict verdict = machine.judged();
    const Finding finding = only_complaint(verdict);
    EXPECT_EQ(finding.metric, metric);
    EXPECT_FALSE(finding.counts());
    EXPECT_NE(finding.detail.find(words), std::string::npos) << finding.detail;
    EXPECT_EQ(finding.offenders.at(0).host, "node1");
    EXPECT_EQ(verdict.state, State::fit);
  };
  Machine rails(24, 3);
  rails.host("rails", "GPU0 mlx5_0/1 PIX");
  rails.set(8, "host", "rails", "GPU0 mlx5_1/1 PXB");
  warns(rails, "rails", "rails GPU0 mlx5_1/1 PXB on node1, GPU0 mlx5_0/1 PIX on 2 others");
  Machine far(24, 3);
  far.host("nics_far", 0);
  far.set(8, "host", "nics_far", 1, "GPU3 mlx5_4/1 SYS");
  warns(far, "nics_far", "GPU3 mlx5_4/1 SYS");
  Machine v1(24, 3);
  v1.host("roce_ports_without_v2", 0);
  v1.set(8, "host", "roce_ports_without_v2", 1, "mlx5_2/1");
  warns(v1, "roce_ports_without_v2", "mlx5_2/1");
  Machine index(24, 3);
  index.host("roce_gid_index", "3");
  index.set(8, "host", "roce_gid_index", "5");
  warns(index, "roce_gid_index", "roce_gid_index 5 on node1, 3 on 2 others");
  Machine frames(16, 2);
  frames.host("roce_mtu", 9000);
  EXPECT_EQ(frames.judged().state, State::fit);
  Machine small(16, 2);
  small.host("roce_mtu", 1500);
  EXPECT_EQ(only_complaint(small.judged()).metric, "roce_mtu");
}

TEST(Preflight, NamesTheHostWithAnotherDriver) {
  Machine machine(16, 16);
  machine.set(7, "host", "driver", "570.86");
  expect_failure(machine, "driver", "node7", "driver 570.86 on node7, 580.159.03 on 15 others");
}

TEST(Preflight, NamesTheRankWithAnotherNccl) {
  Machine machine(4, 2);
  machine.set(3, "software", "nccl", "2.27.7");
  expect_failure(machine, "nccl", "rank 3 node1 GPU-1003 0000:11:00.0",
                 "nccl 2.27.7 on rank 3 node1, same on 3 others");
}

TEST(Preflight, OnlyWarnsOfAnotherKernel) {
  Machine machine(4, 4);
  machine.set(2, "host", "kernel", "6.5.0");
  const auto verdict = machine.judged();
  EXPECT_EQ(only_complaint(verdict).detail, "kernel 6.5.0 on node2, 6.8.0 on 3 others");
  EXPECT_EQ(verdict.state, State::fit);
}

TEST(Preflight, TakesMemoriesThatDifferByLittleForTheSame) {
  Machine machine(4, 4);
  machine.set(2, "host", "memory_gb", 2163.1);
  EXPECT_EQ(machine.judged().state, State::fit);
  Machine other(4, 4);
  other.set(2, "host", "memory_gb", 1082.0);
  EXPECT_EQ(only_complaint(other.judged()).detail, "memory_gb 1082 on node2, 2164 on 3 others");
}

TEST(Preflight, NamesHostsThatCannotReachEachOther) {
  Machine machine(4, 2);
  const std::string text =
      "node1 eth0 10.0.0.2 cannot reach node0 eth0 10.0.0.1 port 40123: timed out after 3 s (firewall?)";
  machine.set(2, "network", "hosts_unreachable", 1, text);
  expect_failure(machine, "hosts_unreachable", "node1", text);
}

TEST(Preflight, WarnsOfAHostWhoseInterfaceHasAnotherMtu) {
  Machine machine(24, 3);
  for (const std::size_t rank : {0u, 8u}) machine.set(rank, "network", "interface_mtu", 9000, "eth0");
  machine.set(16, "network", "interface_mtu", 1500, "node2 eth1 10.0.0.3");
  const Finding finding = only_complaint(machine.judged());
  EXPECT_EQ(finding.detail, "interface_mtu 1500 on node2, 9000 on 2 others; node2 eth1 10.0.0.3");
  ASSERT_EQ(finding.offenders.size(), 1u);
  EXPECT_FALSE(finding.offenders[0].local_rank || finding.offenders[0].serial) << "the host, and none of its GPUs";
  EXPECT_EQ(finding.offenders.at(0).host, "node2");
  EXPECT_FALSE(finding.counts());
}

TEST(Preflight, SaysHowManyRanksShareACore) {
  Machine machine(4);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    machine.set(rank, "binding", "ranks_per_core", 4, "4 ranks share core 0");
  }
  expect_failure(machine, "ranks_per_core", "rank 0 node0 GPU-1000 0000:10:00.0", "4 ranks share core 0");
}

TEST(Preflight, NamesRanksInOtherContainersAndKernelsThatTheDriverCompiles) {
  Machine healthy(4), machine(4), kernels;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    healthy.set(rank, "binding", "ranks_apart", 0.0);
    healthy.set(rank, "gpu", "jit_s", 0.0);
  }
  EXPECT_EQ(healthy.judged().exit_code, 0);
  machine.set(3, "binding", "ranks_apart", 3,
              "local ranks 0, 1, 2 are in other containers (IPC or process namespaces)");
  const auto apart = only_complaint(machine.judged());
  EXPECT_EQ(apart.metric, "ranks_apart");
  EXPECT_FALSE(apart.counts()) << "a warning";
  EXPECT_EQ(apart.detail.rfind("local ranks 0, 1, 2 ", 0), 0U);
  for (std::size_t rank = 0; rank < 8; ++rank) kernels.set(rank, "gpu", "jit_s", 12.5, "only PTX for this GPU");
  const auto verdict = kernels.judged();
  const auto compiled = only_complaint(verdict);
  EXPECT_EQ(compiled.metric, "jit_s");
  EXPECT_EQ(compiled.value, 12.5);
  EXPECT_FALSE(compiled.counts()) << "it costs the first run some seconds";
  EXPECT_EQ(verdict.exit_code, 0);
}

TEST(Preflight, MissesWhatCouldNotBeReadAndSaysWhy) {
  Machine machine;
  machine.set(3, "gpu", "pcie_width", std::nullopt, "not supported");
  expect_failure(machine, "pcie_width", rank3, "ranks without a value; not supported", Status::missing);
  Machine blind;
  blind.forget("gpu", "ecc");
  for (std::size_t rank = 0; rank < 8; ++rank) blind.set(rank, "gpu", "ecc", "no permission");
  expect_failure(blind, "ecc", "rank 0 node0 GPU-1000 0000:10:00.0", "ranks without a value; no permission",
                 Status::missing);
  Machine absent;
  absent.forget("software", "nccl");
  const auto finding = only_complaint(absent.judged());
  EXPECT_EQ(finding.status, Status::missing);
  EXPECT_EQ(finding.detail, "was not read");
}

TEST(Preflight, WarnsOfAShortLimitOfLockedMemory) {
  Machine machine;
  machine.set(0, "host", "memlock", "65536 bytes");
  EXPECT_EQ(only_complaint(machine.judged()).detail, "is \"65536 bytes\", must be \"unlimited\"");
}

TEST(Preflight, ThatFailsStandsForAllThatWasNotMeasured) {
  Machine machine;
  machine.set(3, "gpu", "remap_pending", 1);
  const auto verdict = machine.judged({});
  EXPECT_EQ(verdict.state, State::fail);
  std::vector<std::string> keys;
  for (const auto& finding : verdict.findings) {
    if (!finding.good()) keys.push_back(finding.key);
  }
  EXPECT_EQ(keys, (std::vector<std::string>{"preflight/of:gpu", "machine/preflight"}));
  const auto& rest = verdict.findings.back();
  EXPECT_EQ(rest.status, Status::missing);
  EXPECT_NE(rest.detail.find("gemm"), std::string::npos);
  EXPECT_NE(rest.next.find("--despite-preflight"), std::string::npos);
}

TEST(Preflight, ThatPassesExcusesNothing) {
  const auto verdict = Machine().judged({});
  EXPECT_EQ(verdict.state, State::fail);
  EXPECT_TRUE(std::any_of(verdict.findings.begin(), verdict.findings.end(), [](const Finding& finding) {
    return finding.status == Status::missing && family_of(finding.key) == "gemm";
  }));
}

TEST(Preflight, ThatFailedIsNoExcuseForOneFamilyAmongOthers) {
  Machine machine;
  machine.set(3, "gpu", "remap_pending", 1);
  machine.builder().add("gemm/dtype:bf16/m:8192/n:8192/k:8192", "tflops", 700);
  const auto verdict = machine.judged({});
  EXPECT_TRUE(std::any_of(verdict.findings.begin(), verdict.findings.end(), [](const Finding& finding) {
    return finding.status == Status::missing && family_of(finding.key) == "hbm";
  }));
}

TEST(PreflightRules, AreRefusedIfTheyCouldNeverMean) {
  const auto error_of = [](const std::string& rule) -> std::string {
    try {
      testing_support::profile("  - {" + rule + ", source: s}\n");
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const auto has = [&](const std::string& rule, const std::string& words) {
    EXPECT_NE(error_of(rule).find(words), std::string::npos) << error_of(rule);
  };
  has("benchmark: \"preflight/of:gpu\", metric: pcie_witdh, every: rank, equals: 16", "unknown fact \"pcie_witdh\"");
  has("benchmark: \"preflight/of:disk\", metric: x, every: rank, equals: 16", "unknown part of pre-flight");
  has("benchmark: \"preflight/of:gpu\", metric: mig, every: run, equals: 0", "write every: rank");
  has("benchmark: \"preflight/of:host\", metric: driver, every: rank, same: true", "write every: host");
  has("benchmark: \"preflight/of:host\", metric: driver, every: host, min: 5", "a text has no min");
  has("benchmark: \"preflight/of:host\", metric: driver, every: host", "without a limit");
  has("benchmark: \"preflight/of:host\", metric: driver, every: host, same: false", "has no effect");
  has("benchmark: \"preflight/of:host\", metric: cores, every: host, same: true, min: 1", "min with same");
  has("benchmark: \"gemm/x:1\", metric: tflops, every: rank, same: true", "only facts of pre-flight");
  has("benchmark: \"gemm/x:1\", metric: tflops, every: host, min: 1", "every: host is for facts of pre-flight");
  EXPECT_EQ(error_of("benchmark: \"preflight/of:host\", metric: kernel, every: host, equals: 6.8"), "");
}

TEST(OddOnesOut, AreThoseThatMostAreNot) {
  std::vector<Holder> holders(16, {"", "580.159"});
  for (std::size_t i = 0; i < holders.size(); ++i) holders[i].who = "node" + std::to_string(i);
  EXPECT_TRUE(odd_ones_out(holders).text.empty());
  holders[7].value = "570.86";
  EXPECT_EQ(odd_ones_out(holders).text, "570.86 on node7, 580.159 on 15 others");
  EXPECT_EQ(odd_ones_out(holders).who, std::vector<std::size_t>{7});
  holders[9].value = "570.86";
  holders[1].value = std::nullopt;
  EXPECT_EQ(odd_ones_out(holders).text, "570.86 on node7, node9, 580.159 on 13 others");
}

TEST(OddOnesOut, AreTheSecondOfTwo) {
  const auto odd = odd_ones_out({{"node0", "a"}, {"node1", "b"}});
  EXPECT_EQ(odd.who, std::vector<std::size_t>{1});
  EXPECT_EQ(odd.text, "b on node1, a on node0");
}

}  // namespace
}  // namespace shakedown::preflight_test
