// Extracts results from the output of ranks. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shakedown {

/// Returns the JSON document in the output of rank 0, possibly truncated; empty if there is none.
std::string document_in(const std::string& text);

/// Returns the family and the unparsed document of {"family": "gemm", "result": {...}}; nullopt for other lines, and
/// for a family that is not a plain name, since it becomes a file name.
std::optional<std::pair<std::string, std::string>> streamed(std::string_view line);

}  // namespace shakedown
