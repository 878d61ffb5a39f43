// The check of a measured training step, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/group.hpp"
#include "kernels/backends.hpp"
#include "kernels/transformer/measured_step.hpp"

namespace shakedown {

/// Expects that a measurement on the host has the golden losses of its spec, and finds a changed parameter.
inline void expect_checked_through_the_seam(const TrainStepSpec& spec) {
  const auto device = host::open_device({});
  Alone group;
  ASSERT_EQ(training::golden_losses(spec).size(), 4U);
  const auto work = device->prepare(spec);
  work->connect(group);
  work->reset();
  work->stage(10);
  EXPECT_GT(device->seconds(*work, 10), 0);
  const Check check = work->verify();
  EXPECT_TRUE(check.passed()) << check.first;
  work->corrupt();
  EXPECT_NE(work->verify().first.find("checksum"), std::string::npos);
}

}  // namespace shakedown
