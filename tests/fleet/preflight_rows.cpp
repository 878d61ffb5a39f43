#include <cmath>
#include <optional>

#include "tests/fleet/families.hpp"

namespace shakedown::fleet {

namespace {

void facts_of(const World& w, Row& row, int r) {
  const auto at = static_cast<std::size_t>(r);
  const Gpu& own = w.site.gpu(r);
  const auto set = [&](const char* name, double value) {
    const auto found = row.by_rank.find(name);
    if (found != row.by_rank.end() && !std::isnan(found->second[at])) found->second[at] = value;
  };
  const auto say = [&](const char* name, const std::string& text) {
    const auto found = row.texts.find(name);
    if (found != row.texts.end() && found->second[at]) found->second[at] = text;
  };
  const Dice here = Dice(w.plan.seed).at("facts").at(static_cast<std::uint64_t>(own.host * w.plan.gpus + own.slot));
  say("uuid", own.uuid);
  say("pci", own.pci);
  say("serial", own.serial);
  const bool repaired = here.uniform() < 0.02;
  set("rows_remapped", repaired ? 1 : 0);
  set("ecc_uncorrected_ever", repaired ? 40 : 0);
  set("ecc_corrected_ever", here.at(1).uniform() < 0.2 ? 1 : 0);
  set("ranks_per_core", w.site.on_host(own.host) / 64.0);
  set("gpus_pci", w.site.on_bus(own.host));
  set("gpus_nvml", w.site.on_bus(own.host));
  if (own.host > 0) set("clock_offset_ms", 0.05 * std::abs(here.at(2).normal()));
  if (w.plan.hosts > 1) set("ib_ports", nics);
  set("power_limit_w", w.damage.power_limit_w(r));
  for (const auto& fault : w.plan.faults) {
    if (!fault.seen || !w.site.strikes(fault, r)) continue;
    if (fault.kind == "ports") set("nvlinks_up", std::round(18 * fault.fraction));
    if (fault.kind == "pcie") set("pcie_width", 8);
  }
}

}  // namespace

Row preflight(const World& w, const std::string& key, const Json& like) {
  Row row = copied(w, key, like, as_local);
  // What the first rank of a host says for it: the template has it at its rank 0 only.
  const auto of_hosts = [&](auto& values, auto null, const Json& stored) {
    if (stored.size() != 4 || stored[0].is_null() || !stored[1].is_null()) return;
    for (int r = 0; r < w.site.count(); ++r) {
      auto& value = values[static_cast<std::size_t>(r)];
      value = w.site.gpu(r).local == 0 ? values[0] : null;
    }
  };
  for (auto& [name, values] : row.by_rank) of_hosts(values, unknown, like["by_rank"][name]);
  for (auto& [name, values] : row.texts) of_hosts(values, std::optional<std::string>(), like["text_by_rank"][name]);
  // Facts of NICs, which the template has none of and says nothing about.
  if (w.plan.hosts > 1 && key == "preflight/of:host") {
    for (const auto& [name, value] :
         {std::pair{"ib_rate_gbit", 400.0}, {"ib_link_downed", 0.0}, {"gpudirect_rdma", 1.0}}) {
      auto& values = row.by_rank[name];
      values.assign(static_cast<std::size_t>(w.site.count()), unknown);
      for (int r = 0; r < w.site.count(); ++r) {
        if (w.site.gpu(r).local == 0) values[static_cast<std::size_t>(r)] = value;
      }
    }
  }
  for (int r = 0; r < w.site.count(); ++r) facts_of(w, row, r);
  return row;
}

}  // namespace shakedown::fleet
