// The noise of a healthy fleet: how far the figures of good GPUs are apart, and by which laws. A description is a YAML
// file of noise/; every number of it says where it comes from. Nothing here knows the judge.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shakedown::fleet {

/// Kinds of figures, each with its own noise. clock: the SM clock that a GPU reaches at its power cap; gemm: work per
/// clock; message: collectives below 1 MiB, whose time is the host's; graph: the same, replayed from a graph.
enum class Kind { clock, gemm, hbm, memtest, copy, latency, pcie, pcie_shared, collective, message, graph, compute };
inline constexpr std::array<std::string_view, 12> kind_names{"clock",      "gemm",    "hbm",   "memtest",
                                                             "copy",       "latency", "pcie",  "pcie_shared",
                                                             "collective", "message", "graph", "compute"};
template <class T>
using ByKind = std::array<T, kind_names.size()>;

/// Columns by rank of a stored result that name the few ranks that they have become lists of all.
template <class Json>
void fill_in(Json& document) {
  const std::size_t ranks = document["context"]["shakedown"]["ranks"].size();
  for (auto& row : document["benchmarks"]) {
    for (const char* name : {"by_rank", "text_by_rank", "throttle", "errors"}) {
      if (!row.contains(name)) continue;
      for (auto& [column, values] : row[name].items()) {
        if (!values.is_object()) continue;
        Json all(ranks, nullptr);
        for (auto& [rank, value] : values.items()) all.at(std::stoul(rank)) = value;
        values = std::move(all);
      }
    }
  }
}

/// Standard deviations, relative: of one row between launches, common to all ranks; between GPUs, in every launch; of
/// one rank's value in one row.
struct Spread {
  double launch = 0, chip = 0, row = 0;
};

/// GPUs that share something, and with it a factor: a part of the racks, of the lots, of the second sockets.
struct Group {
  std::string of;  // rack | host | lot | second_socket
  double part = 1;
  Kind kind = Kind::clock;
  double factor = 1;
};

struct Noise {
  ByKind<Spread> spread{};
  ByKind<double> drift{};                     // from the first rank to the last, relative
  Spread tails{};                             // degrees of freedom of Student's t for each; 0: normal
  double hiccup_odds = 0, hiccup_slower = 0;  // one value of so many is so much slower; clocks have none
  std::vector<Group> groups;
  double other_algorithm = 0;  // part of the GEMM rows in which this launch chose an algorithm of other power
  double resample = 0;         // > 0: row noise is drawn from stored residuals and scaled so, spread.row is not used
  bool telemetry = true;
};

/// Errors: std::runtime_error with file and line for unknown keys and values that cannot be.
Noise read_noise(const std::filesystem::path&);

/// What is left of the values by rank of stored launches after the median of the row and the mean of the GPU over all
/// rows of a kind are taken away, as logarithms; good is positive.
using Residuals = ByKind<std::vector<double>>;
Residuals stored_residuals(const std::filesystem::path& folder);

/// The kind of a benchmark's headline figure.
Kind kind_of(std::string_view key);

/// Random numbers that depend on where they are used and on nothing else: a planted fault, a further row or another
/// order changes no other number.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  Dice at(std::uint64_t) const;
  Dice at(std::string_view) const;
  double uniform() const;  // 0 < u < 1
  double normal() const;
  /// Student's t whose middle half is as wide as a normal's; 0 degrees of freedom: normal.
  double student(double degrees) const;

 private:
  std::uint64_t state_;
};

}  // namespace shakedown::fleet
