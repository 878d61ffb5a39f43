// Fans and the event log of a BMC on simulated hosts.
#include "node/chassis.hpp"

#include <gtest/gtest.h>

#include "tests/node/made_up_host.hpp"

namespace shakedown::chassis_test {
namespace {

using Clock = std::chrono::system_clock;

// As `ipmitool sel list` of 1.8.18 prints events, and the last one as 1.8.19 does.
constexpr const char* log_text =
    "   1 |  Pre-Init  |0000000009| Power Supply #0x60 | Failure detected | Asserted\n"
    "   2 | 11/02/2026 | 12:31:45 | Memory #0x53 | Uncorrectable ECC | Asserted\n"
    "   3 | 11/20/2026 | 08:00:00 | Memory #0x53 | Uncorrectable ECC | Asserted\n"
    "   4 | 11/20/2026 | 08:00:01 | System Event #0x83 | Timestamp Clock Sync | Asserted\n"
    "   5 | 11/20/2026 | 08:10:00 | Power Supply #0x61 | Power Supply AC lost | Asserted\n"
    "   6 | 11/20/2026 | 08:11:00 | Power Supply #0x61 | Power Supply AC lost | Deasserted\n"
    "   7 | 11/20/2026 | 08:12:00 | Power Supply #0x60 | Power Supply AC lost | Asserted\n"
    "   8 | 11/21/26 | 09:00:00 UTC | Fan #0x30 | Lower Critical going low  | Asserted\n";

CommandOutput said(const std::string& text) { return {.started = true, .timed_out = false, .code = 0, .text = text}; }
Clock::time_point november(int day) {
  return std::chrono::sys_days(std::chrono::year(2026) / std::chrono::November / std::chrono::day(unsigned(day)));
}

TEST(BmcLog, HasTheFaultsSinceTheStartThatHaveNotEnded) {
  const Fact found = bmc_facts(said(log_text), november(10)).at("bmc_faults");
  EXPECT_EQ(found.number, 3);
  EXPECT_NE(found.text->find("Memory #0x53, Uncorrectable ECC, 11/20/2026 08:00:00"), std::string::npos) << *found.text;
  EXPECT_NE(found.text->find("Power Supply #0x60, Power Supply AC lost"), std::string::npos)
      << "the other one has ended";
  EXPECT_NE(found.text->find("Fan #0x30"), std::string::npos);
  EXPECT_EQ(bmc_facts(said(log_text), november(21)).at("bmc_faults").number, 1) << "only the fan is younger";
  EXPECT_EQ(bmc_facts(said("SEL has no entries\n"), november(10)).at("bmc_faults").number, 0);
  EXPECT_EQ(bmc_facts(said("| | | |\n\n1 | 99/99/2026 | 1 | Memory | Uncorrectable ECC | Asserted\n"), november(10))
                .at("bmc_faults")
                .number,
            0);
}

TEST(BmcLog, IsUnknownWithTheReasonIfItCannotBeRead) {
  const MadeUpHost host;
  EXPECT_FALSE(read_bmc_log(host.root())) << "a host without a BMC is not asked";
  EXPECT_EQ(bmc_facts(std::nullopt, november(10)).at("bmc_faults").number, std::nullopt);
  const auto reason = [](CommandOutput output) {
    const Fact fact = bmc_facts(output, november(10)).at("bmc_faults");
    EXPECT_EQ(fact.number, std::nullopt);
    return *fact.text;
  };
  EXPECT_EQ(reason({.started = false, .timed_out = false, .code = 1, .text = ""}), "ipmitool is not installed");
  EXPECT_TRUE(reason({.started = true, .timed_out = true, .code = 0, .text = ""}).ends_with(" 3 s"));
  EXPECT_EQ(reason({.started = true, .timed_out = false, .code = 1, .text = "Could not open device"}),
            "ipmitool could not read the BMC's events");
}

TEST(Fans, ThatFailedAreNamed) {
  const MadeUpHost host;
  EXPECT_EQ(fan_facts(host.root()).at("fans_failed").number, std::nullopt);
  host.write("sys/class/hwmon/hwmon0/name", "coretemp");
  host.write("sys/class/hwmon/hwmon0/temp1_crit_alarm", "1");
  EXPECT_EQ(fan_facts(host.root()).at("fans_failed").number, std::nullopt) << "it has no fan";
  host.write("sys/class/hwmon/hwmon1/name", "nct6779");
  host.write("sys/class/hwmon/hwmon1/fan1_alarm", "0");
  EXPECT_EQ(fan_facts(host.root()).at("fans_failed").number, 0);
  host.write("sys/class/hwmon/hwmon1/fan2_fault", "1");
  EXPECT_EQ(fan_facts(host.root()).at("fans_failed").number, 1);
  EXPECT_EQ(fan_facts(host.root()).at("fans_failed").text, "nct6779 fan2_fault");
}

}  // namespace
}  // namespace shakedown::chassis_test
