// Finds the ranks that share a host. The functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "thresholds/results/results.hpp"

namespace shakedown {

class Hosts {
 public:
  explicit Hosts(const Context& context) {
    for (const RankFacts& rank : context.ranks) {
      const auto [host, fresh] = index_.emplace(rank.host, locals_.size());
      if (fresh) locals_.emplace_back();
      host_of_.push_back(host->second);
      auto& locals = locals_[host->second];
      if (locals.size() <= static_cast<std::size_t>(rank.local_rank)) {
        locals.resize(static_cast<std::size_t>(rank.local_rank) + 1);
      }
      locals[static_cast<std::size_t>(rank.local_rank)] = rank.rank;
    }
  }

  std::size_t count() const { return locals_.size(); }
  std::size_t host_of(int rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  /// Returns the rank with this local index on the host of `rank`.
  std::optional<int> neighbour(int rank, int local) const {
    const auto& locals = locals_[host_of(rank)];
    if (local < 0 || static_cast<std::size_t>(local) >= locals.size()) return std::nullopt;
    return locals[static_cast<std::size_t>(local)];
  }
  int ranks_with(int rank) const { return static_cast<int>(locals_[host_of(rank)].size()); }

  /// Finds, for a rank that has the value of a copy between ranks, the rank whose data was copied.
  class Sources {
   public:
    Sources(const Hosts& hosts, const Key& key) : hosts_(hosts), src_(key.number("src")), shift_(key.number("shift")) {}

    /// Returns the source; nullopt if the row is not a copy between ranks.
    std::optional<int> of(const RankFacts& facts) const {
      if (src_) return hosts_.neighbour(facts.rank, static_cast<int>(*src_));
      if (!shift_) return std::nullopt;
      const int n = hosts_.ranks_with(facts.rank);
      return hosts_.neighbour(facts.rank, static_cast<int>(((facts.local_rank - *shift_) % n + n) % n));
    }

   private:
    const Hosts& hosts_;
    std::optional<std::int64_t> src_, shift_;
  };
  Sources sources(const Key& key) const { return {*this, key}; }

 private:
  std::map<std::string, std::size_t> index_;
  std::vector<std::vector<std::optional<int>>> locals_;  // by host and local rank: the rank
  std::vector<std::size_t> host_of_;
};

/// Finds the hosts of each context once and stores them.
class HostsByContext {
 public:
  const Hosts& of(const Context& context) {
    const auto found = hosts_.find(&context);
    return found == hosts_.end() ? hosts_.emplace(&context, Hosts(context)).first->second : found->second;
  }

 private:
  std::map<const Context*, Hosts> hosts_;
};

}  // namespace shakedown
