// How long it takes to read and judge the results of a whole cluster, to name its culprits and to write the report:
// simulated fleets of hosts with 8 GPUs and three faults. Prints seconds of one core and peak memory;
// exit code 1 beyond 40 s or 360 MB for 10,000 GPUs in a release build, if a culprit is not named, or if time grows
// faster than the cluster.
//
//   build/tests/judge_scale [--one-file] [GPUs ...]     (default: 104, 1000 and 10000; a file for each family)
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <vector>

#include "report/culprits.hpp"
#include "report/terminal.hpp"
#include "report/verdict_json.hpp"
#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/rehearsal/fleet.hpp"

namespace shakedown {
namespace {

#ifdef NDEBUG
// Idle cores needed 16 to 19 s (2026-11); a busy machine needs more.
constexpr double limit_seconds = 40, limit_mib = 343;  // 300 MiB with two threads that read
#else
constexpr double limit_seconds = 300, limit_mib = 8192;  // a debug or sanitizer build proves nothing about speed
#endif

// From 1,000 GPUs on, twice the time per GPU is not linear.
constexpr double linear = 2;

constexpr int gpus_per_host = 8;

int slow_gpu_of(int gpus) { return gpus / 2; }

/// A GPU in the middle is 5 % slow, the copies of the first GPU to the next one 20 %, and the last host 8 %.
rehearsal::Fleet fleet_of(int gpus) {
  using enum rehearsal::Weakness;
  rehearsal::Order order;
  order.noise = rehearsal::read_noise(SHAKEDOWN_SOURCE_DIR "/thresholds/rehearsal/noise/calm.yaml");
  order.shape.hosts = gpus / gpus_per_host;
  const int slow = slow_gpu_of(gpus);
  order.faults = {{gpu, 0.05, slow / gpus_per_host, slow % gpus_per_host},
                  {one_way, 0.2, 0, 0},
                  {host, 0.08, order.shape.hosts - 1, 0}};
  return rehearsal::Fleet(order);
}

bool all_are_named(const Verdict& verdict, const rehearsal::Fleet& fleet, int gpus) {
  const auto is_named = [&](Cause cause, const auto& is_place) {
    return std::any_of(verdict.culprits.begin(), verdict.culprits.end(), [&](const Diagnosis& diagnosis) {
      return diagnosis.causes.front() == cause && is_place(diagnosis.places);
    });
  };
  return is_named(Cause::slow_gpu, [&](const auto& places) { return places.at(0).rank == slow_gpu_of(gpus); }) &&
         is_named(Cause::slow_link,
                  [](const auto& places) { return places.at(0).rank == 0 && places.at(1).rank == 1; }) &&
         is_named(Cause::slow_node,
                  [&](const auto& places) { return places.at(0).host == fleet.machine().hosts.back().name; });
}

/// Writes all families as one file, as a program for several families does.
void write_as_one(std::vector<Results> all, const std::filesystem::path& folder) {
  for (std::size_t i = 1; i < all.size(); ++i) {
    std::move(all[i].rows.begin(), all[i].rows.end(), std::back_inserter(all[0].rows));
  }
  all.resize(1);
  rehearsal::write(all, folder);
}

rusage usage_now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage;
}

double peak_mib() { return static_cast<double>(usage_now().ru_maxrss) / 1024; }

// CPU time of this process, which other programs do not affect.
double processor_seconds() {
  const rusage usage = usage_now();
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Figures {
  double seconds = 0, mib = 0, mb = 0;
  bool named = false;
};

Figures judge_folder(const std::filesystem::path& folder, int gpus) {
  Figures m;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    m.mb += static_cast<double>(std::filesystem::file_size(file)) / 1e6;
  }
  const auto profiles = load_profiles(SHAKEDOWN_SOURCE_DIR "/thresholds");
  const auto start = processor_seconds();
  const auto begin = std::chrono::steady_clock::now();
  const Measured results(read_results(std::vector{folder}));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  const auto read = processor_seconds();
  const double mib_of_reading = peak_mib();
  const Verdict verdict = judge(results, profiles, {});
  const auto judged = processor_seconds();
  replace_file(folder / "verdict.json", verdict_json(verdict));
  replace_file(folder / "report.txt", terminal_text(verdict));
  replace_file(folder / "nodes.txt", nodes_json(decide_nodes(verdict)));
  const auto end = processor_seconds();
  m.seconds = end - start;
  m.mib = peak_mib();
  m.named = all_are_named(verdict, fleet_of(gpus), gpus);
  std::printf(
      "%6d GPUs, %6.1f MB: read %.2f s (%.2f s by several threads), judged %.2f s, reported %.2f s, peak %.0f MiB "
      "(reading %.0f); culprits %s; "
      "%s\n",
      gpus, m.mb, read - start, elapsed.count(), judged - read, end - judged, m.mib, mib_of_reading,
      m.named ? "named" : "NOT NAMED", verdict_line(verdict).c_str());
  return m;
}

// Each size runs in a process of its own, so that its memory does not affect the others.
bool in_child(const std::function<bool()>& work) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const bool good = work();
    std::fflush(stdout);
    _exit(good ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace
}  // namespace shakedown

int main(int argc, char** argv) {
  using namespace shakedown;
  std::vector<int> sizes;
  bool one_file = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--one-file") {
      one_file = true;
    } else {
      sizes.push_back(std::atoi(argv[i]));
    }
  }
  if (sizes.empty()) sizes = {104, 1000, 10000};
  double per_gpu = 0;
  for (const int gpus : sizes) {
    const testing_support::Folder folder;
    const auto times = folder.path() / "times.txt";
    const bool good = in_child([&] {
                        if (one_file) {
                          write_as_one(fleet_of(gpus).results(), folder.path());
                        } else {
                          rehearsal::write(fleet_of(gpus).results(), folder.path());
                        }
                        return true;
                      }) &&
                      in_child([&] {
                        const Figures m = judge_folder(folder.path(), gpus);
                        std::ofstream(times) << m.seconds;
                        const double more = std::max(1.0, gpus / 10000.0);
                        return m.named && m.seconds < more * limit_seconds && m.mib < more * limit_mib;
                      });
    double seconds = 0;
    std::ifstream(times) >> seconds;
    const double now = seconds / gpus;
    if (!good || (gpus >= 1000 && per_gpu > 0 && now > linear * per_gpu)) {
      std::printf("%d GPUs: too slow, too large, or a culprit was not named\n", gpus);
      return 1;
    }
    if (gpus >= 1000) per_gpu = now;
  }
}
