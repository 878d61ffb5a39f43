// How a Session paces its samples, with a device that takes whatever time it is told.
#include "fixtures/session.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "base/archive.hpp"
#include "base/group.hpp"
#include "fixtures/cluster_fixture.hpp"
#include "fixtures/facts.hpp"
#include "fixtures/watchdog.hpp"
#include "fixtures/world.hpp"
#include "tests/fake_gpus.hpp"

namespace shakedown {
namespace {

class LoneWorld : public World {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void barrier() override {}
  void broadcast(std::span<std::byte>, int) override {}
  void sum(std::span<const float> in, std::span<float> out) override { group_.sum(in, out); }
  void sum(std::span<const double> in, std::span<double> out) override { group_.sum(in, out); }
  void reduce(std::span<const float> in, std::span<float> out, int root) override { group_.reduce(in, out, root); }
  void reduce_scatter(std::span<const float> in, std::span<float> out) override { group_.reduce_scatter(in, out); }
  void all_gather(std::span<const std::byte> in, std::span<std::byte> out) override { group_.all_gather(in, out); }
  void all_to_all(std::span<const std::byte> in, std::span<std::byte> out) override { group_.all_to_all(in, out); }
  void sendrecv(std::span<const std::byte> out, int to, std::span<std::byte> in, int from) override {
    group_.sendrecv(out, to, in, from);
  }
  std::vector<std::string> gather(const std::string& message) override { return {message}; }
  std::unique_ptr<Group> split(int, int) override { return std::make_unique<Alone>(); }
  Group& on_host() override { return group_; }
  double max(double mine) override { return mine; }
  void min(std::span<double>) override {}
  double clock() const override { return 0; }
  const std::vector<std::string>& hosts() const override { return hosts_; }
  std::string library() const override { return ""; }
  void abort(int) noexcept override {}

 private:
  Alone group_;
  std::vector<std::string> hosts_{"node"};
};

class Nothing final : public Work {
 public:
  explicit Nothing(bool collective, std::optional<Bursts> bursts = {}) : collective_(collective), bursts_(bursts) {}

 private:
  std::optional<Bursts> bursts() const override { return bursts_; }
  void enqueue() override {}
  void reset() override {}
  Check verify() override { return {1, 0, ""}; }
  Cost cost() const override { return {}; }
  std::size_t bytes() const override { return 0; }
  bool collective() const override { return collective_; }

  bool collective_;
  std::optional<Bursts> bursts_;
};

/// Every operation takes so many seconds.
class Clockwork final : public Device {
 public:
  explicit Clockwork(double seconds) : seconds_(seconds) {}
  DeviceInfo info() const override { return {}; }
  double seconds(Work&, int repeats) override { return seconds_ * repeats; }

 private:
  double seconds_;
};

std::optional<Pace> pace(double operation_seconds, double least_seconds = 0, const std::string& min_time = "",
                         bool collective = false, std::optional<Bursts> bursts = {}) {
  LoneWorld world;
  Watchdog watchdog("test", 60);
  Options options;
  options.min_time = min_time;
  Session session(world, watchdog, options, Backend::host, std::make_unique<Clockwork>(operation_seconds), "", {});
  Nothing work(collective, bursts);
  Measurement measurement;
  measurement.key = "gemm/m:1";
  measurement.least_seconds = least_seconds;
  return session.pace_for(measurement, work);
}

TEST(Pace, IsTenSamplesOfAMillisecondOrOneOperation) {
  EXPECT_EQ(pace(1e-5)->batch, 100);
  EXPECT_EQ(pace(2e-3)->batch, 2);
  EXPECT_EQ(pace(2e-3, 0, "", true)->batch, 4) << "ranks do not enter a collective at the same time";
  EXPECT_EQ(pace(7e-3)->batch, 1);
  for (const double seconds : {1e-5, 2e-3, 7e-3}) EXPECT_EQ(pace(seconds)->samples, 10);
}

TEST(Pace, OfALastingLoadCoversItInOnePass) {
  for (const double operation : {1.5e-5, 1.5e-3, 0.3, 2.0}) {
    const auto lasting = pace(operation, 10);
    ASSERT_TRUE(lasting);
    EXPECT_GE(lasting->batch * lasting->samples * operation, 10) << operation;
    EXPECT_GE(lasting->samples, 9) << operation;
  }
  EXPECT_NEAR(pace(1.5e-3, 10)->batch, 66, 1);  // long samples: the load hardly pauses
}

TEST(Pace, CoversTheMinimumTimeInOnePass) {
  for (const double operation : {1.5e-5, 2e-3, 3e-2}) {
    const auto quick = pace(operation, 0, "0.05s");
    ASSERT_TRUE(quick);
    EXPECT_GE(static_cast<double>(quick->pass()) * operation, 0.05) << operation;
    EXPECT_GE(quick->samples, 10) << operation;
  }
  EXPECT_LT(pace(1e-5, 0, "0.05")->samples, 70) << "and not much longer";
  EXPECT_EQ(pace(1e-5, 0, "3x")->samples, 10) << "iterations are no seconds";
}

TEST(Pace, OfAWorkWithBurstsIsWholeBurstsThatCoverTheMinimumTime) {
  for (const double operation : {1.8e-4, 1.4e-3, 3e-3, 1.1e-2, 0.14}) {
    const auto bursts = pace(operation, 0, "0.05s", false, Bursts{0.02, 0});
    ASSERT_TRUE(bursts);
    EXPECT_LE(bursts->burst * bursts->batch * operation, std::max(0.02, operation * bursts->batch)) << operation;
    EXPECT_GE(bursts->burst, 1) << operation;
    EXPECT_EQ(bursts->samples % bursts->burst, 0) << operation;
    EXPECT_GE(static_cast<double>(bursts->pass()) * operation, 0.05) << operation;
  }
  EXPECT_EQ(pace(1.4e-3, 0, "0.05s", false, Bursts{0.02, 0})->burst, 7);
  EXPECT_EQ(pace(1.4e-3, 0, "0.05s")->burst, 0) << "other Works have none";
}

TEST(Pace, OfNoTimeIsNone) {
  EXPECT_FALSE(pace(0));
  EXPECT_FALSE(pace(-1));
}

/// An operation of a million flops that really takes its time.
class Load final : public Work {
 public:
  explicit Load(std::optional<Bursts> bursts) : bursts_(bursts) {}

 private:
  std::optional<Bursts> bursts() const override { return bursts_; }
  void enqueue() override {}
  void reset() override {}
  Check verify() override { return {1, 0, ""}; }
  Cost cost() const override { return {1e6, 0}; }
  std::size_t bytes() const override { return 0; }
  bool collective() const override { return false; }

  std::optional<Bursts> bursts_;
};
/// Notes in seconds how long it had nothing to do before each sample.
class Sleeper final : public Device {
 public:
  explicit Sleeper(std::vector<double>& rests) : rests_(rests) {}

 private:
  using Clock = std::chrono::steady_clock;
  DeviceInfo info() const override { return {}; }
  double seconds(Work&, int repeats) override {
    rests_.push_back(std::chrono::duration<double>(Clock::now() - ended_).count());
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * repeats));
    ended_ = Clock::now();
    return 2e-3 * repeats;
  }

  std::vector<double>& rests_;
  Clock::time_point ended_ = Clock::now();
};

class Silent final : public benchmark::BenchmarkReporter {
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const auto& run : runs) counters = run.counters;
  }

 public:
  benchmark::UserCounters counters;
};

/// What the rows of the first of some measurements hold, and how long the device rested before each sample of all.
struct Rows {
  benchmark::UserCounters counters;
  RankData data;
  std::vector<double> rests;
};
Rows measured(Backend backend, std::unique_ptr<Telemetry> telemetry, std::optional<Bursts> bursts = {}, int count = 1) {
  std::vector<double> rests;
  LoneWorld world;
  Watchdog watchdog("test", 60);
  Options options;
  options.min_time = bursts ? "0.02" : "0.15";  // NVML needs 0.1 s to know
  std::string program = "test", flag = "--benchmark_min_time=" + options.min_time;
  int argc = 2;
  char* argv[] = {program.data(), flag.data(), nullptr};
  benchmark::Initialize(&argc, argv);
  Session session(world, watchdog, options, backend, std::make_unique<Sleeper>(rests), "", {}, std::move(telemetry));
  Measurement measurement;
  measurement.prepare = [bursts](Device&) { return std::make_unique<Load>(bursts); };
  measurement.figures = [](const Cost& cost, double seconds, int) -> Metrics {
    return {{"tflops", cost.flops / seconds}};
  };
  for (int i = 1; i <= count; ++i) {
    measurement.key = "gemm/m:" + std::to_string(i);
    session.add(measurement);
  }
  register_with_library(session);
  Silent reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  benchmark::ClearRegisteredBenchmarks();
  session.collect_errors(true);
  return {reporter.counters, session.repetitions().at("gemm/m:1").at(0), rests};
}

/// The same on a GPU whose driver answers so.
Rows measured_on_gpu(const std::string& answers, std::optional<Bursts> bursts = {}, int count = 1) {
  const FakeGpus gpus(answers);
  const Nvml nvml(FakeGpus::library());
  return measured(Backend::cuda, std::make_unique<Telemetry>(*nvml.find("GPU-fake-0", std::nullopt)), bursts, count);
}

TEST(Bursts, RestBeforeEachAndNotWithin) {
  // 2 ms an operation, 2 a sample: two samples to a burst.
  const auto rests = measured(Backend::host, nullptr, Bursts{8e-3, 0.05}).rests;
  const std::size_t of_pace = 2;  // the first operations, which set the pace
  ASSERT_GE(rests.size(), of_pace + 10);
  EXPECT_GE(rests[0], 0.05) << "the pace is that of a burst";
  for (std::size_t i = of_pace; i < rests.size(); ++i) {
    if ((i - of_pace) % 2 == 0) {
      EXPECT_GE(rests[i], 0.05) << i;
    } else {
      EXPECT_LT(rests[i], 0.05) << i;
    }
  }
}

TEST(Bursts, HaveNoPowerBecauseTheDriverCannotTellThemFromTheRests) {
  const auto rows = measured_on_gpu("0 nvmlDeviceGetClockInfo:1 1000\n0 field:186 500000\n", Bursts{9e-3, 0.05});
  EXPECT_EQ(rows.data.by_rank.at("power_w").at(0), std::nullopt);
  EXPECT_EQ(rows.data.by_rank.at("tflops_per_w").at(0), std::nullopt);
  EXPECT_EQ(rows.data.by_rank.at("sm_mhz").at(0), 1000);
}

TEST(Telemetry, StandsInTheRowsOfAGpu) {
  const auto rows = measured_on_gpu(
      "0 nvmlDeviceGetClockInfo:1 1000\n0 field:186 500000\n0 nvmlDeviceGetCurrentClocksEventReasons 4\n" +
      counting("0 nvmlDeviceGetPcieReplayCounter"));
  EXPECT_EQ(rows.data.by_rank.at("sm_mhz").at(0), 1000);
  EXPECT_EQ(rows.data.by_rank.at("power_w").at(0), 500);
  EXPECT_EQ(rows.data.by_rank.at("temperature_c").at(0), std::nullopt);
  EXPECT_EQ(rows.data.by_rank.at("throttled").at(0), 1);
  EXPECT_EQ(rows.data.by_rank.at("tflops_per_ghz").at(0), rows.data.by_rank.at("tflops").at(0));
  EXPECT_EQ(rows.data.throttle, (ByRank{{"sw_power_cap", {1}}}));
  EXPECT_EQ(rows.data.errors, (CountsByRank{{"pcie_replays", {1}}}));
  EXPECT_EQ(rows.data.errors_rows, 1);
  EXPECT_EQ(rows.counters.at("sm_mhz").value, 1000);
  EXPECT_EQ(rows.counters.at("throttled").value, 1);
  EXPECT_EQ(rows.counters.count("temperature_c"), 0u) << "Google Benchmark has no null; the file gets one";
}

TEST(Telemetry, TellsAllRowsOfASecondWhichErrorsWereCountedInIt) {
  const auto rows = measured_on_gpu("0 nvmlDeviceGetPcieReplayCounter 1|4\n", std::nullopt, 3);
  EXPECT_EQ(rows.data.errors, (CountsByRank{{"pcie_replays", {3}}}));
  EXPECT_EQ(rows.data.errors_rows, 3);
}

TEST(Telemetry, CountsErrorsOnceASecondWhileRowsFollowEachOther) {
  const auto rows = measured_on_gpu(counting("0 nvmlDeviceGetPcieReplayCounter"), Bursts{9e-3, 0.1}, 4);  // 0.6 s each
  EXPECT_EQ(rows.data.errors, (CountsByRank{{"pcie_replays", {1}}}));
  EXPECT_LE(rows.data.errors_rows, 2);
}

TEST(Telemetry, OfAGpuThatNobodyWatchesIsNullAndNotAbsent) {
  const auto rows = measured(Backend::cuda, nullptr);
  for (const auto* name : {"sm_mhz", "power_w", "temperature_c", "throttled", "tflops_per_ghz"}) {
    EXPECT_EQ(rows.data.by_rank.at(name), std::vector<std::optional<double>>{std::nullopt}) << name;
    EXPECT_EQ(rows.counters.count(name), 0u) << name;
  }
  EXPECT_TRUE(rows.data.throttle.empty());
  EXPECT_TRUE(rows.data.errors.empty());
}

TEST(Telemetry, IsNotInTheRowsOfAHost) {
  const auto rows = measured(Backend::host, nullptr);
  EXPECT_EQ(rows.data.by_rank.count("sm_mhz"), 0u);
  EXPECT_TRUE(rows.data.text_by_rank.empty());
}

// --- links ---

/// Ranks of which each knows these links.
class LinkedWorld final : public LoneWorld {
 public:
  LinkedWorld(std::vector<std::string> hosts, std::vector<std::vector<NcclLink>> links)
      : hosts_(std::move(hosts)), links_(std::move(links)) {}
  int size() const override { return static_cast<int>(hosts_.size()); }
  const std::vector<std::string>& hosts() const override { return hosts_; }
  std::vector<std::string> gather(const std::string&) override {
    std::vector<std::string> answers;
    for (const auto& links : links_) answers.push_back(packed(links));
    return answers;
  }

 private:
  std::vector<std::string> hosts_;
  std::vector<std::vector<NcclLink>> links_;
};

NcclFacts connected(const std::vector<std::string>& hosts, const std::vector<std::vector<NcclLink>>& links) {
  LinkedWorld world(hosts, links);
  Context context;
  add_connections(world, {}, context);
  return context.nccl;
}

TEST(Links, StandOnceEachThoseThatAreNotPeerCopiesInsideAHostFirst) {
  const NcclLink ours{0, 1, "P2P/CUMEM"}, theirs{3, 2, "SHM/direct/direct"}, between{1, 2, "NET/IB/0"};
  const auto nccl = connected({"a", "a", "b", "b"}, {{ours}, {ours, between}, {theirs, between}, {theirs}});
  EXPECT_EQ(nccl.transport, "P2P,SHM");
  EXPECT_EQ(nccl.transport_between_hosts, "NET");
  EXPECT_EQ(nccl.links, (std::vector{theirs, ours, between}));
  EXPECT_EQ(nccl.links_left_out, 0);
}

TEST(Links, OfManyRanksAreCountedBeyondTheFirst) {
  std::vector<std::vector<NcclLink>> links(12);
  for (int src = 0; src < 12; ++src) {
    for (int dst = 0; dst < 12; ++dst) {
      if (src != dst) links[static_cast<std::size_t>(src)].push_back({src, dst, src == 11 ? "SHM" : "P2P"});
    }
  }
  const auto nccl = connected(std::vector<std::string>(12, "a"), links);
  EXPECT_EQ(nccl.links.size(), most_links);
  EXPECT_EQ(nccl.links_left_out, 12 * 11 - static_cast<int>(most_links));
  EXPECT_EQ(nccl.links.front(), (NcclLink{11, 0, "SHM"}));
}

TEST(Links, ThatNobodyKnowsAreUnknown) {
  const auto nccl = connected({"a", "a"}, {{}, {}});
  EXPECT_FALSE(nccl.transport || nccl.transport_between_hosts);
  EXPECT_TRUE(nccl.links.empty());
}

// --- what ranks complain of ---

Complaint complaint_by(const std::vector<std::string>& complaints, const std::vector<std::string>& checksums) {
  return complaint_of(complaints, checksums, [](int rank) { return "rank " + std::to_string(rank) + " (node)"; })
      .value_or(Complaint{"none"});
}
std::string complaint(const std::vector<std::string>& complaints, const std::vector<std::string>& checksums) {
  return complaint_by(complaints, checksums).text;
}

TEST(Complaint, NamesEveryRankWithWrongData) {
  EXPECT_EQ(complaint({"", "", ""}, {"", "", ""}), "none");
  EXPECT_EQ(complaint({"", "1 of 4", ""}, {"", "", ""}), "wrong data: rank 1 (node): 1 of 4");
  EXPECT_EQ(complaint({"", "1 of 4", "2 of 4", "3 of 4"}, {"", "", "", ""}),
            "wrong data: rank 1 (node): 1 of 4; also wrong: rank 2 (node), rank 3 (node)");
  EXPECT_EQ(complaint_by({"", "1 of 4", "2 of 4", "3 of 4"}, {"", "", "", ""}).wrong_ranks, (std::vector{1, 2, 3}));
}

TEST(Complaint, NamesEveryRankWithOtherBitsThanMost) {
  EXPECT_EQ(complaint({"", "", ""}, {"GPU, 7", "GPU, 7", "GPU, 7"}), "none");
  EXPECT_EQ(complaint({"", "", ""}, {"GPU, 7", "other GPU, 8", "GPU, 7"}), "none") << "another kind";
  const std::string how = " of its peers from the same input with the same algorithm (silent data corruption)";
  EXPECT_EQ(complaint({"", "", ""}, {"GPU, 8", "GPU, 7", "GPU, 7"}), "rank 0 (node) computed other bits than 2" + how);
  EXPECT_EQ(complaint({"", "", "", "", ""}, {"GPU, 7", "GPU, 9", "GPU, 7", "GPU, 7", "GPU, 8"}),
            "rank 1 (node) computed other bits than 3" + how + "; also wrong: rank 4 (node)");
  EXPECT_EQ(complaint_by({"", "", "", "", ""}, {"GPU, 7", "GPU, 9", "GPU, 7", "GPU, 7", "GPU, 8"}).wrong_ranks,
            (std::vector{1, 4}));
}

TEST(Complaint, AccusesNobodyOfOtherBitsWhereAsManyAgreeWithTheOther) {
  for (const auto& checksums :
       {std::vector<std::string>{"GPU, 8", "GPU, 7"}, {"GPU, 8", "GPU, 8", "GPU, 7", "GPU, 7"}}) {
    const auto [text, wrong_ranks] = complaint_by(std::vector<std::string>(checksums.size()), checksums);
    EXPECT_TRUE(wrong_ranks.empty());
    EXPECT_NE(text.find("computed different bits"), std::string::npos) << text;
    EXPECT_NE(text.find("which of them is wrong cannot be told"), std::string::npos) << text;
    EXPECT_EQ(text.find("other bits"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace shakedown
