#include "thresholds/units/unit.hpp"

#include <initializer_list>
#include <string_view>

namespace shakedown {

std::vector<Key> classes_of(const Key& key) {
  const Key family(key.family());
  // Returns the class of rows that have the same values of these parts.
  const auto by = [&](std::initializer_list<std::string_view> parts) {
    Key name = family;
    for (const std::string_view part : parts) name.set(part, key.part(part));
    return name;
  };
  if (family == "gemm" && key.part("load") == "sustained") return {by({"load"})};  // bursts do not show heat
  if (family == "gemm") return {family, by({"dtype"})};
  if (family == "hbm") return {family, by({"op"}), by({"op", "engine"})};
  if (family == "p2p" && key.part("op") == "latency") return {by({"op"})};
  if (family == "p2p" && key.part("dir") == "both") return {by({"dir"})};
  if (family == "p2p") {
    const Key engine = by({"op", "engine"});
    return {family, Key(engine).set("end", "src"), Key(engine).set("end", "dst")};
  }
  if (family == "pcie" && key.part("active") == "one") return {by({"active"}), by({"active", "op"})};
  if (family == "pcie") return {family, by({"op"})};
  if (key.part("scope") == "node") return {by({"scope"})};
  return {family};
}

Key of_each_rank(const Key& key) { return key.part("active") == "one" ? key.with("rank", "*") : key; }

Unit unit_of(const Key& class_name, int rank, std::optional<int> from) {
  const auto end = class_name.part("end");
  if (!from || end.empty()) return unit_at(rank, from);
  return gpu_unit(end == "src" ? *from : rank);
}

}  // namespace shakedown
