// All time limits for operations that may hang, in one table.
#pragma once

#include <chrono>

namespace shakedown {

using Seconds = std::chrono::duration<double>;

struct TimeLimits {
  Seconds file{20};          // one call on a file; fsync on a busy disk can take seconds
  Seconds driver{30};        // one NVML call; without persistence mode, nvmlInit starts each GPU
  Seconds apart{90};         // all work of one child process
  Seconds name_service{20};  // lookup of users and host names, by LDAP or DNS
  Seconds supervisor{15};    // from its start to its first message, and from the end of its job to its own end
  Seconds inventory{60};     // the program that reads the facts of a host
  Seconds judging{300};      // a judgement; 10,000 GPUs take 20 s
  Seconds no_progress{330};  // the time in which a process makes no call and no check of a job
  Seconds after_signal{25};  // from a signal to the verdict; Slurm sends SIGKILL 30 s after SIGTERM (KillWait)
  /// From SIGKILL to the end of a process; it takes longer only if the process is blocked in the kernel.
  Seconds to_die{2};
  // Until the view of a live host reports that its driver, or the host itself, does not answer; plus its interval.
  Seconds driver_of_view{4}, host_of_view{5};
  Seconds last_words{5};  // to print the answer and to replace old reports
};

/// Returns the table. SHAKEDOWN_LIMITS_SCALE multiplies all limits; tests use it, for example with 0.1.
const TimeLimits& time_limits();

}  // namespace shakedown
