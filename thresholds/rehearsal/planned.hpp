// A row of a simulated run, and how it is simulated.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/names.hpp"
#include "thresholds/rehearsal/noise.hpp"

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
  double min_clocks = 0;
  double min_seconds = 0;                                  // for a copy between GPUs: its time at the rate of the link
  std::string reason = {};                                 // if the row is waived: the reason
  std::optional<int> shift = {}, source = {}, alone = {};  // local ranks
  double bytes = 0;                                        // bytes of a collective or copy
  bool in_host = false;                                    // true for rows with scope:node
  std::vector<int> partners = {};                          // for pairs, by host: its partner; -1: none
  std::vector<bool> shown = {};                            // by host: true if the row has its values
  bool sums = false;                                       // true for an AllReduce of two hosts
  Direction direction = Direction::both;
};

}  // namespace shakedown::rehearsal
