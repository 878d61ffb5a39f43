// A verdict for other programs: verdict.json, schema 1.
#pragma once

#include <filesystem>
#include <string>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns strict JSON. `"verdict": "pass"` (fail, inconclusive, no reference, incomplete, host-only) is on one line,
/// for grep.
std::string verdict_json(const Verdict&);

/// Reads a file that verdict_json wrote. Errors: InputError with the file and the field. Also rejects a file whose
/// findings, values and culprits give another verdict, or that was changed after it was written.
Verdict read_verdict(const std::filesystem::path& file);

/// Reads a verdict, and adds a note if the result files next to it are the judged ones. Errors: as above, and
/// InputError for a result file with another hash.
Verdict read_stored_verdict(const std::filesystem::path& file);

}  // namespace shakedown
