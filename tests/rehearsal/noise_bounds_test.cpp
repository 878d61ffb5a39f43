// Tests that draws of chips keep the bounds of a noise file, and that bounds change no other draw.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <vector>

#include "base/files.hpp"
#include "thresholds/rehearsal/machine.hpp"

namespace shakedown::rehearsal::noise_bounds_test {
namespace {

namespace fs = std::filesystem;

const fs::path folder = fs::path(SHAKEDOWN_SOURCE_DIR) / "thresholds/rehearsal/noise";
constexpr double least_clock = 0.667;

/// Returns the noise of chips alone, without effects of their places.
Noise chips(const std::string& name) {
  Noise noise = read_noise(folder / (name + ".yaml"));
  noise.slot_gradient = noise.hot_racks = 0;
  return noise;
}

double& bound(Noise& noise, Kind kind) { return noise.spreads[static_cast<std::size_t>(kind)].least_chip; }

Noise without_bounds(Noise noise) {
  for (Spread& spread : noise.spreads) spread.least_chip = 0;
  return noise;
}

Machine machine(const Noise& noise, std::uint64_t seed) {
  Shape shape;
  shape.hosts = 128;
  return make_machine(shape, noise, {}, seed);
}

/// Two machines of the same seed, with and without bounds.
struct Compared {
  int repeated = 0;    // draws that the bounds change
  int below = 0;       // draws with bounds that are below a bound
  int changed = 0;     // draws inside the bounds, and names of GPUs, that differ
  double lowest = 10;  // lowest clock without bounds
};

void compare(const Noise& noise, std::uint64_t seed, Compared& total) {
  const Machine bounded = machine(noise, seed), free = machine(without_bounds(noise), seed);
  for (std::size_t host = 0; host < free.hosts.size(); ++host) {
    const Host &own = bounded.hosts[host], &other = free.hosts[host];
    if (own.processor != other.processor || own.shared_pcie != other.shared_pcie) ++total.changed;
    for (std::size_t i = 0; i < other.nics.size(); ++i) {
      const bool is_inside = other.nics[i] >= noise[Kind::network].least_chip;
      if (own.nics[i] < noise[Kind::network].least_chip) ++total.below;
      if (is_inside && own.nics[i] != other.nics[i]) ++total.changed;
    }
  }
  for (int rank = 0; rank < free.shape.ranks(); ++rank) {
    const Gpu &own = bounded.gpu(rank), &other = free.gpu(rank);
    if (own.uuid != other.uuid || own.degrees_c != other.degrees_c || own.walk_phase != other.walk_phase)
      ++total.changed;
    total.lowest = std::min(total.lowest, other[Kind::clock]);
    for (std::size_t i = 0; i < kinds; ++i) {
      if (own.rate[i] < noise.spreads[i].least_chip) ++total.below;
      const bool is_inside = other.rate[i] >= noise.spreads[i].least_chip;
      if (!is_inside) ++total.repeated;
      if (is_inside && own.rate[i] != other.rate[i]) ++total.changed;
    }
  }
}

TEST(BoundsOfNoise, HoldForManySeedsAndChangeNoDrawInsideThem) {
  Compared lottery, mixed;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) compare(chips("lottery"), seed, lottery);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) compare(chips("mixed"), seed, mixed);
  EXPECT_GT(lottery.repeated, 0) << "102,400 GPUs have draws below the bound";
  EXPECT_LT(lottery.lowest, least_clock);
  for (const Compared& all : {lottery, mixed}) {
    EXPECT_EQ(all.below, 0);
    EXPECT_EQ(all.changed, 0);
  }
}

TEST(BoundsOfNoise, KeepTheFleetsOfEarlierVersions) {
  // Drawn by the version without bounds.
  const Machine fleet = machine(chips("lottery"), 1);
  EXPECT_NEAR(fleet.gpu(0)[Kind::clock], 1.0196330732, 1e-9);
  EXPECT_NEAR(fleet.gpu(1023)[Kind::hbm], 0.9998340409, 1e-9);
  EXPECT_NEAR(fleet.hosts[64].processor, 0.9922063228, 1e-9);
  EXPECT_NEAR(fleet.hosts[127].nics[7], 1.0029643911, 1e-9);
  EXPECT_EQ(fleet.gpu(1023).uuid, "GPU-2a025118-269f-3cd4-e92b-1fceaae13e83");
}

/// Returns the largest difference between the cumulative distributions of two samples (Kolmogorov and Smirnov).
double distance(std::vector<double> a, std::vector<double> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto below = std::upper_bound(b.begin(), b.end(), a[i]) - b.begin();
    const double part = static_cast<double>(i + 1) / static_cast<double>(a.size());
    largest = std::max(largest, std::abs(part - static_cast<double>(below) / static_cast<double>(b.size())));
  }
  return largest;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto n = static_cast<double>(a.size());
  double sum_a = 0, sum_b = 0, aa = 0, bb = 0, ab = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum_a += a[i];
    sum_b += b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
    ab += a[i] * b[i];
  }
  return (ab - sum_a * sum_b / n) / std::sqrt((aa - sum_a * sum_a / n) * (bb - sum_b * sum_b / n));
}

TEST(BoundsOfNoise, RepeatADrawInsteadOfClampingIt) {
  Noise noise = chips("lottery");
  bound(noise, Kind::clock) = 0.98;
  std::vector<double> inside, repeated, products;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Machine bounded = machine(noise, seed), free = machine(without_bounds(noise), seed);
    for (int rank = 0; rank < free.shape.ranks(); ++rank) {
      const double clock = free.gpu(rank)[Kind::clock];
      (clock < 0.98 ? repeated : inside).push_back(bounded.gpu(rank)[Kind::clock]);
      if (clock < 0.98) products.push_back(std::log(bounded.gpu(rank)[Kind::gemm]));
    }
  }
  ASSERT_GT(repeated.size(), 4000U);
  const auto n = static_cast<double>(repeated.size()), m = static_cast<double>(inside.size());
  EXPECT_LT(distance(inside, repeated), 1.95 * std::sqrt((n + m) / (n * m))) << "a test at 0.001";
  for (double& clock : repeated) clock = std::log(clock);
  EXPECT_LT(std::abs(correlation(repeated, products)), 4 / std::sqrt(n)) << "of the next draw of the same GPU";
}

TEST(BoundsOfNoise, HoldForPartsOfHostsAndForKindsWithoutSpread) {
  Noise noise = chips("lottery");
  for (const Kind kind : {Kind::network, Kind::processor, Kind::pcie_shared, Kind::collective}) bound(noise, kind) = 1;
  double least = 10;
  for (const Host& host : machine(noise, 3).hosts) {
    const double nic = *std::min_element(host.nics.begin(), host.nics.end());
    least = std::min({least, host.processor, host.shared_pcie, nic, host.gpus.front()[Kind::collective]});
  }
  EXPECT_EQ(least, 1) << "the rate of collectives, whose chips do not differ";
}

TEST(BoundsOfNoise, AreOfClocksProductsAndNicsInEveryFile) {
  const std::map<Kind, double> bounds{{Kind::clock, least_clock}, {Kind::gemm, 0.97}, {Kind::network, 0.939}};
  for (const auto& file : fs::directory_iterator(folder)) {
    const Noise noise = read_noise(file.path());
    for (std::size_t i = 0; i < kinds; ++i) {
      const auto known = bounds.find(static_cast<Kind>(i));
      EXPECT_EQ(noise.spreads[i].least_chip, known == bounds.end() ? 0 : known->second)
          << file.path() << " " << words(Kind{})[i];
    }
  }
}

TEST(BoundsOfNoise, AreReplacedByAFileAndRefusedOutOfRange) {
  const fs::path file = fs::path(testing::TempDir()) / ("noise-bounds-" + std::to_string(getpid()) + ".yaml");
  const auto read = [&](const std::string& value) {
    std::ofstream(file) << "include: " << (folder / "calm.yaml").string() << "\nkinds: {clock: {least_chip: " << value
                        << "}}\n";
    return read_noise(file);
  };
  const auto refused = [&](const std::string& value) -> std::string {
    try {
      read(value);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(read("0.9")[Kind::clock].least_chip, 0.9);
  EXPECT_EQ(read("0.9")[Kind::clock].chip, 0.018);
  for (const char* value : {"-0.1", "1.1", ".nan", ".inf"})
    EXPECT_NE(refused(value).find("kinds: clock: least_chip must be from 0 to 1"), std::string::npos) << value;
  for (const char* value : {"much", "", "[0.9]"})
    EXPECT_NE(refused(value).find("kinds: clock: least_chip is not a number"), std::string::npos) << value;
  fs::remove(file);
}

}  // namespace
}  // namespace shakedown::rehearsal::noise_bounds_test
