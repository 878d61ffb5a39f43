// A verdict for other programs: verdict.json, schema 1.
#pragma once

#include <filesystem>
#include <string>

#include "thresholds/judge/verdict.hpp"

namespace shakedown {

/// Returns strict JSON. `"verdict": "pass"` (or fail, inconclusive, no reference, incomplete, host-only) has a line of
/// its own, so that grep finds it.
std::string verdict_json(const Verdict&);

/// Reads a file that verdict_json wrote. Errors: InputError with the file and the field. The function also rejects a
/// file that was changed after it was written, or whose findings, values and culprits lead to another verdict than the
/// stored one.
Verdict read_verdict(const std::filesystem::path& file);

/// Reads the text that verdict_json returned. `name` stands for a file in errors. Errors: those of read_verdict.
Verdict verdict_of_text(const std::string& text, const std::string& name);

/// Reads a verdict. Adds a note if the result files next to it are those that were judged. Errors: those of
/// read_verdict, and InputError for a result file with another hash.
Verdict read_stored_verdict(const std::filesystem::path& file);

}  // namespace shakedown
