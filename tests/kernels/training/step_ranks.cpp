// Data parallel training on the host: n ranks with a part of the sequences each do what one rank does with all of them,
// to 1e-12 in double; prints the largest differences. Runs with any number of ranks that divides 4.
//
//   mpirun -np 2 build/tests/step_ranks
#include <cmath>
#include <cstdio>

#include "fixtures/world.hpp"
#include "kernels/training/step_check.hpp"
#include "tests/kernels/training/host_step.hpp"

namespace shakedown {
namespace {

constexpr std::size_t sequences = 4;
constexpr int steps = 3;
constexpr double tolerance = 1e-12;

training::StepShape shape_for(int ranks) {
  auto shape = ragged_shape();
  shape.batch = sequences / static_cast<std::size_t>(ranks);
  shape.ranks = ranks;
  return shape;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

int compare() {
  const auto world = make_world([](bool) {});
  const int ranks = world->size();
  if (sequences % static_cast<std::size_t>(ranks) != 0) {
    if (world->rank() == 0) std::fprintf(stderr, "step_ranks: 4 sequences cannot be shared by %d ranks\n", ranks);
    return 2;
  }
  HostStep<double> whole(shape_for(1)), part(shape_for(ranks), 1, world.get());
  part.load(batch_of(part.step.shape(), static_cast<std::size_t>(world->rank()) * part.step.shape().batch));
  double worst = 0;
  for (int step = 0; step < steps; ++step) {
    whole.step.run({.lr = 0.01});
    part.step.run({.lr = 0.01});
    const auto &a = part.step.buffers().state, &b = whole.step.buffers().state;
    worst = std::max(worst, distance({a.gradient, a.gradient + a.count}, {b.gradient, b.gradient + b.count}));
    worst = std::max(worst, distance(part.parameters(), whole.parameters()));
    std::vector<double> loss{part.step.records().back().loss / ranks};
    world->sum(std::span<const double>(loss), std::span<double>(loss));
    worst = std::max(worst, std::abs(loss[0] - whole.step.records().back().loss));
  }
  // Not a sum: all ranks must have the same bits.
  const auto mine = part.step.records().back().updated.checksum;
  const auto checksums = world->gather(std::to_string(mine));
  bool same = true;
  for (const auto& checksum : checksums) same = same && checksum == checksums.front();
  // Different sequences: were all gradients the same, the comparison above would show nothing.
  const auto gradients = world->gather(std::to_string(part.step.records().back().local.checksum));
  const bool shared = ranks == 1 || gradients.front() != gradients.back();

  worst = world->max(worst);
  if (world->rank() == 0) {
    std::printf("%d ranks against one: largest relative difference %.1e (limit %.0e), parameters %s on all ranks\n",
                ranks, worst, tolerance, same ? "equal" : "NOT EQUAL");
  }
  return worst <= tolerance && same && shared ? 0 : 1;
}

}  // namespace
}  // namespace shakedown

int main() { return shakedown::compare(); }
