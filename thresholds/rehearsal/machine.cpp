#include "thresholds/rehearsal/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "thresholds/rehearsal/pairs.hpp"
#include "thresholds/rehearsal/random.hpp"

namespace shakedown::rehearsal {

namespace {

constexpr int max_tries = 100;
/// The clock of products at the power limit (ci/baselines/h200-sxm/2ranks/1).
constexpr double loaded_mhz = 1590;
constexpr double degrees_of_heat = 30;

bool has_two_ends(const Fault& fault) {
  return fault.what == Weakness::path || fault.what == Weakness::sum || fault.what == Weakness::dead_pair;
}

/// True if both faults are at the same GPU. A fault of copies to the next GPU is at two GPUs.
bool share_gpu(const Fault& a, const Fault& b, const Shape& shape) {
  const auto next = [&](const Fault& fault) {
    return fault.what == Weakness::one_way ? (fault.local + 1) % shape.gpus : fault.local;
  };
  return a.local == b.local || next(a) == b.local || a.local == next(b) || next(a) == next(b);
}

/// Returns the rate of a chip relative to a typical one. Draws below the bound are repeated with a separate stream of
/// numbers, so that all other draws of a seed remain the same.
double chip_rate(const Noise& noise, Kind kind, Random& random) {
  const Spread& spread = noise[kind];
  const auto draw = [&](Random& from) { return std::exp(spread.chip * from.tailed(noise.chip_tail)); };
  Random repeats(mixed(Random(random).next(), hash("repeats")));
  double rate = draw(random);
  while (rate < spread.least_chip) rate = draw(repeats);
  return rate;
}

/// Properties that all GPUs of a host have in common.
struct Place {
  bool hot = false, other_vbios = false, other_memory = false;
};

Gpu make_gpu(const Noise& noise, const Shape& shape, const Place& place, int local, std::uint64_t seed) {
  Random random(seed);
  Gpu gpu;
  for (std::size_t i = 0; i < kinds; ++i) gpu.rate[i] = chip_rate(noise, static_cast<Kind>(i), random);
  const double slot = shape.gpus > 1 ? static_cast<double>(local) / (shape.gpus - 1) : 0;
  gpu[Kind::clock] *= 1 - noise.slot_gradient * slot;
  gpu.degrees_c = 2 * random.normal() + 100 * noise.slot_gradient * slot;
  if (place.hot) {
    gpu[Kind::clock] *= 1 - noise.hot_clock;
    gpu.degrees_c += noise.hot_c;
  }
  gpu.other_vbios = place.other_vbios;
  if (place.other_vbios) gpu[Kind::gemm] *= 1 + noise.vbios_gemm;
  const bool other_memory = random.uniform() < noise.maker_part;
  if (noise.maker_by_host ? place.other_memory : other_memory) {
    for (const Kind kind : {Kind::hbm, Kind::memtest}) gpu[kind] *= 1 + noise.maker_hbm;
  }
  for (double& speed : gpu.walk_speed) speed = 0.5 + 2.5 * random.uniform();
  for (double& phase : gpu.walk_phase) phase = random.uniform();
  gpu.uuid = fmt::format("GPU-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", random.next() >> 32, random.next() >> 48,
                         random.next() >> 48, random.next() >> 48, random.next() >> 16);
  gpu.serial = fmt::format("16539{:08}", random.next() % 100000000);
  // There are four GPUs on each of two sockets.
  gpu.pci = fmt::format("0000:{:02x}:00.0", 0x18 + 0x10 * local + (local >= 4 ? 0x20 : 0));
  return gpu;
}

void weaken(Gpu& gpu, const Fault& fault) {
  const double left = 1 - fault.part;
  const auto slow = [&](std::initializer_list<Kind> which, double by) {
    for (const Kind kind : which) gpu[kind] *= by;
  };
  switch (fault.what) {
    case Weakness::gemm: gpu[Kind::gemm] *= left; break;
    case Weakness::hbm: slow({Kind::hbm, Kind::memtest}, left); break;
    case Weakness::gpu:
      slow({Kind::gemm, Kind::hbm, Kind::memtest, Kind::pcie}, left);
      gpu.out *= left;
      gpu.in *= left;
      break;
    case Weakness::lane: gpu.links_up = 17; [[fallthrough]];
    case Weakness::link:
      gpu.out *= left;
      gpu.in *= left;
      break;
    case Weakness::host:
      gpu[Kind::gemm] *= left;
      slow({Kind::hbm, Kind::memtest}, 1 - fault.part / 2);
      break;
    case Weakness::sustained: gpu.sustained *= left; break;
    case Weakness::rows: gpu.rows.emplace_back(fault.rows, left); break;
    case Weakness::one_way: gpu.to_next *= left; break;
    case Weakness::pcie:
      gpu[Kind::pcie] *= left;
      if (left <= 0.5) gpu.pcie_lanes = 8;
      break;
    case Weakness::power:
      gpu.power_limit_w = std::round(gpu.power_limit_w * left);
      gpu[Kind::clock] *= std::sqrt(left);
      break;
    case Weakness::heat:
      gpu.hot = true;
      gpu.degrees_c += degrees_of_heat;
      [[fallthrough]];
    case Weakness::clock: gpu.most_mhz = loaded_mhz * left; break;
    case Weakness::late: gpu.late = fault.part; break;
    case Weakness::data: gpu.wrong_data = true; break;
    case Weakness::xid: gpu.xid = true; break;
    default: break;  // not a fault of a GPU
  }
}

void weaken(Machine& machine, const Fault& fault) {
  Host& host = machine.hosts[static_cast<std::size_t>(fault.host)];
  const auto local = static_cast<std::size_t>(fault.local);
  const double left = 1 - fault.part;
  const int leaf_hosts = machine.shape.leaf_hosts;
  auto& uplinks = machine.uplinks[static_cast<std::size_t>(fault.host / leaf_hosts)];
  switch (fault.what) {
    case Weakness::nic: host.nics[local] *= left; break;
    case Weakness::nics:
      for (double& nic : host.nics) nic *= left;
      break;
    case Weakness::leaf:
      for (double& uplink : uplinks) uplink *= left;
      break;
    case Weakness::uplink: uplinks[local] *= left; break;
    case Weakness::rail:
    case Weakness::rail_leaf:
      for (std::size_t h = 0; h < machine.hosts.size(); ++h) {
        const bool in_leaf = static_cast<int>(h) / leaf_hosts == fault.host / leaf_hosts;
        if (fault.what == Weakness::rail || in_leaf) machine.hosts[h].nics[local] *= left;
      }
      break;
    case Weakness::all:
      for (Host& each : machine.hosts) {
        for (Gpu& gpu : each.gpus) weaken(gpu, {Weakness::gpu, fault.part});
      }
      break;
    case Weakness::path:
    case Weakness::sum:
    case Weakness::dead_host:
    case Weakness::dead_pair: machine.between.push_back(fault); break;
    case Weakness::processor: host.processor *= left; break;
    case Weakness::host:
      for (Gpu& gpu : host.gpus) weaken(gpu, fault);
      break;
    default: weaken(host.gpus[local], fault);
  }
}

}  // namespace

std::optional<double> Machine::path(int host, int other, int rail) const {
  const auto leaves = [&](int a, int b) { return std::minmax({a / shape.leaf_hosts, b / shape.leaf_hosts}); };
  double left = 1;
  for (const Fault& fault : between) {
    const bool is_pair = std::minmax({host, other}) == std::minmax({fault.host, fault.other});
    if (fault.what == Weakness::dead_host && (host == fault.host || other == fault.host)) return std::nullopt;
    if (fault.what == Weakness::dead_pair && is_pair) return std::nullopt;
    const bool is_path = rail == fault.local && leaves(host, other) == leaves(fault.host, fault.other);
    if (fault.what == Weakness::path && is_path) left *= 1 - fault.part;
  }
  return left;
}

double Machine::sum(int host, int other) const {
  double left = 1;
  for (const Fault& fault : between) {
    const bool is_pair = std::minmax({host, other}) == std::minmax({fault.host, fault.other});
    if (fault.what == Weakness::sum && is_pair) left *= 1 - fault.part;
  }
  return left;
}

Machine make_machine(const Shape& shape, const Noise& noise, const std::vector<Fault>& faults, std::uint64_t seed) {
  Machine machine{shape, {}, {}, {}};
  const int racks = (shape.hosts + shape.rack_hosts - 1) / shape.rack_hosts;
  Random places(mixed(seed, hash("places")));
  // At least one rack is hot, but not all.
  const int hot = noise.hot_racks > 0 && racks > 1 ? std::max(1, static_cast<int>(noise.hot_racks * racks + 0.5)) : 0;
  std::vector<bool> is_hot(static_cast<std::size_t>(racks), false);
  for (int left = hot; left > 0;) {
    auto rack = is_hot[places.next() % is_hot.size()];
    left -= rack ? 0 : 1;
    rack = true;
  }
  for (int h = 0; h < shape.hosts; ++h) {
    const int rack = h / shape.rack_hosts;
    Host host{fmt::format("node{:04}", h),
              fmt::format("leaf{}", h / shape.leaf_hosts),
              fmt::format("rack{}", rack),
              1,
              1,
              {},
              {}};
    const Place place{is_hot[static_cast<std::size_t>(rack)], places.uniform() < noise.vbios_part,
                      places.uniform() < noise.maker_part};
    Random random(mixed(mixed(seed, hash("host")), static_cast<std::uint64_t>(h)));
    host.processor = chip_rate(noise, Kind::processor, random);
    host.shared_pcie = chip_rate(noise, Kind::pcie_shared, random);
    for (int local = 0; local < shape.gpus; ++local) {
      host.nics.push_back(chip_rate(noise, Kind::network, random));
      host.gpus.push_back(make_gpu(noise, shape, place, local, random.next()));
    }
    machine.hosts.push_back(std::move(host));
  }
  machine.uplinks.assign(static_cast<std::size_t>((shape.hosts + shape.leaf_hosts - 1) / shape.leaf_hosts),
                         std::vector<double>(static_cast<std::size_t>(shape.gpus), 1));
  for (const Fault& fault : faults) weaken(machine, fault);
  return machine;
}

std::vector<Fault> placed(std::vector<Fault> faults, const Shape& shape, std::uint64_t seed) {
  Random random(mixed(seed, hash("faults")));
  const auto rounds = shape.hosts > 1 ? pair_rows(shape) : std::vector<Planned>{};
  for (std::size_t i = 0; i < faults.size(); ++i) {
    const auto is_taken = [&](const Fault& fault) {
      return std::any_of(faults.begin(), faults.begin() + static_cast<std::ptrdiff_t>(i), [&](const Fault& other) {
        const bool shares_leaf = fault.what >= Weakness::leaf && fault.what <= Weakness::path &&
                                 fault.host / shape.leaf_hosts == other.host / shape.leaf_hosts;
        const bool shares_host = fault.host == other.host || (has_two_ends(other) && fault.host == other.other);
        return shape.hosts > 1 ? shares_host || shares_leaf : share_gpu(fault, other, shape);
      });
    };
    const auto needs_place = [&](const Fault& fault) {
      return is_taken(fault) || (has_two_ends(fault) && fault.other < 0);
    };
    for (int tries = 0; tries == 0 || (tries < max_tries && needs_place(faults[i])); ++tries) {
      faults[i].host = static_cast<int>(random.next() % static_cast<std::uint64_t>(shape.hosts));
      faults[i].local = static_cast<int>(random.next() % static_cast<std::uint64_t>(shape.gpus));
      if (!has_two_ends(faults[i])) continue;
      // The first round is inside leaves. The last row of a single rail is across leaves, if there are several leaves.
      const auto& round = faults[i].what == Weakness::path ? rounds.at(rounds.size() / 2) : rounds.front();
      faults[i].other = round.partners[static_cast<std::size_t>(faults[i].host)];
    }
  }
  return faults;
}

}  // namespace shakedown::rehearsal
