// What a trail of outputs needs on the GPU: poison before a series, and after it the check that no operation is
// missing.
#pragma once

#include "kernels/cuda/gpu.hpp"
#include "kernels/trail.hpp"

namespace shakedown::cuda {

/// The output of the last operation. `whole` is the buffer of all places.
inline View last_output(const View& whole, const Trail& trail) { return whole.part(trail.last(), trail.bytes()); }

/// Stages so many operations and poisons what they will write; returns when that is done.
void stage_trail(const Gpu&, const View& whole, Trail&, int operations, int poison_byte);

/// Adds to the check how many operations of the series left their heads, bit by bit those of the last one.
void check_trail(const Gpu&, const View& whole, const Trail&, Check&);

}  // namespace shakedown::cuda
