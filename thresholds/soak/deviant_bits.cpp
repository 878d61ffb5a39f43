#include "thresholds/soak/deviant_bits.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace shakedown {

std::map<std::string, DeviantBits> deviant_bits(const Soak& soak, const std::vector<std::string>& units) {
  std::map<std::string, std::set<std::size_t>> deviant;  // by unit: rounds in which it differs
  std::map<std::string, Key> example;
  for (const FigureName& name : soak.names(&SoakRound::bits)) {
    std::map<std::size_t, std::map<double, std::size_t>> same;  // by round and value: number of units with this value
    std::map<std::string, std::vector<std::pair<std::size_t, double>>> found;
    for (const std::string& unit : units) {
      std::map<double, std::size_t> votes;
      std::vector<std::pair<std::size_t, double>> values;
      each_value(soak, &SoakRound::bits, name, unit, [&](std::size_t i, double value) {
        ++votes[value];
        values.emplace_back(i, value);
      });
      if (votes.size() < 2) continue;
      const double usual = std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) {
                             return a.second < b.second;
                           })->first;
      for (const auto& [i, value] : values) {
        if (value == usual) continue;
        found[unit].emplace_back(i, value);
        ++same[i][value];
      }
    }
    for (const auto& [unit, rounds] : found) {
      for (const auto& [i, value] : rounds) {
        // Several GPUs do not fail in the same way by chance, so a library or a setting has changed.
        if (same[i][value] > 1) continue;
        deviant[unit].insert(i);
        example.emplace(unit, name.key());
      }
    }
  }
  std::map<std::string, DeviantBits> all;
  for (const auto& [unit, rounds] : deviant) all[unit] = {{rounds.begin(), rounds.end()}, example[unit]};
  return all;
}

}  // namespace shakedown
