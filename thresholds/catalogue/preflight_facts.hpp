// The facts that bench_preflight reads. A rule about any other fact is rejected.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shakedown {

enum class FactKind { number, text };

/// Returns the kind of the fact `name` under a key such as "preflight/of:gpu"; nullopt if there is no such fact.
std::optional<FactKind> fact_kind(std::string_view key, std::string_view name);

/// Returns the facts under a key: "cuda_opens, ecc, ...". If the key is unknown, returns the keys: "preflight/of:host,
/// ...".
std::string known_facts(std::string_view key);

/// True if the facts of this key describe a host, so that only its first rank has them. Facts of other keys exist for
/// each rank.
bool is_of_host(std::string_view key);

}  // namespace shakedown
