// The functions that rows of the catalogue refer to: physical ceilings, and the work of one operation. Only metrics.cpp
// uses them. They are pure.
#pragma once

#include <optional>

#include "base/key.hpp"
#include "thresholds/catalogue/scale.hpp"

namespace shakedown {

using Bound = std::optional<double>;

/// Ceilings of a metric: what the peaks of a machine and the state of a GPU allow.
namespace ceilings {
Bound tflops_of_type(const Peaks&, const Key&, const Scale&);
Bound tflops_per_clock(const Peaks&, const Key&, const Scale&);
Bound hbm(const Peaks&, const Key&, const Scale&);
Bound hbm_copy(const Peaks&, const Key&, const Scale&);
Bound link_copy(const Peaks&, const Key&, const Scale&);
Bound host_copy(const Peaks&, const Key&, const Scale&);
Bound allreduce_busbw(const Peaks&, const Key&, const Scale&);
Bound allreduce_algbw(const Peaks&, const Key&, const Scale&);
Bound collective_busbw(const Peaks&, const Key&, const Scale&);
Bound collective_algbw(const Peaks&, const Key&, const Scale&);
Bound pair_busbw(const Peaks&, const Key&, const Scale&);
Bound model_tflops(const Peaks&, const Key&, const Scale&);
Bound model_tokens(const Peaks&, const Key&, const Scale&);
Bound one(const Peaks&, const Key&, const Scale&);
Bound memory(const Peaks&, const Key&, const Scale&);
Bound clock(const Peaks&, const Key&, const Scale&);
Bound power(const Peaks&, const Key&, const Scale&);
Bound heat(const Peaks&, const Key&, const Scale&);
}  // namespace ceilings

/// The work of one operation in the unit of a rate, and the seconds of one unit of a time.
namespace work {
Bound tera_flops(const Key&, const Scale&);
Bound giga_bytes(const Key&, const Scale&);
Bound giga_bytes_copied(const Key&, const Scale&);
Bound giga_bytes_on_bus(const Key&, const Scale&);
Bound bytes(const Key&, const Scale&);
Bound flops(const Key&, const Scale&);
Bound tokens(const Key&, const Scale&);
Bound tokens_of_all(const Key&, const Scale&);
Bound walk(const Key&, const Scale&);
Bound walk_in_ns(const Key&, const Scale&);
Bound quanta(const Key&, const Scale&);
Bound microsecond(const Key&, const Scale&);
Bound millisecond(const Key&, const Scale&);
Bound second(const Key&, const Scale&);

/// Returns the ranks of one operation; for scope:node those of a host.
Scale of_group(const Key&, Scale);
}  // namespace work

/// Returns nullopt for 0, which means unknown.
inline Bound known(double value) { return value > 0 ? Bound(value) : std::nullopt; }

inline Bound times(Bound value, double factor) { return value ? Bound(*value * factor) : std::nullopt; }

}  // namespace shakedown
