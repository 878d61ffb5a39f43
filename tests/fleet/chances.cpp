#include "tests/fleet/chances.hpp"

#include <cmath>

namespace shakedown::fleet {

Chances::Chances(const Plan& plan, const Site& site) : plan_(plan), site_(site) {
  if (plan.noise.resample > 0) residuals_ = stored_residuals(plan.source.parent_path().parent_path());
  draw_chips();
}

void Chances::draw_chips() {
  const Dice lasting = Dice(plan_.seed).at("lasting");
  for (std::size_t k = 0; k < chips_.size(); ++k) {
    for (int r = 0; r < site_.count(); ++r) {
      // Of the slot: a GPU that is missing changes no other one.
      const auto id =
          static_cast<std::uint64_t>(site_.gpu(r).host) * 1000 + static_cast<std::uint64_t>(site_.gpu(r).slot);
      double log = plan_.noise.spread[k].chip * lasting.at(kind_names[k]).at(id).student(plan_.noise.tails.chip);
      log += plan_.noise.drift[k] * (0.5 - (r + 0.5) / site_.count());
      for (const auto& group : plan_.noise.groups) {
        if (static_cast<std::size_t>(group.kind) == k && belongs(group, site_.gpu(r), lasting, id)) {
          log += std::log(group.factor);
        }
      }
      chips_[k].push_back(log);
    }
  }
}

bool Chances::belongs(const Group& group, const Gpu& of, const Dice& lasting, std::uint64_t id) const {
  const bool second = 2 * of.slot >= plan_.gpus;
  if (group.of == "second_socket" && !second) return false;
  const auto host = static_cast<std::uint64_t>(of.host);
  const auto place = group.of == "rack"  ? host / static_cast<std::uint64_t>(plan_.hosts_per_rack)
                     : group.of == "lot" ? id
                                         : host;
  return lasting.at(group.of).at(kind_names[static_cast<std::size_t>(group.kind)]).at(place).uniform() < group.part;
}

Dice Chances::dice(Kind kind, const std::string& key) const {
  return Dice(plan_.seed).at("launch").at(plan_.launch).at(kind_names[static_cast<std::size_t>(kind)]).at(key);
}

double Chances::good(Kind kind, const std::string& key, int rank, std::uint64_t attempt) const {
  const auto k = static_cast<std::size_t>(kind);
  const auto& spread = plan_.noise.spread[k];
  const Dice here = dice(kind, key);
  if (rank < 0)
    return std::exp(spread.launch * here.at(0).student(plan_.noise.tails.launch)) * hiccup(kind, here.at(3));
  const auto at = static_cast<std::uint64_t>(rank);
  double log = spread.launch * here.at(0).student(plan_.noise.tails.launch);
  const Dice now = attempt == 0 ? here : here.at("again").at(attempt);  // what one value has for itself passes
  log += chips_[k][static_cast<std::size_t>(rank)] + residue(kind, now.at(1).at(at));
  return std::exp(log) * hiccup(kind, now.at(2).at(at));
}

double Chances::residue(Kind kind, const Dice& here) const {
  const auto& stored = residuals_[static_cast<std::size_t>(kind)];
  if (plan_.noise.resample == 0 || stored.empty()) {
    return plan_.noise.spread[static_cast<std::size_t>(kind)].row * here.student(plan_.noise.tails.row);
  }
  return plan_.noise.resample * stored[static_cast<std::size_t>(here.uniform() * static_cast<double>(stored.size()))];
}

double Chances::hiccup(Kind kind, const Dice& here) const {
  if (kind == Kind::clock || here.uniform() >= plan_.noise.hiccup_odds) return 1;
  return 1 - plan_.noise.hiccup_slower;
}

}  // namespace shakedown::fleet
