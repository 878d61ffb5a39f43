#include "thresholds/rehearsal/pairs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/statistics.hpp"
#include "thresholds/catalogue/pair_limits.hpp"

namespace shakedown::rehearsal {

namespace {

using Partners = std::vector<int>;

constexpr int rounds_of_a_kind = 3;

/// Adds the pairs of round k of the circle method: all hosts rotate except the last.
void pair_up(Partners& partners, const std::vector<int>& hosts, int k) {
  const int n = static_cast<int>(hosts.size()), ring = n % 2 == 0 ? n - 1 : n;
  const auto join = [&](int a, int b) {
    if (a == b) return;
    const int one = hosts[static_cast<std::size_t>(a)], other = hosts[static_cast<std::size_t>(b)];
    partners[static_cast<std::size_t>(one)] = other;
    partners[static_cast<std::size_t>(other)] = one;
  };
  if (ring < 1) return;
  if (n % 2 == 0) join(k % ring, n - 1);
  for (int i = 1; 2 * i < ring + 1; ++i) join((k + i) % ring, (k + ring - i % ring) % ring);
}

/// Pairs the hosts of leaf 2i with those of leaf 2i + 1. Each round shifts them by one host, and all rounds after the
/// first also by one leaf.
void pair_across(Partners& partners, const std::vector<std::vector<int>>& leaves, int k) {
  std::vector<int> order(leaves.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  Partners of_leaf(leaves.size(), -1);
  pair_up(of_leaf, order, k);
  for (std::size_t a = 0; a < leaves.size(); ++a) {
    if (of_leaf[a] < static_cast<int>(a)) continue;
    const auto& other = leaves[static_cast<std::size_t>(of_leaf[a])];
    const auto& few = leaves[a].size() < other.size() ? leaves[a] : other;
    const auto& many = &few == &other ? leaves[a] : other;
    for (std::size_t i = 0; i < few.size(); ++i) {
      const int partner = many[(i + static_cast<std::size_t>(k)) % many.size()];
      partners[static_cast<std::size_t>(few[i])] = partner;
      partners[static_cast<std::size_t>(partner)] = few[i];
    }
  }
}

Planned pair_row(const std::string& middle, Partners partners, bool sums) {
  Planned row{fmt::format("pairs/op:{}/{}/bytes:{}", sums ? "allreduce" : "sendrecv", middle, sums ? 1 << 30 : 1 << 28),
              Form::pairs, Kind::network};
  row.bytes = sums ? 1 << 30 : 1 << 28;
  row.shown.assign(partners.size(), true);
  row.partners = std::move(partners);
  row.sums = sums;
  return row;
}

bool has_leaves(const Shape& shape) { return shape.leaves_are_known && shape.hosts > shape.leaf_hosts; }

/// The result of each host.
struct Outcome {
  std::vector<int> suspects;
  std::vector<bool> fast, answers;
  // By host: the partner that did not answer, or was very slow inside a leaf, while other partners were fast; none if
  // there was no such partner.
  Partners once;
};

Outcome outcome(const Shape& shape, const std::vector<Planned>& rounds, const std::vector<Row>& measured) {
  const auto hosts = static_cast<std::size_t>(shape.hosts), gpus = static_cast<std::size_t>(shape.gpus);
  Outcome result{{}, std::vector<bool>(hosts, true), std::vector<bool>(hosts, false), Partners(hosts, -1)};
  std::vector<bool> suspect(hosts, false);
  for (std::size_t rail = 0; rail < gpus; ++rail) {
    std::vector<double> all;
    const auto rate = [&](std::size_t round, std::size_t host) {
      return measured[round].by_rank.at("busbw_gb_per_s")[host * gpus + rail];
    };
    for (std::size_t r = 0; r < rounds.size(); ++r) {
      for (std::size_t host = 0; host < hosts && !rounds[r].sums; ++host) {
        if (const auto value = rate(r, host)) all.push_back(*value);
        if (rate(r, host)) result.answers[host] = true;
      }
    }
    if (all.empty()) continue;
    std::erase_if(all, [best = *std::max_element(all.begin(), all.end())](double value) {
      return value < pair_limits::implausible_rate * best;  // up to this fraction of the best, the host may be slow
    });
    const double usual = median(all), low = pair_limits::slow_rate * usual;
    std::vector<bool> good(hosts, false);
    for (std::size_t r = 0; r < rounds.size(); ++r) {
      for (std::size_t host = 0; host < hosts && !rounds[r].sums; ++host) {
        if (rate(r, host).value_or(0) >= low) good[host] = true;
      }
    }
    for (std::size_t host = 0; host < hosts; ++host) {
      int slow = 0, count = 0;
      for (std::size_t r = 0; r < rounds.size(); ++r) {
        const int other = rounds[r].partners[host];
        if (rounds[r].sums || other < 0) continue;
        ++count;
        const bool explained = good[host] && !good[static_cast<std::size_t>(other)];
        if (rate(r, host).value_or(0) >= low || explained) continue;
        ++slow;
        const bool in_leaf = has_leaves(shape) && static_cast<int>(host) / shape.leaf_hosts == other / shape.leaf_hosts;
        const bool is_odd = !rate(r, host) || (in_leaf && *rate(r, host) < pair_limits::implausible_rate * usual);
        auto &mine = result.once[host], &theirs = result.once[static_cast<std::size_t>(other)];
        if (!is_odd || mine >= 0 || theirs >= 0) continue;
        mine = other;
        theirs = static_cast<int>(host);
      }
      if (slow > 0 && 2 * slow >= count) suspect[host] = true;
      if (!good[host]) result.fast[host] = false;
    }
  }
  for (std::size_t host = 0; host < hosts; ++host) {
    const int other = result.once[host];
    if (other >= 0 && (suspect[host] || suspect[static_cast<std::size_t>(other)])) {
      result.once[host] = result.once[static_cast<std::size_t>(other)] = -1;
    }
    if (!suspect[host]) continue;
    result.fast[host] = false;
    if (result.answers[host]) result.suspects.push_back(static_cast<int>(host));
  }
  return result;
}

/// Pairs each suspect with a fast host: of its own leaf if k is 0, else of another leaf.
Partners with_fast_hosts(const Shape& shape, const Outcome& of, int k, const Partners& before) {
  Partners partners = of.once;
  for (const int suspect : of.suspects) {
    int best = 0, found = -1;
    for (int host = 0; host < shape.hosts; ++host) {
      const auto at = static_cast<std::size_t>(host);
      if (!of.fast[at] || partners[at] >= 0) continue;
      const bool same_leaf = host / shape.leaf_hosts == suspect / shape.leaf_hosts;
      const int worth =
          1 + (same_leaf == (k == 0) ? 1 : 0) + (before[static_cast<std::size_t>(suspect)] == host ? 0 : 2);
      if (worth > best) {
        best = worth;
        found = host;
      }
    }
    if (found < 0) continue;
    partners[static_cast<std::size_t>(suspect)] = found;
    partners[static_cast<std::size_t>(found)] = suspect;
  }
  return partners;
}

Partners low_sums(const Shape& shape, const std::vector<Planned>& rounds, const std::vector<Row>& measured,
                  const Outcome& of) {
  Partners partners(of.fast.size(), -1);
  std::vector<double> all;
  const auto rate = [&](std::size_t round, std::size_t host) {
    return measured[round].by_rank.at("busbw_gb_per_s")[host * static_cast<std::size_t>(shape.gpus)];
  };
  for (std::size_t r = 0; r < rounds.size(); ++r) {
    for (std::size_t host = 0; host < partners.size() && rounds[r].sums; ++host) {
      if (const auto value = rate(r, host)) all.push_back(*value);
    }
  }
  for (std::size_t r = 0; r < rounds.size() && !all.empty(); ++r) {
    for (std::size_t host = 0; host < partners.size() && rounds[r].sums; ++host) {
      const int other = rounds[r].partners[host];
      if (other < 0 || partners[host] >= 0 || partners[static_cast<std::size_t>(other)] >= 0) continue;
      const bool across = has_leaves(shape) && static_cast<int>(host) / shape.leaf_hosts != other / shape.leaf_hosts;
      if (across && rate(r, host)) continue;
      if (!of.answers[host] || !of.answers[static_cast<std::size_t>(other)]) continue;
      if (rate(r, host).value_or(0) >= pair_limits::slow_sum * median(all)) continue;
      partners[host] = other;
      partners[static_cast<std::size_t>(other)] = static_cast<int>(host);
    }
  }
  return partners;
}

bool is_empty(const Partners& partners) {
  return std::all_of(partners.begin(), partners.end(), [](int partner) { return partner < 0; });
}

}  // namespace

std::vector<Planned> pair_rows(const Shape& shape) {
  std::vector<std::vector<int>> leaves(
      has_leaves(shape) ? static_cast<std::size_t>((shape.hosts - 1) / shape.leaf_hosts + 1) : 1);
  for (int host = 0; host < shape.hosts; ++host) {
    leaves[leaves.size() > 1 ? static_cast<std::size_t>(host / shape.leaf_hosts) : 0].push_back(host);
  }
  std::vector<Planned> rows, sums;
  const Partners nobody(static_cast<std::size_t>(shape.hosts), -1);
  const auto add = [&](const std::string& scope, int round, const Partners& partners) {
    const auto middle = fmt::format("scope:{}/round:{}", scope, round);
    if (round == 0 || (leaves.size() == 1 && round == rounds_of_a_kind))
      sums.push_back(pair_row(middle, partners, true));
    rows.push_back(pair_row(middle, partners, false));
  };
  for (int k = 0; k < (leaves.size() > 1 ? 1 : 2) * rounds_of_a_kind; ++k) {
    Partners partners = nobody;
    for (const auto& hosts : leaves) pair_up(partners, hosts, k);
    add(shape.leaves_are_known ? "leaf" : "any", k, partners);
  }
  for (int k = 0; leaves.size() > 1 && k < rounds_of_a_kind; ++k) {
    Partners partners = nobody;
    pair_across(partners, leaves, k);
    add("across", k, partners);
  }
  rows.insert(rows.end(), sums.begin(), sums.end());
  return rows;
}

std::vector<Planned> confirming_rows(const Shape& shape, const std::vector<Planned>& rounds,
                                     const std::vector<Row>& measured) {
  const Outcome of = outcome(shape, rounds, measured);
  std::vector<Planned> rows;
  const auto add = [&](const std::string& middle, const Partners& partners, bool sums, Direction direction) {
    rows.push_back(pair_row(middle, partners, sums));
    Planned& row = rows.back();
    row.direction = direction;
    for (std::size_t host = 0; host < partners.size(); ++host) {
      const bool is_suspect =
          std::find(of.suspects.begin(), of.suspects.end(), static_cast<int>(host)) != of.suspects.end();
      row.shown[host] = sums ? static_cast<int>(host) < partners[host] : is_suspect || of.once[host] >= 0;
    }
    if (!is_empty(partners)) return;
    row.form = Form::waived;
    row.reason = sums ? "no AllReduce is in doubt" : "no host is in doubt that could be measured again with a good one";
  };
  Partners before(of.fast.size(), -1);
  for (int k = 0; k < 2; ++k) {
    before = with_fast_hosts(shape, of, k, before);
    for (const Direction direction : {Direction::both, Direction::out, Direction::in}) {
      add(fmt::format("scope:any/confirm:{}/dir:{}", k, name(direction)), before, false, direction);
    }
  }
  const Partners again = low_sums(shape, rounds, measured, of);
  for (int k = 0; k < 2; ++k) add(fmt::format("scope:any/confirm:{}", k), again, true, Direction::both);
  return rows;
}

}  // namespace shakedown::rehearsal
