// The facts that bench_preflight reads. Rules about other facts are refused.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shakedown {

enum class FactKind { number, text };

/// Returns the kind of the fact `name` of a key ("preflight/of:gpu"); nullopt if there is no such fact.
std::optional<FactKind> fact_kind(std::string_view key, std::string_view name);

/// Returns the facts of a key, "cuda_opens, ecc, ..."; for an unknown key the keys, "preflight/of:host, ...".
std::string known_facts(std::string_view key);

/// True for facts of a host, which only its first rank has. Facts of other keys exist for each rank.
bool is_of_host(std::string_view key);

}  // namespace shakedown
