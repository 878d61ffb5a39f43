// Which facts bench_preflight reads, so that a rule about one that does not exist is refused. A closed table.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shakedown {

enum class FactKind { number, text };

/// The kind of the fact `name` of a key ("preflight/of:gpu"); nothing if there is no such fact.
std::optional<FactKind> fact_kind(std::string_view key, std::string_view name);

/// "cuda_opens, ecc, ..." of a key; "preflight/of:host, ..." if there is no such key.
std::string known_facts(std::string_view key);

/// True for facts of a host, which its first rank has; with other keys each rank has its own.
bool is_of_host(std::string_view key);

}  // namespace shakedown
