// The results that ranks print for the front door. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shakedown {

/// The JSON document among what rank 0 has printed, as far as it came; empty if there is none.
std::string document_in(const std::string& text);

/// The family and its document of {"family": "gemm", "result": {...}}, which is not parsed here; nothing for another
/// line, or where the family is no plain name, since it names a file.
std::optional<std::pair<std::string, std::string>> streamed(std::string_view line);

}  // namespace shakedown
