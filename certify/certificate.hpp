// Certificates: an archive of a run with results, rules, site and verdict, signed with a key of SSH. Another machine
// judges the results again and compares the verdicts.
#pragma once

#include <string>

#include "report/arguments.hpp"

namespace shakedown {

/// The files in the folder of a certificate. SHA256SUMS lists all other files except its signature.
namespace certificate {
inline constexpr const char *sums = "SHA256SUMS", *signature = "SHA256SUMS.sig", *about = "certificate.json",
                            *verdict = "verdict.json", *site = "site.yaml", *thresholds = "thresholds",
                            *results = "results";

/// Judges the unpacked certificate in the working folder, so that no path of this machine is in the verdict. `own` are
/// profiles of this machine to use instead; empty: those of the certificate. Errors: InputError, also for a virtual
/// run.
Judged judge_here(const std::filesystem::path& own = {});
}  // namespace certificate

/// The member certificate.json.
struct AboutCertificate {
  std::string run, shakedown;  // id of the run, and the version that certified it
};
template <class Archive>
void members(Archive& archive, AboutCertificate& about) {
  archive.derived("schema", 1)("run", about.run)("shakedown", about.shakedown);
}

/// Judges the run in --results, and writes it with its rules and its verdict as a certificate that --key signs. Prints
/// the name of the file and the verdict. Returns the exit code: 0, whatever the verdict is. Errors: InputError.
int certify(const Arguments&, const std::string& version);

/// Checks the certificate that the operand names: signature (--signers), hashes, and the verdict, which it judges
/// again. Prints what it found. Returns the exit code: 0 if all is as certified and the rules of this machine lead to
/// the same state; 1 if the certificate is refused, for the reason in the last line. Errors: InputError.
int verify(const Arguments&, const std::string& version);

}  // namespace shakedown
