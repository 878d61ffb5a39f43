// Populations: GPUs of one kind that form a faster and a slower group, such as two versions of a VBIOS, or two makes of
// memory that no fact distinguishes. The division into groups is a property of the fleet, and not a fault of each
// slower GPU. The functions are pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thresholds/findings/finding.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/units/table.hpp"

namespace shakedown {

/// Facts by rank that may divide GPUs into groups. Settings of an operator are not used, because a wrong setting is a
/// fault.
class DividingFacts {
 public:
  explicit DividingFacts(const Benchmarks&);

  struct Fact {
    std::string name;                                // such as "vbios"
    std::vector<std::optional<std::string>> values;  // by rank: its value
  };
  const std::vector<Fact>& all() const { return facts_; }
  /// Returns the value of a fact at a rank; nullopt if unknown.
  std::optional<std::string> value(const std::string& fact, int rank) const;

  /// Returns facts that are equal on these ranks and different on most others: "; vbios 96.00.B9, unlike most others
  /// with 96.00.A5". Empty if there are none.
  std::string hint(const std::vector<int>& ranks) const;

 private:
  std::vector<Fact> facts_;
};

/// The populations that the columns of a table show: each side has at least 4 GPUs on at least 2 hosts, and their
/// medians are at least 0.5 % apart. At most one per family:
/// - by a fact: each GPU with one value is slower than the median of the others, and the rank test proves the
///   difference as clearly as for 4 GPUs on each side without an exception. Up to a fifth of the others may be as slow
///   as the median with that value, or more than 2.5 % slower than their own median. The latter are suspects of
///   their own. One host alone may have that value, if the medians are at most 2.5 % apart;
/// - without a fact: a gap divides them that is wider than either side, without the slowest tenth of the slower side.
///   Each side has at least a tenth of the GPUs. GPUs that are more than 2.5 % slower than the faster side are of
///   neither, and are compared with the faster side. Classes in which a GPU 2.5 % slower does not stand out are left
///   out.
std::vector<Population> find_populations(const UnitTable&, const DividingFacts&);

/// Returns one finding for each population in which several hosts are slower. Such a finding does not fail. If a GPU
/// misses a limit, its rule fails.
std::vector<Finding> findings_of(const std::vector<Population>&);

}  // namespace shakedown
