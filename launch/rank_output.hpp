// The results that ranks print for the front door. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shakedown {

/// The JSON document among what rank 0 has printed; empty if there is no whole one.
std::string document_in(const std::string& text);

/// The family and its document of {"family": "gemm", "result": {...}}; nothing for another line, for one that was cut
/// off, or where the family is no plain name, since it names a file.
std::optional<std::pair<std::string, std::string>> streamed(std::string_view line);

}  // namespace shakedown
