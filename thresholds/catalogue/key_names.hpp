// Readable names of measurements. Programs use the key.
#pragma once

#include <string>

#include "base/key.hpp"

namespace shakedown {

/// Returns "HBM read by kernel, 4 GiB" for "hbm/op:read/engine:sm/bytes:4294967296". An unknown part appears as its
/// name and value. A key without parts returns the name of the family.
std::string readable(const Key&);

/// Returns the name of a measurement; empty if the finding is about the machine.
std::string name_text(const Key&);

/// Returns "HBM read by kernel, 4 GiB (hbm_gb_per_s)". For a finding about the machine, returns the key and the metric.
std::string named_text(const Key&, const std::string& metric);

}  // namespace shakedown
