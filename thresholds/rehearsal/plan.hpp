// The rows of the quick tier of CUDA (bench/), and the time of each on a typical H200.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thresholds/rehearsal/machine.hpp"

namespace shakedown::rehearsal {

/// How a row is simulated.
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
  double seconds = 0;  // seconds of one operation; for a collective, on four GPUs of one host
  double mhz = 1980;   // typical clock during the row; if it is below the maximum, the power limit sets it
  double cv = 0.003;   // cv of the samples
  double watts = 0;    // power during the row; 0: the row has bursts, in which power is not measured
  bool bursts = false;
  /// For a product: its number of clocks if all units are busy in each clock.
  double least_clocks = 0;
  std::string reason = {};                                 // if the row is waived: the reason
  std::optional<int> shift = {}, source = {}, alone = {};  // local ranks
  double bytes = 0;                                        // bytes of a collective or copy
  bool in_host = false;                                    // true for rows with scope:node
  std::vector<int> partners = {};                          // for pairs, by host: its partner; -1: none
  std::vector<bool> shown = {};                            // by host: true if the row has its values
  bool sums = false;                                       // true for an AllReduce of two hosts
  Direction direction = Direction::both;
};

struct PlannedFamily {
  std::string name;
  std::vector<Planned> rows;
};

/// Returns the families in the order of bench_all.
std::vector<PlannedFamily> quick_plan(const Shape&);

/// Returns the families and rows of a gate, in the order of bench_all.
std::vector<PlannedFamily> gate_plan(const Shape&);

/// Returns the row for a single pair of local ranks, which is measured alone because its copy was slow in a shift.
Planned copy_alone(bool read, bool by_kernel, int source, int destination);

/// Returns busbw divided by algbw for n ranks, as nccl-tests defines it.
double bus_factor(const std::string& key, int ranks);

}  // namespace shakedown::rehearsal
