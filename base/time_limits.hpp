// How long the program waits for what may never answer: one table.
#pragma once

#include <chrono>

namespace shakedown {

using Seconds = std::chrono::duration<double>;

struct TimeLimits {
  Seconds file{20};          // one call on a file: a busy disk may need some seconds to sync
  Seconds driver{30};        // one call of NVML: without persistence mode, nvmlInit starts each GPU
  Seconds apart{90};         // all that a child process is asked for
  Seconds name_service{20};  // users and host names, by LDAP or DNS
  Seconds supervisor{15};    // from the start of a supervisor to its first word, and from its job's end to its own
  Seconds inventory{60};     // the program that reads the facts of a host
  Seconds judging{300};      // 10,000 GPUs take 20 s
  Seconds no_progress{330};  // without any call, and without a look at a job
  Seconds after_signal{25};  // from a signal to the verdict; Slurm sends SIGKILL 30 s after SIGTERM (KillWait)
  Seconds to_die{2};         // after SIGKILL; longer only in the kernel
  Seconds last_words{5};     // to print the answer and to replace old reports
};

/// Returns the table. SHAKEDOWN_LIMITS_SCALE=0.1 multiplies all of it, for tests.
const TimeLimits& time_limits();

}  // namespace shakedown
