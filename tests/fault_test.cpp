// The language of SHAKEDOWN_FAULT. What the faults lead to is tested by faults/faults_test.sh.
#include "fixtures/fault.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace shakedown {
namespace {

TEST(Fault, StrikesWhileSamplingUnlessAPhaseIsNamed) {
  const auto fault = parse_fault("hang@2");
  EXPECT_EQ(fault.kind, Fault::Kind::hang);
  EXPECT_EQ(fault.rank, 2);
  EXPECT_EQ(fault.phase, Phase::sample);
  EXPECT_EQ(parse_fault("kill@0:connect").phase, Phase::connect);
}

TEST(Fault, SlowHasAFactor) { EXPECT_EQ(parse_fault("slow:2.5@1").factor, 2.5); }

TEST(Fault, CorruptMayLeaveTheFirstChecksAlone) { EXPECT_EQ(parse_fault("corrupt@1+3").after, 3); }

TEST(Fault, ANumberThatIsNoneMayComeLater) {
  EXPECT_EQ(parse_fault("nan@1").kind, Fault::Kind::nan);
  EXPECT_EQ(parse_fault("nan@1+3").after, 3);
}

TEST(Fault, MalformedTextIsRefusedWithTheForm) {
  for (const auto* bad : {"", "hang", "hang@", "hang@x", "hang@-1", "boom@1", "hang@1:lunch", "slow@1", "slow:x@1",
                          "hang:3@1", "late@0:verify", "skip@0:verify", "hang@1+2", "nan@1:verify"}) {
    try {
      parse_fault(bad);
      ADD_FAILURE() << bad << " was accepted";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find("@rank[:phase]"), std::string::npos) << error.what();
    }
  }
}

TEST(Fault, ThrowsOnItsRankAndInItsPhaseOnly) {
  const auto fault = parse_fault("throw@1:verify");
  EXPECT_NO_THROW(fault.strike(0, Phase::verify));
  EXPECT_NO_THROW(fault.strike(1, Phase::sample));
  EXPECT_THROW(fault.strike(1, Phase::verify), std::runtime_error);
}

}  // namespace
}  // namespace shakedown
