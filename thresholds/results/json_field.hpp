// Only thresholds/*.cpp and report/*.cpp use this file.
#pragma once

#include <array>
#include <functional>

#include "base/archive.hpp"

namespace shakedown {

/// The members of a row that have values by rank.
inline constexpr std::array<const char*, 4> columns_by_rank{"by_rank", "text_by_rank", "throttle", "errors"};

/// Parses a file. Errors: InputError if the file is missing, empty, truncated or not strict JSON. Defined in
/// strict_json.cpp.
nlohmann::json read_json(const std::filesystem::path& file);

struct HashedJson {
  nlohmann::json document;
  std::string sha256;
};

/// Like read_json above, but calls `visit` each time that an element of an array of the document is complete, with the
/// document as far as it has been read, and the name of the array. The visitor may remove the element, so that the
/// memory of the whole array is never needed.
HashedJson read_json(const std::filesystem::path& file,
                     const std::function<void(nlohmann::json& document, const std::string& list)>& visit);

}  // namespace shakedown
