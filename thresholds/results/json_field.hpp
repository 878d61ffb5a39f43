// Private to thresholds/*.cpp and report/*.cpp.
#pragma once

#include <array>
#include <functional>

#include "base/archive.hpp"

namespace shakedown {

/// The values of a row by rank.
inline constexpr std::array<const char*, 4> columns_by_rank{"by_rank", "text_by_rank", "throttle", "errors"};

/// Parses a file. Errors: InputError for a file that is missing, empty, truncated or not strict JSON. Defined in
/// strict_json.cpp.
nlohmann::json read_json(const std::filesystem::path& file);

/// Parses a text that was read from `file`.
nlohmann::json parse_json(const std::filesystem::path& file, const std::string& text);

/// The same; calls `visit` as soon as an element of the array `list` is complete, with the document as far as it is
/// read. The visitor may take the element away, so that it need not exist as long as the document.
nlohmann::json parse_json(const std::filesystem::path& file, const std::string& text, const std::string& list,
                          const std::function<void(nlohmann::json& document)>& visit);

}  // namespace shakedown
