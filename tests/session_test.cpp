// How a Session paces its samples, with a device that takes whatever time it is told.
#include "fixtures/session.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "fixtures/cluster_fixture.hpp"
#include "fixtures/watchdog.hpp"
#include "fixtures/world.hpp"
#include "kernels/lone_peers.hpp"
#include "tests/fake_gpus.hpp"

namespace shakedown {
namespace {

class LoneWorld final : public World {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void barrier() override {}
  void broadcast(std::span<std::byte>, int) override {}
  void sum(std::span<const float> in, std::span<float> out) override { peers_.sum(in, out); }
  void sum(std::span<const double> in, std::span<double> out) override { peers_.sum(in, out); }
  void reduce(std::span<const float> in, std::span<float> out, int root) override { peers_.reduce(in, out, root); }
  void reduce_scatter(std::span<const float> in, std::span<float> out) override { peers_.reduce_scatter(in, out); }
  void all_gather(std::span<const std::byte> in, std::span<std::byte> out) override { peers_.all_gather(in, out); }
  void all_to_all(std::span<const std::byte> in, std::span<std::byte> out) override { peers_.all_to_all(in, out); }
  void sendrecv(std::span<const std::byte> out, int to, std::span<std::byte> in, int from) override {
    peers_.sendrecv(out, to, in, from);
  }
  std::vector<std::string> gather(const std::string& message) override { return {message}; }
  std::unique_ptr<Peers> split(int, int) override { return std::make_unique<LonePeers>(); }
  Peers& local() override { return peers_; }
  double max(double mine) override { return mine; }
  void min(std::span<double>) override {}
  double clock() const override { return 0; }
  const std::vector<std::string>& hosts() const override { return hosts_; }
  std::string library() const override { return ""; }
  void abort(int) noexcept override {}

 private:
  LonePeers peers_;
  std::vector<std::string> hosts_{"node"};
};

class Nothing final : public Work {
 public:
  explicit Nothing(bool collective) : collective_(collective) {}

 private:
  void enqueue() override {}
  void reset() override {}
  Check verify() override { return {1, 0, ""}; }
  Cost cost() const override { return {}; }
  std::size_t bytes() const override { return 0; }
  bool collective() const override { return collective_; }

  bool collective_;
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
                         bool collective = false) {
  LoneWorld world;
  Watchdog watchdog("test", 60);
  Options options;
  options.min_time = min_time;
  Session session(world, watchdog, options, Backend::host, std::make_unique<Clockwork>(operation_seconds), "", {});
  Nothing work(collective);
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

TEST(Pace, OfNoTimeIsNone) {
  EXPECT_FALSE(pace(0));
  EXPECT_FALSE(pace(-1));
}

/// An operation of a million flops that really takes its time.
class Load final : public Work {
  void enqueue() override {}
  void reset() override {}
  Check verify() override { return {1, 0, ""}; }
  Cost cost() const override { return {1e6, 0}; }
  std::size_t bytes() const override { return 0; }
  bool collective() const override { return false; }
};
class Sleeper final : public Device {
  DeviceInfo info() const override { return {}; }
  double seconds(Work&, int repeats) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * repeats));
    return 2e-3 * repeats;
  }
};

class Silent final : public benchmark::BenchmarkReporter {
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const auto& run : runs) counters = run.counters;
  }

 public:
  benchmark::UserCounters counters;
};

/// What the rows of one measurement hold.
struct Rows {
  benchmark::UserCounters counters;
  ByRank by_rank;
  TextByRank texts;
};
Rows measured(Backend backend, std::unique_ptr<Telemetry> telemetry) {
  LoneWorld world;
  Watchdog watchdog("test", 60);
  const Options options;
  Session session(world, watchdog, options, backend, std::make_unique<Sleeper>(), "", {}, std::move(telemetry));
  Measurement measurement;
  measurement.key = "gemm/m:1";
  measurement.prepare = [](Device&) { return std::make_unique<Load>(); };
  measurement.figures = [](const Cost& cost, double seconds, int) -> Metrics {
    return {{"tflops", cost.flops / seconds}};
  };
  session.add(measurement);
  register_with_library(session);
  Silent reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  benchmark::ClearRegisteredBenchmarks();
  session.collect_errors();
  return {reporter.counters, session.repetitions().at("gemm/m:1").at(0), session.texts().at("gemm/m:1").at(0)};
}

TEST(Telemetry, StandsInTheRowsOfAGpu) {
  std::string replays = "0 nvmlDeviceGetPcieReplayCounter 1";  // one more whenever somebody looks
  for (int i = 2; i < 1000; ++i) replays += "|" + std::to_string(i);
  const FakeGpus gpus(
      "0 nvmlDeviceGetClockInfo:1 1000\n0 field:186 500000\n0 nvmlDeviceGetCurrentClocksEventReasons 4\n" + replays +
      "\n");
  const Nvml nvml(FakeGpus::library());
  const auto rows = measured(Backend::cuda, std::make_unique<Telemetry>(*nvml.find("GPU-fake-0", std::nullopt)));
  EXPECT_EQ(rows.by_rank.at("sm_mhz").at(0), 1000);
  EXPECT_EQ(rows.by_rank.at("power_w").at(0), 500);
  EXPECT_EQ(rows.by_rank.at("temperature_c").at(0), std::nullopt);
  EXPECT_EQ(rows.by_rank.at("throttled").at(0), 1);
  EXPECT_EQ(rows.by_rank.at("tflops_per_ghz").at(0), rows.by_rank.at("tflops").at(0));
  EXPECT_EQ(rows.texts.at("throttle").at(0), "sw_power_cap 100 %");
  EXPECT_EQ(rows.texts.at("errors").at(0), "PCIe replays +1");
  EXPECT_EQ(rows.counters.at("sm_mhz").value, 1000);
  EXPECT_EQ(rows.counters.at("throttled").value, 1);
  EXPECT_EQ(rows.counters.count("temperature_c"), 0u) << "Google Benchmark has no null; the file gets one";
}

TEST(Telemetry, OfAGpuThatNobodyWatchesIsNullAndNotAbsent) {
  const auto rows = measured(Backend::cuda, nullptr);
  for (const auto* name : {"sm_mhz", "power_w", "temperature_c", "throttled", "tflops_per_ghz"}) {
    EXPECT_EQ(rows.by_rank.at(name), std::vector<std::optional<double>>{std::nullopt}) << name;
    EXPECT_EQ(rows.counters.count(name), 0u) << name;
  }
  EXPECT_EQ(rows.texts.at("throttle").at(0), std::nullopt);
  EXPECT_EQ(rows.texts.at("errors").at(0), std::nullopt);
}

TEST(Telemetry, IsNotInTheRowsOfAHost) {
  const auto rows = measured(Backend::host, nullptr);
  EXPECT_EQ(rows.by_rank.count("sm_mhz"), 0u);
  EXPECT_TRUE(rows.texts.empty());
}

}  // namespace
}  // namespace shakedown
