// The rows of the quick tier of CUDA (bench/), and the time of each on a typical H200.
#pragma once

#include <string>
#include <vector>

#include "thresholds/rehearsal/planned.hpp"
#include "thresholds/rehearsal/shape.hpp"

namespace shakedown::rehearsal {

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
