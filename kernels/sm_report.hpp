// The check, the metrics and the words for the records of all SMs.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "kernels/check.hpp"
#include "kernels/device.hpp"
#include "kernels/sm_record.hpp"

namespace shakedown {

/// How to name SMs and products in messages.
struct SmWords {
  const char* sm;        // "SM", "worker"
  const char* products;  // "tile products", "pages"
  std::function<std::string(const SmRecord&)> first;
};

/// Returns the check of all records: each of `sms` records must have `products` products, and none may be wrong. If
/// more than half of them are wrong, the message names none, because a part that all use is at fault.
Check check_of(std::span<const SmRecord>, std::size_t sms, unsigned long long products, const SmWords&);

/// Returns the index of the SM with the most wrong products, if at most half of all SMs have any; else nullopt.
std::optional<std::size_t> wrong_sm(std::span<const SmRecord>);

/// Returns the number of SMs, their products, the share of products that were compared, the smallest rate of wrong
/// products of one SM that this number finds with a probability of 95 %, and the wrong SM if there is one.
Metrics metrics_of(std::span<const SmRecord>, std::size_t sms, unsigned long long products);

}  // namespace shakedown
