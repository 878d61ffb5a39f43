// Readable names of measurements. Programs use the key.
#pragma once

#include <string>

#include "base/key.hpp"

namespace shakedown {

/// Returns "HBM read by kernel, 4 GiB" for "hbm/op:read/engine:sm/bytes:4294967296". Unknown parts appear as name and
/// value. A family without parts is its own name.
std::string readable(const Key&);

/// Returns the name of a measurement; empty for a finding about the machine.
std::string name_text(const Key&);

/// Returns "HBM read by kernel, 4 GiB (hbm_gb_per_s)"; the key and the metric of a finding about the machine.
std::string named_text(const Key&, const std::string& metric);

}  // namespace shakedown
