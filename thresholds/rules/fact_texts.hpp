// Facts as texts: versions, the facts of ranks that must be equal, and what ranks say of a fact.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "thresholds/results/measured.hpp"

namespace shakedown {

/// Compares versions number by number, so that "535.129.03" is at least "535.54".
bool is_at_least(std::string_view version, std::string_view least);

/// Returns the fact of each rank as text. Amounts of memory within 1 % of their median count as equal, because what
/// the kernel reserves differs slightly.
std::vector<std::optional<std::string>> values_as_texts(const Benchmark&, const std::string& metric);

/// Returns the texts of these ranks, each once.
std::vector<std::string> different_texts(const Benchmark&, const std::string& metric, const std::vector<int>& ranks);

}  // namespace shakedown
