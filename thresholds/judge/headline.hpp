// The verdict in one sentence: the part at fault, the fault, its size, and the next command. All outputs show it. The
// functions are pure.
#pragma once

#include <cstddef>
#include <string>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// A fault, as text.
struct FaultSummary {
  std::string where;  // "node17 GPU 2 (rank 2, serial 1654, 0000:00:08.0)"; empty if no single part is at fault
  std::string what;   // "slow GPU, 12.0 % off in 19 measurements: HBM is slow, ..."
  std::string next;   // the next command; empty if there is none
};

/// Which identifiers of a part are shown. few: enough to find it. all: launchers know the rank, tools of the driver
/// know the UUID, and the repair desk needs the serial number.
enum class Identifiers { few, all };

/// Returns "node17 GPU 2 (rank 2, serial 1654, 0000:00:08.0)", or with all identifiers "rank 2, node17 GPU 2, GPU-4f2a,
/// serial 1654, 0000:00:08.0".
std::string place_text(const Culprit&, Identifiers = Identifiers::few);

FaultSummary summary_of(const Diagnosis&);
FaultSummary summary_of(const Finding&);

/// Returns place and fault: "node17 GPU 2 (...): slow GPU, ...".
std::string text(const FaultSummary&);

struct Headline {
  State state = State::incomplete;
  FaultSummary fault;    // if the verdict is good: what was judged
  std::size_t more = 0;  // number of other faults in the verdict
};

/// Returns the fault that explains most. Wrong data has priority, then hardware errors and missing parts, then slow
/// parts, then the first bad finding.
Headline headline_of(const Verdict&);

/// Returns one line without the next command: "FAIL node17 GPU 2 (...): slow GPU, ...; 2 more faults".
std::string text(const Headline&);

/// Returns one line with the next command: "FAIL node17 ...; 2 more faults. Next: ssh node17 nvidia-smi -q -i 2".
std::string text_and_next(const Headline&);

}  // namespace shakedown
