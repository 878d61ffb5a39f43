// Extracts results from the output of ranks. The functions are pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shakedown {

/// Returns the JSON document in the output of rank 0, which may be truncated. Empty if there is none.
std::string document_in(const std::string& text);

/// Parses {"family": "gemm", "result": {...}}. Returns the family and the text of the result. nullopt for other lines,
/// and if the family is not a plain name, because it becomes a file name.
std::optional<std::pair<std::string, std::string>> streamed(std::string_view line);

}  // namespace shakedown
