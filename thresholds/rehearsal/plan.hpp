// Which rows the quick tier of CUDA has (bench/), and what each takes on a typical H200.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thresholds/rehearsal/machine.hpp"

namespace shakedown::rehearsal {

/// How a row comes about.
enum class Form {
  products,
  streams,
  memory_test,
  copies,
  peer_loads,
  pcie,
  collective,
  step,
  quanta,
  launches,
  pairs,
  waived,
  facts
};

enum class Direction { both, out, in };
constexpr auto words(Direction) { return names("both", "out", "in"); }

struct Planned {
  std::string key;
  Form form = Form::waived;
  Kind kind = Kind::gemm;
  double seconds = 0;  // of one operation; of a collective, of what four GPUs of one host take
  double mhz = 1980;   // typical clock while it runs; below the highest it is the power limit's
  double cv = 0.003;   // of the samples
  double watts = 0;    // 0: bursts, which have no power
  bool bursts = false;
  double least_clocks = 0;                                 // of a product, with all its units busy in each clock
  std::string reason = {};                                 // of a waiver
  std::optional<int> shift = {}, source = {}, alone = {};  // local ranks
  double bytes = 0;                                        // of a collective or copy
  bool in_host = false;                                    // scope:node
  std::vector<int> partners = {};                          // of pairs, by host; -1: none
  std::vector<bool> shown = {};                            // whose figures are there, by host
  bool sums = false;                                       // AllReduce of two hosts
  Direction direction = Direction::both;
};

struct PlannedFamily {
  std::string name;
  std::vector<Planned> rows;
};

inline constexpr double highest_mhz = 1980;

/// In the order of bench_all.
std::vector<PlannedFamily> quick_plan(const Shape&);

/// A pair of local ranks alone: after its copy was low in a shift.
Planned copy_alone(bool read, bool by_kernel, int source, int destination);

/// busbw over algbw of n ranks, as nccl-tests defines it.
double bus_factor(const std::string& key, int ranks);

}  // namespace shakedown::rehearsal
