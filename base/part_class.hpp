// The classes of time of a training step.
#pragma once

#include "base/names.hpp"

namespace shakedown {

/// Classes of the parts of a training step. `loss` is the cross entropy, `update` is AdamW with the norms and checksums
/// of gradients, and `communication` is the time in which the compute stream waits for other ranks. A class has a
/// metric of its name in milliseconds: `gemm_ms`.
enum class PartClass { gemm, attention, pointwise, loss, update, communication };
constexpr auto words(PartClass) { return names("gemm", "attention", "pointwise", "loss", "update", "communication"); }

/// What times the parts of a profiled step. `events` are recorded between parts, so a part includes the pauses after
/// its kernels. CUPTI records the begin and the end of each kernel.
enum class ProfileSource { events, cupti };
constexpr auto words(ProfileSource) { return names("events", "CUPTI"); }

/// The name of the text by rank that says what timed the parts.
inline constexpr const char* profile_source_fact = "profile_source";

}  // namespace shakedown
