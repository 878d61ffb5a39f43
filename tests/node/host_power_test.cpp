// The power of a made-up host's packages.
#include "node/host_power.hpp"

#include <gtest/gtest.h>

#include "tests/node/made_up_host.hpp"

namespace shakedown::host_power_test {
namespace {

const std::string powercap = "sys/class/powercap";

void add_package(const MadeUpHost& host, int number, const std::string& microjoules) {
  const auto folder = powercap + "/intel-rapl:" + std::to_string(number);
  host.write(folder + "/name", "package-" + std::to_string(number));
  host.write(folder + "/energy_uj", microjoules);
  host.write(folder + "/max_energy_range_uj", "262143328850");
}

TEST(HostPower, IsTheSumOfAllPackages) {
  const MadeUpHost host;
  add_package(host, 0, "1000000"), add_package(host, 1, "5000000");
  host.write(powercap + "/intel-rapl:0:0/name", "core");
  host.write(powercap + "/intel-rapl:0:0/energy_uj", "77");
  const HostPower power(host.root() / powercap);
  EXPECT_EQ(power.obstacle(), "");
  add_package(host, 0, "401000000"), add_package(host, 1, "305000000");
  EXPECT_DOUBLE_EQ(power.watts(2).value(), 350);
  EXPECT_FALSE(power.watts()) << "less than a second has passed";
}

TEST(HostPower, IsRightAfterACounterHasWrapped) {
  const MadeUpHost host;
  add_package(host, 0, "262143000000");
  const HostPower power(host.root() / powercap);
  add_package(host, 0, "99671150");
  EXPECT_NEAR(power.watts(1).value(), 100, 1e-6);
}

TEST(HostPower, OfAHostWithoutTheCountersIsUnknown) {
  const MadeUpHost host;
  const auto folder = host.root() / powercap;
  const HostPower power(folder);
  EXPECT_TRUE(power.obstacle().starts_with(folder.string())) << power.obstacle();
  EXPECT_FALSE(power.watts(1));
}

TEST(HostPower, OfACounterThatCannotBeReadIsUnknown) {
  const MadeUpHost host;
  host.write(powercap + "/intel-rapl:0/name", "package-0");
  const HostPower power(host.root() / powercap);
  EXPECT_NE(power.obstacle().find("intel-rapl:0/energy_uj"), std::string::npos) << power.obstacle();
  EXPECT_FALSE(power.watts(1));
}

TEST(HostPower, IsUnknownIfACounterHasGone) {
  const MadeUpHost host;
  add_package(host, 0, "1000000");
  const HostPower power(host.root() / powercap);
  std::filesystem::remove(host.root() / powercap / "intel-rapl:0/energy_uj");
  EXPECT_FALSE(power.watts(1));
  EXPECT_FALSE(power.watts(0)) << "no time has passed";
}

}  // namespace
}  // namespace shakedown::host_power_test
