// The meaning of the lines that ranks print for the front door. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shakedown {

/// Whether a line announces the end that the ranks are coming to (fixtures/liveness/watchdog.cpp).
bool announces_end(std::string_view line);

/// The hosts that the ranks name when they end a job (fixtures/liveness/watchdog.cpp); nothing for another line.
std::optional<std::vector<std::string>> lost_hosts_in(std::string_view line);

/// Whether a line is to be read at once, by people.
bool is_for_people(std::string_view line);

/// The reason of a rank why nothing can be measured, whatever is tried: its GPU is another run's (node/gpu_claim.hpp),
/// or its host has no CUDA libraries (ci/with_cuda). Empty for another line.
std::string refusal_in(std::string_view line);

/// The JSON document among what rank 0 has printed; empty if there is no whole one.
std::string document_in(const std::string& text);

/// The family and its document of {"family": "gemm", "result": {...}}; nothing for another line, for one that was cut
/// off, or where the family is no plain name, since it names a file.
std::optional<std::pair<std::string, std::string>> streamed(std::string_view line);

}  // namespace shakedown
