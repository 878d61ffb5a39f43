// Silent data corruption in a soak: rounds in which a GPU computed other bits than in most of its rounds.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "thresholds/soak/soak_rounds.hpp"

namespace shakedown {

struct DeviantBits {
  std::vector<std::size_t> rounds;
  Key example;  // the first row that differs
};

/// Returns, by unit, the rounds in which its bits differ from most of its rounds with the same input and algorithm.
/// Leaves out bits that several units share in a round, because then a library or a setting has changed.
std::map<std::string, DeviantBits> deviant_bits(const Soak&, const std::vector<std::string>& units);

}  // namespace shakedown
