#include "thresholds/catalogue/majority.hpp"

#include <algorithm>
#include <map>

namespace shakedown {
namespace {

constexpr std::size_t max_named = 4;

// Returns "node7", "node7, node9" or "node7 and 11 others".
std::string names(const std::vector<Holder>& holders, const std::vector<std::size_t>& group) {
  std::vector<std::string> distinct;  // all ranks of a host have one name, which is listed once
  for (const std::size_t i : group) {
    if (std::find(distinct.begin(), distinct.end(), holders[i].who) == distinct.end())
      distinct.push_back(holders[i].who);
  }
  std::string text;
  const std::size_t shown = distinct.size() > max_named ? 1 : distinct.size();
  for (std::size_t i = 0; i < shown; ++i) text += (text.empty() ? "" : ", ") + distinct[i];
  if (shown < distinct.size()) text += " and " + std::to_string(distinct.size() - shown) + " others";
  return text;
}

std::size_t distinct_names(const std::vector<Holder>& holders, const std::vector<std::size_t>& group) {
  std::vector<std::string> seen;
  for (const std::size_t i : group) seen.push_back(holders[i].who);
  std::sort(seen.begin(), seen.end());
  return static_cast<std::size_t>(std::unique(seen.begin(), seen.end()) - seen.begin());
}

}  // namespace

OddOnesOut odd_ones_out(const std::vector<Holder>& holders) {
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < holders.size(); ++i) {
    if (holders[i].value) groups[*holders[i].value].push_back(i);
  }
  OddOnesOut odd;
  if (groups.size() < 2) return odd;
  // If groups have the same size, the reference is the group with the first member. This choice of the reference is
  // arbitrary, but always the same.
  const auto reference = std::max_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.second.size() != b.second.size() ? a.second.size() < b.second.size() : a.second.front() > b.second.front();
  });
  for (auto group = groups.begin(); group != groups.end(); ++group) {
    if (group == reference) continue;
    odd.who.insert(odd.who.end(), group->second.begin(), group->second.end());
    odd.text += (odd.text.empty() ? "" : ", ") + group->first + " on " + names(holders, group->second);
  }
  std::sort(odd.who.begin(), odd.who.end());
  const std::size_t others = distinct_names(holders, reference->second);
  odd.text += ", " + reference->first + " on " +
              (others == 1 ? names(holders, reference->second) : std::to_string(others) + " others");
  return odd;
}

}  // namespace shakedown
