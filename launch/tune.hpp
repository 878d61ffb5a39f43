// `shakedown tune`: compares settings of NCCL with its defaults, and prices those that the environment has.
//
// Each value is from a launch of its own: the ranks are started with a setting, measure AllReduce in each size, and
// end. The launches of all settings and of the defaults alternate (A B C A, A C B A; thresholds/history/tuning.hpp), so
// that a drift affects all alike. NCCL reads most variables once per process (NCCL_PARAM in its param.h keeps the
// value), so communicators of one process cannot compare NCCL_BUFFSIZE, NCCL_NTHREADS or NCCL_P2P_DISABLE. Only what
// ncclConfig_t has (2.28: minCTAs, maxCTAs, cgaClusterSize, netName, trafficClass, nvlsCTAs, nChannelsPerNetPeer) can
// differ between them. One method for all settings also measures them as a job would use them, and includes the noise
// from launch to launch, which turns inside a process do not show.
#pragma once

#include <string>
#include <vector>

namespace shakedown {

/// Measures, prints the changes by size, and writes tune.json and nccl.conf into the folder of the run. Returns the
/// exit code (Tuning::exit_code). A setting that the library refuses, or with which the ranks crash or hang, is not
/// available. Errors: InputError; CannotRun if the defaults cannot be measured, and after a signal.
int tune(const std::vector<std::string>& words);

}  // namespace shakedown
