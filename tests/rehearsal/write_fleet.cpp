// Writes simulated results of one family of a cluster with 8 GPUs in each host, and the answers of its hosts to the
// discovery: FOLDER/FAMILY.json and FOLDER/answers. The last host does not answer.
//
//   build/tests/rehearsal/write_fleet HOSTS FAMILY FAULTS FOLDER     as in 1000 preflight ecc FOLDER
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/files.hpp"
#include "launch/discover.hpp"
#include "thresholds/rehearsal/fleet.hpp"

namespace shakedown::rehearsal {
namespace {

int write_fleet(int hosts, const std::string& family, const std::string& faults, const std::filesystem::path& folder) {
  Order order;
  order.noise = read_noise(SHAKEDOWN_SOURCE_DIR "/thresholds/rehearsal/noise/calm.yaml");
  order.shape.hosts = hosts - 1;
  if (!faults.empty()) order.faults = placed(parse_faults(faults), order.shape, order.seed);
  const auto results = Fleet(order).results(family);
  write({results}, folder);
  std::string answers;
  for (const auto& host : results.context.inventory) {
    HostAnswer answer{.host = host.host, .node = {}, .boot_id = host.host, .gpus = {}, .mask = {}};
    for (int gpu = 0; gpu < order.shape.gpus; ++gpu)
      answer.gpus.push_back("GPU-" + host.host + "-" + std::to_string(gpu));
    answer.usable_gpus = order.shape.gpus;
    answers += answer_line(answer) + "\n";
  }
  replace_file(folder / "answers", answers);
  return 0;
}

}  // namespace
}  // namespace shakedown::rehearsal

int main(int argc, char** argv) {
  return argc == 5 ? shakedown::rehearsal::write_fleet(std::atoi(argv[1]), argv[2], argv[3], argv[4]) : 2;
}
