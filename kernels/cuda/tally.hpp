// What a checking kernel counts, in device memory and on the host.
#pragma once

namespace shakedown::cuda {

inline constexpr unsigned long long no_index = ~0ULL;

struct Tally {
  unsigned long long compared = 0;
  unsigned long long mismatched = 0;
  unsigned long long first = no_index;  // lowest index that was wrong
  unsigned worst = 0;                   // bits of the float: largest error as a part of its tolerance
  double got = 0, want = 0;             // at the index that the kernel was told to report
};

}  // namespace shakedown::cuda
