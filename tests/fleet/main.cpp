// fleet: writes the results of one run of a made-up fleet, which acceptance_test reads like a real one.
//
//   build/tests/fleet/fleet --noise=tests/fleet/noise/calm.yaml --hosts=16 --gpus=8 --seed=1 --out=/tmp/run
//   build/tests/fleet/fleet --seed=1 --fault=gpu:rank=3,percent=5 --fault=link:src=1,dst=2,fraction=0.5 --out=/tmp/run
#include <cstdio>
#include <exception>

#include "tests/fleet/flags.hpp"

int main(int argc, char** argv) try {
  using namespace shakedown::fleet;
  const Flags flags(argc, argv, Flags::of_plan({"--seed", "--out"}));
  Plan plan = flags.plan();
  plan.seed = flags.number("--seed", 1);
  const auto folder = flags.text("--out", "");
  if (folder.empty()) throw std::runtime_error("--out=DIR is missing");
  Fleet(plan).write(std::filesystem::path(folder));
} catch (const std::exception& error) {
  std::fprintf(stderr, "fleet: %s\n", error.what());
  return 2;
}
