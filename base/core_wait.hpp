// The time for which a thread waited for a core.
#pragma once

#include <optional>

namespace shakedown {

/// Returns the seconds that this thread has been ready to run while another thread had its core (Linux,
/// Documentation/scheduler/sched-stats.rst). nullopt if the kernel does not report it.
std::optional<double> seconds_waited_for_core();

}  // namespace shakedown
