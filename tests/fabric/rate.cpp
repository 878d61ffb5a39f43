// fabric_rate: makes a fat tree for every seed, lets the judge look at its rounds of pairs, and counts how often it was
// right.
//
//   build/tests/fabric/fabric_rate --hosts=1024 --seeds=1..300 --fault=nic -j8
//   build/tests/fabric/fabric_rate --hosts=128 --seeds=1..300 --fault=uplink,nic --part=0.9 --no-topology
//
// named: every fault has a failing suspect of its kind at its place. innocent: a failing suspect that is no fault's.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tests/fabric/outcome.hpp"

namespace shakedown::fabric {
namespace {

struct Settings {
  Tree tree;
  std::uint64_t first = 1, last = 20;
  unsigned threads = 1;
  bool show = false;
};

Settings parse(int argc, char** argv) {
  Settings settings;
  double part = 0.9;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto equals = word.find('=');
    const auto flag = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (flag == "--hosts") {
      settings.tree.hosts = std::stoi(value);
    } else if (flag == "--rails") {
      settings.tree.rails = std::stoi(value);
    } else if (flag == "--leaf") {
      settings.tree.hosts_per_leaf = std::stoi(value);
    } else if (flag == "--no-topology") {
      settings.tree.topology = false;
    } else if (flag == "--seeds") {
      settings.first = std::stoull(value);
      const auto dots = value.find("..");
      settings.last = dots == std::string::npos ? settings.first : std::stoull(value.substr(dots + 2));
    } else if (flag == "--part") {
      part = std::stod(value);
    } else if (flag == "--show") {
      settings.show = true;
    } else if (flag == "--fault") {
      std::istringstream words(value);
      for (std::string kind; std::getline(words, kind, ',');) {
        const auto known = named<Fault::Kind>(kind);
        if (!known) throw std::invalid_argument(kind + " is no kind of fault");
        settings.tree.faults.push_back({*known});
      }
    } else if (word.rfind("-j", 0) == 0) {
      settings.threads = static_cast<unsigned>(std::stoul(word.substr(2)));
    } else {
      throw std::invalid_argument(word + ": unknown");
    }
  }
  for (auto& fault : settings.tree.faults) fault.part = part;
  return settings;
}

int run(const Settings& settings) {
  std::atomic<std::uint64_t> next{settings.first};
  std::mutex mutex;
  std::uint64_t all = 0, right = 0, innocent = 0;
  const auto work = [&] {
    for (std::uint64_t seed = next++; seed <= settings.last; seed = next++) {
      Tree tree = settings.tree;
      tree.seed = seed;
      place(tree);
      const auto outcome = judge(tree);
      const std::scoped_lock lock(mutex);
      ++all;
      right += outcome.named ? 1U : 0U;
      innocent += outcome.innocent ? 1U : 0U;
      if (settings.show || !outcome.named || outcome.innocent) {
        std::printf("seed %llu:%s%s %s\n", static_cast<unsigned long long>(seed), outcome.named ? "" : " MISSED",
                    outcome.innocent ? " INNOCENT" : "", outcome.text.c_str());
      }
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < settings.threads; ++i) threads.emplace_back(work);
  threads.clear();
  std::printf("%d hosts, seeds %llu..%llu: %llu trees, named %llu, innocent %llu\n", settings.tree.hosts,
              static_cast<unsigned long long>(settings.first), static_cast<unsigned long long>(settings.last),
              static_cast<unsigned long long>(all), static_cast<unsigned long long>(right),
              static_cast<unsigned long long>(innocent));
  return 0;
}

}  // namespace
}  // namespace shakedown::fabric

int main(int argc, char** argv) try {
  return shakedown::fabric::run(shakedown::fabric::parse(argc, argv));
} catch (const std::exception& error) {
  std::fprintf(stderr, "fabric_rate: %s\n", error.what());
  return 2;
}
