// Private to thresholds/*.cpp and report/*.cpp.
#pragma once

#include <array>

#include "base/archive.hpp"

namespace shakedown {

/// What a row of a result has by rank.
inline constexpr std::array<const char*, 4> columns_by_rank{"by_rank", "text_by_rank", "throttle", "errors"};

/// Errors: InputError for a file that is missing, empty, cut off or not strict JSON. Defined in strict_json.cpp.
nlohmann::json read_json(const std::filesystem::path& file);

/// The name of a metric in schema 2: schema 1 wrote GB/s as "_gbps", which elsewhere are gigabit.
std::string metric_of_schema_1(const std::string& name);

/// Turns a result document of schema 1 into one of schema 2. What is not as it should be stays, for the reader to
/// refuse. Both are defined in schema_1.cpp.
void upgrade_schema_1(nlohmann::json& document);

}  // namespace shakedown
