// The health data of a GPU: which names are faults, and their wording for people.
#include "base/gpu_health.hpp"

#include <gtest/gtest.h>

namespace shakedown::gpu_health_test {
namespace {

TEST(Throttle, IsToldInOneOrderAndNeverAsNothing) {
  const Throttle throttle{{"hw_thermal", 0.001}, {"sw_power_cap", 0.29}};
  EXPECT_EQ(throttle_text(throttle), "sw_power_cap 29 %, hw_thermal 1 %");
  EXPECT_EQ(throttle_in_words(throttle), "software power cap 29 % of the time, hardware thermal slowdown 1 %");
  EXPECT_EQ(throttle_text({}), "");
}

TEST(Throttle, TellsWhatProtectsAGpuFromWhatItWorksAt) {
  for (const char* reason : {"hw_slowdown", "hw_thermal", "hw_power_brake", "sw_thermal", "of a later driver"}) {
    EXPECT_TRUE(protects_gpu(reason)) << reason;
  }
  for (const char* reason : {"sw_power_cap", "sync_boost", "applications_setting", "display_setting"}) {
    EXPECT_FALSE(protects_gpu(reason)) << reason;
  }
  EXPECT_TRUE(is_heat("hw_thermal"));
  EXPECT_FALSE(is_heat("hw_slowdown")) << "which may be its supply";
  EXPECT_TRUE(is_power("hw_power_brake"));
}

TEST(Errors, HaveWordsWithTheirNumbers) {
  EXPECT_EQ(errors_text({{"ecc_uncorrected", 2}, {"nvlink_17_crc", 1}, {"xid_48", 3}, {"xid_79", 1}}, 7),
            "ECC uncorrected +2; NVLink 17 CRC errors +1; XID 48, 3 times; XID 79 in 7 rows");
  EXPECT_EQ(errors_text({{"of_a_later_driver_2", 1}}), "of_a_later_driver_2 +1");
  EXPECT_EQ(errors_text({}, 7), "");
}

TEST(Errors, AreFaultsUnlessTheyCostOnlyTimeOrAreTheProgramsOwn) {
  for (const char* counter : {"ecc_uncorrected", "remapped_rows_corrected", "xid_79", "xid_130", "xid_9999999999",
                              "xid_", "sxid_13", "ecc_corrected_2", "of_a_later_driver"}) {
    EXPECT_TRUE(is_fault(counter)) << counter;
  }
  for (const char* counter : {"ecc_corrected", "pcie_replays", "nvlink_3_replays", "xid_13", "xid_45"}) {
    EXPECT_FALSE(is_fault(counter)) << counter;
  }
}

}  // namespace
}  // namespace shakedown::gpu_health_test
