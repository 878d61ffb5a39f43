// The times of a row on each rank: the part of the machine that the row needs, multiplied by the noise of the launch,
// of the row and of the value.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/key.hpp"
#include "base/statistics.hpp"
#include "thresholds/rehearsal/figures.hpp"
#include "thresholds/rehearsal/fleet.hpp"
#include "thresholds/rehearsal/random.hpp"

namespace shakedown::rehearsal {
namespace {

/// The port of one GPU to the switches in its host, in each direction, and its memory (ci/baselines/h200-sxm).
constexpr double port_gb_per_s = 397, memory_gb_per_s = 4300;
/// Rate of a NIC of 400 Gbit/s, and the fraction of it that NCCL reaches (docs/measuring.md: 0.92 to 0.98).
constexpr double nic_gb_per_s = 50, nic_reached = 0.95;
/// The fraction of its limit that AllToAll reaches. Published healthy clusters reach 0.84 to 0.86 (docs/measuring.md).
constexpr double all_to_all_reached = 0.86;
/// busbw of NCCL's rings inside one host for very large messages. At 8 GiB, a stored run of four H200 has 364 GB/s.
constexpr double ring_gb_per_s = 365;
/// The time of a message between hosts, and the additional time each time that the number of hosts doubles in NCCL's
/// trees. Both are guesses; RDMA and its proxy need about 5 us.
constexpr double network_us = 10, doubling_us = 6;
/// Parts of a step's time; the rest depends only on the clock (docs/training_step.md: mostly GEMM). Both are guesses.
constexpr double product_share = 0.78, memory_share = 0.18;
/// AllReduce time that the work of a step does not hide (ci/baselines/h200-sxm/2ranks/1), and the part of a single
/// AllReduce's time that is launch time.
constexpr double exposed_seconds = 0.0012, launch_seconds = 3.3e-6;
/// At this clock and above, a row does not reach the power limit, and each chip has the clock that the driver allows.
constexpr double free_mhz = 1960;

double lognormal(Random& random, double deviation, int tail) {
  return deviation > 0 ? std::exp(deviation * random.tailed(tail)) : 1;
}

}  // namespace

/// Returns the clock of a GPU in this row. `when` is 0 for the first row of the run and 1 for the last.
double Fleet::clock(const Planned& row, int rank, double when) const {
  const Noise& noise = order_.noise;
  const Gpu& gpu = machine_.gpu(rank);
  if (row.mhz >= free_mhz) return std::min(row.mhz, gpu.most_mhz);
  double factor = gpu[Kind::clock] * (1 - noise.falling * when);
  for (std::size_t i = 0; i < gpu.walk_speed.size(); ++i) {
    factor *= 1 + noise.wander * std::sin(2 * std::numbers::pi * (gpu.walk_speed[i] * when + gpu.walk_phase[i]));
  }
  return std::min(max_mhz, row.mhz * factor);
}

/// Returns the relative rate of work that a rank does alone.
double Fleet::rate(const Planned& row, int rank) const {
  const Gpu& gpu = machine_.gpu(rank);
  const int gpus = machine_.shape.gpus, local = rank % gpus;
  double own = 1;
  for (const auto& [rows, left] : gpu.rows) own *= row.key.starts_with(rows) ? left : 1;
  switch (row.form) {
    case Form::products:
      return own * gpu[Kind::gemm] * (row.key.find("sustained") != std::string::npos ? gpu.sustained : 1);
    case Form::copies: {
      const int source = row.source ? *row.source : ((local - row.shift.value_or(0)) % gpus + gpus) % gpus;
      const Gpu& from = machine_.host(rank).gpus[static_cast<std::size_t>(source)];
      // A copy also depends on the memory of both GPUs, which is much faster than the link.
      const double memory = memory_gb_per_s / port_gb_per_s * std::min(gpu[Kind::hbm], from[Kind::hbm]);
      const double next = (source + 1) % gpus == local ? from.to_next : 1;
      return own * next * std::min({from.out, gpu.in, memory}) * gpu[Kind::copy];
    }
    case Form::quanta:
    case Form::launches: return machine_.host(rank).processor;
    case Form::pcie: return own * gpu[Kind::pcie] * (row.alone ? 1 : machine_.host(rank).shared_pcie);
    default: return own * gpu[row.kind];
  }
}

void Fleet::draw_local(const Planned& row, double when, int number, Times& drawn) const {
  const Noise& noise = order_.noise;
  const Spread& spread = noise[row.kind];
  const auto name = hash(row.key);
  Random launch(mixed(mixed(noise_seed_, name), hash("launch")));
  double common = 1 / lognormal(launch, spread.launch, 0);
  const double clocks = lognormal(launch, noise[Kind::clock].launch, 0);
  // Another algorithm needs fewer clocks, and more power per clock.
  const bool other = row.bursts && row.mhz < free_mhz && launch.uniform() < 0.5;
  const double algorithm = other ? 1 + noise.row_algorithm : 1;
  for (int rank = 0; rank < machine_.shape.ranks(); ++rank) {
    if (row.alone && rank % machine_.shape.gpus != *row.alone) continue;
    Random random(
        mixed(mixed(noise_seed_, name), static_cast<std::uint64_t>(rank) << 20 | static_cast<unsigned>(number + 1)));
    double seconds = std::max(row.seconds * common / (rate(row, rank) * lognormal(random, spread.row, noise.row_tail)),
                              row.min_seconds);
    if (random.uniform() < noise.stall_odds) {
      seconds *= 1 + noise.stall_least + (noise.stall_most - noise.stall_least) * random.uniform();
    }
    const auto at = static_cast<std::size_t>(rank);
    if (row.mhz > 0) {
      double mhz = clock(row, rank, when);
      if (row.mhz < free_mhz)
        mhz = std::min(machine_.gpu(rank).most_mhz,
                       mhz * clocks * lognormal(random, noise[Kind::clock].row, noise.row_tail) / algorithm);
      // Memory, ports and PCIe do not depend on the SM clock.
      if (row.form == Form::products)
        seconds = std::max(seconds * row.mhz / mhz / algorithm, row.min_clocks / (mhz * 1e6));
      drawn.mhz[at] = mhz;
    }
    drawn.seconds[at] = seconds;
  }
}

/// Returns the time of a collective on `hosts` hosts, beginning with `first_host`. Scales the typical time of four GPUs
/// of one host to this number of ranks. The slowest part limits the rate.
double Fleet::collective_seconds(const Planned& row, int first_host, int hosts) const {
  const int gpus = machine_.shape.gpus, ranks = gpus * hosts;
  double port = 1, nic = 1, processor = 1;
  for (int rank = first_host * gpus; rank < (first_host + hosts) * gpus; ++rank) {
    const Gpu& gpu = machine_.gpu(rank);
    const Host& host = machine_.host(rank);
    port = std::min({port, gpu.out, gpu.in, gpu.to_next});
    processor = std::min(processor, host.processor);
    if (hosts == 1) continue;
    nic = std::min(nic, host.nics[static_cast<std::size_t>(rank % gpus)]);
    if (hosts > machine_.shape.leaf_hosts) nic = std::min(nic, machine_.uplink(rank));
  }
  const auto op = key_part(row.key, "op");
  if (ranks == 1) return launch_seconds + 2 * row.bytes / (memory_gb_per_s * 1e9 * machine_.gpu(0)[Kind::hbm]);
  // The time of four GPUs is the time of the ring at full bandwidth, plus the cost of each ring step.
  const double endless = row.bytes * bus_factor(row.key, 4) / (ring_gb_per_s * 1e9);
  const double steps = std::max(row.seconds - endless, 0.0) * (ranks > 1 ? (gpus - 1) / 3.0 : 0);
  double bus = ring_gb_per_s * port;
  double network = 0;
  if (hosts > 1) {
    network = (network_us + doubling_us * std::log2(hosts)) * 1e-6;
    if (op == "alltoall") {
      const double out = row.bytes * (ranks - gpus) / ranks / (all_to_all_reached * nic_gb_per_s * nic * 1e9);
      return std::max(steps + row.bytes / (ring_gb_per_s * port * 1e9), out) + network;
    }
    // In a ring of ranks, each edge between hosts uses one NIC. Other collectives use all NICs.
    bus = std::min(bus, nic_reached * nic_gb_per_s * nic * (op == "sendrecv" ? 1 : gpus));
  }
  double seconds = steps + row.bytes * bus_factor(row.key, ranks) / (bus * 1e9) + network;
  if (row.key.find("timing:single") != std::string::npos) seconds += launch_seconds * (1 / processor - 1);
  return seconds;
}

void Fleet::draw_collective(const Planned& row, int number, Times& drawn) const {
  const Noise& noise = order_.noise;
  const Spread& spread = noise[row.kind];
  const auto name = hash(row.key);
  const int groups = row.in_host ? machine_.shape.hosts : 1, hosts = machine_.shape.hosts / groups;
  Random launch(mixed(mixed(noise_seed_, name), hash("launch")));
  const double common = lognormal(launch, spread.launch, 0);
  for (int group = 0; group < groups; ++group) {
    Random random(
        mixed(mixed(noise_seed_, name), static_cast<std::uint64_t>(group) << 20 | static_cast<unsigned>(number + 1)));
    double seconds =
        collective_seconds(row, group * hosts, hosts) * common * lognormal(random, spread.row, noise.row_tail);
    if (random.uniform() < noise.stall_odds) {
      seconds *= 1 + noise.stall_least + (noise.stall_most - noise.stall_least) * random.uniform();
    }
    const int ranks = machine_.shape.gpus * hosts;
    double late = 0;
    for (int rank = group * ranks; rank < (group + 1) * ranks; ++rank) late = std::max(late, machine_.gpu(rank).late);
    for (int rank = group * ranks; rank < (group + 1) * ranks; ++rank) {
      const double waits = (late - machine_.gpu(rank).late) / operations(seconds);
      drawn.seconds[static_cast<std::size_t>(rank)] = seconds * (1 - 0.0008 * random.uniform()) + waits;
      drawn.mhz[static_cast<std::size_t>(rank)] = row.mhz - 2 * random.uniform();
    }
  }
}

/// Draws the own work of each rank, and the time of the step, which waits for the slowest rank.
void Fleet::draw_step(const Planned& row, double when, int number, Times& drawn) const {
  const Noise& noise = order_.noise;
  const auto name = hash(row.key);
  Random launch(mixed(mixed(noise_seed_, name), hash("launch")));
  const double common = lognormal(launch, noise[row.kind].launch, 0);
  double slowest = 0;
  for (int rank = 0; rank < machine_.shape.ranks(); ++rank) {
    const Gpu& gpu = machine_.gpu(rank);
    Random random(
        mixed(mixed(noise_seed_, name), static_cast<std::uint64_t>(rank) << 20 | static_cast<unsigned>(number + 1)));
    const double mhz =
        std::min(gpu.most_mhz, clock(row, rank, when) * lognormal(random, noise[Kind::clock].row, noise.row_tail));
    const double clocks = product_share / (gpu[Kind::gemm] * gpu.sustained) + memory_share / gpu[Kind::hbm] +
                          (1 - product_share - memory_share);
    const double own = row.seconds * row.mhz / mhz * clocks * common /
                       (gpu[Kind::step] * lognormal(random, noise[row.kind].row, noise.row_tail));
    drawn.own[static_cast<std::size_t>(rank)] = own;
    drawn.mhz[static_cast<std::size_t>(rank)] = mhz;
    slowest = std::max(slowest, own);
  }
  for (auto& seconds : drawn.seconds) seconds = slowest + exposed_seconds;
}

/// Returns the factor by which pauses, and flows that share a port, lengthen the time of a pair of hosts.
double Fleet::network_delay(Random& random, bool across) const {
  const Noise& noise = order_.noise;
  double delay = 1;
  if (noise.pause_odds > 0 && random.uniform() < noise.pause_odds) {
    delay *= std::exp(-noise.pause_mean * std::log(random.uniform()));
  }
  if (across && noise.collision_odds > 0 && random.uniform() < noise.collision_odds) {
    delay /= noise.collision_least + (noise.collision_most - noise.collision_least) * random.uniform();
  }
  return delay;
}

void Fleet::draw_pairs(const Planned& row, int number, Times& drawn) const {
  const Shape& shape = machine_.shape;
  const Noise& noise = order_.noise;
  const Spread& spread = noise[Kind::network];
  Random launch(mixed(mixed(noise_seed_, hash(row.key)), hash("launch")));
  const double common = lognormal(launch, spread.launch, 0);
  const auto nic_of = [&](int host, int rail) {
    return machine_.hosts[static_cast<std::size_t>(host)].nics[static_cast<std::size_t>(rail)];
  };
  for (int host = 0; host < shape.hosts; ++host) {
    const int other = row.partners[static_cast<std::size_t>(host)];
    if (other < 0 || !row.shown[static_cast<std::size_t>(host)]) continue;
    const int first = std::min(host, other), last = std::max(host, other);
    const bool across = first / shape.leaf_hosts != last / shape.leaf_hosts;
    double slowest_nic = 1, slowest_port = 1;
    bool answers = true;
    for (int rail = 0; rail < shape.gpus; ++rail) {
      const auto path = machine_.path(first, last, rail);
      answers = answers && path.has_value();
      double nic = std::min({nic_of(host, rail), nic_of(other, rail), path.value_or(1)});
      if (across)
        nic = std::min({nic, machine_.uplink(first * shape.gpus + rail), machine_.uplink(last * shape.gpus + rail)});
      for (const int end : {first, last}) {
        const Gpu& gpu = machine_.gpu(end * shape.gpus + rail);
        slowest_port = std::min({slowest_port, gpu.out, gpu.in});
      }
      slowest_nic = std::min(slowest_nic, nic);
      const int rank = host * shape.gpus + rail;
      drawn.partner[static_cast<std::size_t>(rank)] = other * shape.gpus + rail;
      if (row.sums || !path) continue;
      // Both ends of a pair report the time of the slower end.
      const int pair = (row.direction == Direction::both ? first : host) * shape.gpus + rail;
      Random random(mixed(mixed(noise_seed_, hash(row.key)),
                          static_cast<std::uint64_t>(pair) << 20 | static_cast<unsigned>(number + 1)));
      const double value = lognormal(random, spread.row, noise.row_tail) * network_delay(random, across);
      drawn.seconds[static_cast<std::size_t>(rank)] =
          row.bytes / (nic_reached * nic_gb_per_s * nic * 1e9) * common * value;
    }
    if (!row.sums) continue;
    slowest_nic *= machine_.sum(first, last);
    for (int rail = 1; rail < shape.gpus; ++rail)
      drawn.partner[static_cast<std::size_t>(host * shape.gpus + rail)] = std::nullopt;
    Random random(mixed(mixed(noise_seed_, hash(row.key)),
                        static_cast<std::uint64_t>(first) << 20 | static_cast<unsigned>(number + 1)));
    if (!answers) continue;
    // Each ring waits for the slowest rail.
    double delay = 1;
    for (int rail = 0; rail < shape.gpus; ++rail) delay = std::max(delay, network_delay(random, across));
    const double bus =
        std::min(0.97 * ring_gb_per_s * slowest_port, nic_reached * nic_gb_per_s * slowest_nic / delay * shape.gpus);
    drawn.seconds[static_cast<std::size_t>(host * shape.gpus)] = row.bytes * bus_factor(row.key, 2 * shape.gpus) /
                                                                 (bus * 1e9) * common *
                                                                 lognormal(random, spread.row, noise.row_tail);
  }
}

}  // namespace shakedown::rehearsal
