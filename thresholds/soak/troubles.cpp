#include "thresholds/soak/troubles.hpp"

#include <algorithm>
#include <cmath>

#include "base/key.hpp"
#include "base/text.hpp"

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

}  // namespace

std::map<std::pair<std::string, std::string>, Trouble> troubles_of(const std::vector<SoakRound>& rounds) {
  std::map<std::pair<std::string, std::string>, Trouble> troubles;  // by fault and place
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const bool unmeasured = is_unmeasured(rounds[i]);
    for (const RoundFinding& finding : rounds[i].findings) {
      // Names a fact by its own name, but values and data by their family, because a slow GPU misses dozens of
      // limits.
      const auto family = family_of(finding.key);
      const bool fact = family == "machine" || family == "preflight";
      const auto end = finding.key.find("/rank:");
      auto what = fact ? finding.key.substr(0, end) + (finding.metric.empty() ? "" : "/" + finding.metric)
                       : (finding.figure ? "" : "data/") + family;
      auto places = finding.places;
      if (family == "suspect") places = {joined(places)};  // both ends of a link are one suspect
      if (places.empty()) places.emplace_back();
      for (const std::string& place : places) {
        Trouble& trouble = troubles[{what, place}];
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
