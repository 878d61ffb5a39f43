// A verdict for programs: verdict.json, schema 1.
#pragma once

#include <filesystem>
#include <string>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Strict JSON; the line `"verdict": "pass"` (fail, inconclusive, no reference, incomplete, host-only) can be grepped.
std::string verdict_json(const Verdict&);

/// Reads what verdict_json wrote. Errors: InputError naming the file and the field, also where its own findings,
/// figures and culprits come to another verdict, or the file was changed after it was written.
Verdict read_verdict(const std::filesystem::path& file);

/// The same, with a note on whether the result files next to it are those that were judged. Errors: as above, and
/// InputError for a result file of another hash.
Verdict read_stored_verdict(const std::filesystem::path& file);

}  // namespace shakedown
