// Compares gradients of a step with finite differences of its loss, and with each other.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/transformer/host_step.hpp"

namespace shakedown {

/// Returns the derivative of the loss along a direction of one tensor, from a five-point stencil.
inline double difference(HostStep<double>& host, const training::ParameterTensor& t,
                         const std::vector<double>& direction) {
  auto* const parameters = host.step.buffers().state.parameters + t.offset;
  const std::vector<double> before(parameters, parameters + t.size());
  const auto at = [&](double distance) {
    for (std::size_t i = 0; i < t.size(); ++i) parameters[i] = before[i] + distance * direction[i];
    return host.loss();
  };
  constexpr double h = 1e-4;
  const double slope = (at(-2 * h) - 8 * at(-h) + 8 * at(h) - at(2 * h)) / (12 * h);
  std::copy(before.begin(), before.end(), parameters);
  return slope;
}

inline void expect_gradients_match_differences(const training::StepShape& shape) {
  HostStep<double> host(shape);
  const auto gradient = host.gradient();
  for (const auto& t : host.step.tensors()) {
    std::vector<double> direction(t.size());
    double expected = 0, norm = 0;
    for (std::size_t i = 0; i < t.size(); ++i) {
      direction[i] = reference::normal(i, 3);
      expected += gradient[t.offset + i] * direction[i];
      norm += gradient[t.offset + i] * gradient[t.offset + i];
    }
    EXPECT_GT(norm, 1e-12) << text(t);
    EXPECT_NEAR(difference(host, t, direction), expected, 1e-6 * std::sqrt(norm)) << text(t);
  }
}

template <class T>
double distance(const std::vector<T>& a, const std::vector<T>& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / norm);
}

}  // namespace shakedown
