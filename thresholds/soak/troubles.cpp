#include "thresholds/soak/troubles.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/key.hpp"

namespace shakedown {
namespace {

constexpr double max_chance = 0.1;
constexpr std::size_t min_rounds_of_long_soak = 20;

int worth(Status status) {
  switch (status) {
    case Status::pass:
    case Status::waived: return 0;
    case Status::inconclusive: return 1;
    case Status::no_reference: return 2;
    case Status::missing: return 3;
    case Status::invalid: return 4;
    case Status::fail: return 5;
  }
  return 5;
}

/// Returns the name of a fault. A fact has its own name, but values and data that of their family, because a slow GPU
/// misses dozens of limits.
Key name_of(const RoundFinding& finding) {
  const std::string& family = finding.key.family();
  if (family != "machine" && family != "preflight") return Key((finding.figure ? "" : "data/") + family);
  std::string fact = family;
  for (const auto& [name, value] : finding.key.parts()) {
    if (name == "rank") break;
    fact += "/" + name + (value.empty() ? "" : ":" + value);
  }
  return Key(fact + (finding.metric.empty() ? "" : "/" + finding.metric));
}

/// Returns the places of a fault. Both ends of a link are one place.
std::vector<std::vector<std::string>> places_of(const RoundFinding& finding) {
  if (finding.places.empty() || finding.key.family() == "suspect") return {finding.places};
  std::vector<std::vector<std::string>> places;
  for (const std::string& place : finding.places) places.push_back({place});
  return places;
}

}  // namespace

std::map<TroublePlace, Trouble> troubles_of(const std::vector<SoakRound>& rounds) {
  std::map<TroublePlace, Trouble> troubles;
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const bool unmeasured = is_unmeasured(rounds[i]);
    for (const RoundFinding& finding : rounds[i].findings) {
      for (auto& places : places_of(finding)) {
        Trouble& trouble = troubles[{name_of(finding), std::move(places)}];
        if (trouble.rounds.empty()) trouble.detail = finding.detail;
        if (trouble.rounds.empty() || trouble.rounds.back() != i) trouble.rounds.push_back(i);
        const Status status = unmeasured ? Status::inconclusive : finding.status;
        if (worth(status) > worth(trouble.worst)) trouble.worst = status;
        trouble.figure = trouble.figure && finding.figure;
        trouble.keys.insert(finding.key);
      }
    }
  }
  return troubles;
}

bool lasts(const std::vector<std::size_t>& rounds, std::size_t count) {
  if (2 * rounds.size() >= count) return true;
  std::size_t run = 1, longest = 1;
  for (std::size_t i = 1; i < rounds.size(); ++i) {
    run = rounds[i] == rounds[i - 1] + 1 ? run + 1 : 1;
    longest = std::max(longest, run);
  }
  if (longest < (count < min_rounds_of_long_soak ? 2 : 3)) return false;
  const auto all = static_cast<double>(count), in_a_row = static_cast<double>(longest);
  const double odds = (static_cast<double>(rounds.size()) - in_a_row + 0.5) / (all - in_a_row + 1);
  return all * std::pow(odds, in_a_row) < max_chance;
}

bool is_unmeasured(const SoakRound& round) {
  const auto died = [](const auto& finding) { return finding.key == round_key && finding.status == Status::missing; };
  return round.state == State::incomplete && !round.findings.empty() &&
         std::none_of(round.findings.begin(), round.findings.end(), died);
}

}  // namespace shakedown
