// Private to thresholds/*.cpp and report/*.cpp.
#pragma once

#include "base/archive.hpp"

namespace shakedown {

/// Errors: InputError for a file that is missing, empty, cut off or not strict JSON. Defined in results.cpp.
nlohmann::json read_json(const std::filesystem::path& file);

}  // namespace shakedown
