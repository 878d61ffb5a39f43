#include "thresholds/findings/part.hpp"

#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/results/hosts.hpp"

namespace shakedown {
namespace {

std::string rank_text(const RankFacts& facts) { return "rank " + std::to_string(facts.rank); }

PartKind kind_of(const Key& key, const std::string& metric, const Context& context) {
  const Aspect aspect = aspect_of(key, metric);
  if (context.backend == Backend::host || aspect == Aspect::processor) return PartKind::processor;
  return aspect == Aspect::pcie ? PartKind::pcie : PartKind::gpu;
}

}  // namespace

Part host_part(const std::string& host) { return {PartKind::host, host, host}; }

Part gpu_part(const RankFacts& facts) {
  return {PartKind::gpu, facts.uuid ? *facts.uuid : facts.pci.value_or(rank_text(facts)), facts.host};
}

Part part_of(const Key& key, const std::string& metric, const Context& context, int rank) {
  if (!key.number("src") && !key.number("shift")) return part_of(key, metric, context, rank, std::nullopt);
  const Hosts hosts(context);
  const auto from = hosts.sources(key).of(context.ranks.at(static_cast<std::size_t>(rank)));
  // A copy in both directions has a value at both ends.
  const auto other = from == rank ? hosts.neighbour(rank, static_cast<int>(key.number("dst").value_or(-1))) : rank;
  return part_of(key, metric, context, other.value_or(rank), from);
}

Part part_of(const Key& key, const std::string& metric, const Context& context, int rank, std::optional<int> from) {
  const RankFacts& facts = context.ranks.at(static_cast<std::size_t>(rank));
  if (key.family() == "pairs") return {PartKind::nic, "rail " + std::to_string(facts.local_rank), facts.host};
  if (aspect_of(key, metric) == Aspect::storage) return host_part(facts.host);
  const PartKind kind = kind_of(key, metric, context);
  Part part = gpu_part(facts);
  if (from && *from != rank) {
    part.id = gpu_part(context.ranks.at(static_cast<std::size_t>(*from))).id + " > " + part.id;
    part.kind = PartKind::link;
  } else {
    part.kind = kind;
    if (kind == PartKind::processor) part.id = rank_text(facts);
  }
  return part;
}

}  // namespace shakedown
