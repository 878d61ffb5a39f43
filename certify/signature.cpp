#include "certify/signature.hpp"

#include <algorithm>
#include <chrono>

#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "certify/tarball.hpp"

namespace shakedown {
namespace {

constexpr std::chrono::seconds keygen_limit{30};
constexpr const char* name_space = "shakedown";

/// Runs ssh-keygen with a file as standard input, and without a terminal on which it would ask for a passphrase.
CommandOutput keygen(std::vector<std::string> words, const std::string& input) {
  std::vector<std::string> command{
      "sh", "-c", R"(in=$1; shift; exec env SSH_ASKPASS_REQUIRE=never setsid -w ssh-keygen -Y "$@" <"$in")", "sh",
      input};
  command.insert(command.end(), words.begin(), words.end());
  auto output = output_of(command, keygen_limit);
  if (output.started && !output.timed_out && output.code != 127) return output;
  throw CannotRead(
      output.timed_out
          ? "ssh-keygen: does not answer within 30 s; if ssh-agent waits for you, confirm the key, and try again"
          : "ssh-keygen or setsid is missing; install openssh-client and util-linux");
}

/// Returns the output as one line.
std::string said(CommandOutput output) {
  std::erase(output.text, '\r');
  auto lines = split(output.text, '\n');
  std::erase_if(lines, [](const std::string& line) { return line.starts_with('@'); });  // the frame of a warning
  return one_line(joined(lines, "; "));
}

}  // namespace

void sign(const std::filesystem::path& file, const std::filesystem::path& key) {
  const auto done = keygen({"sign", "-f", key, "-n", name_space, file}, "/dev/null");
  if (done.code == 0) return;
  throw InputError("--key: " + key.string() + ": cannot sign: " + said(done) +
                   "; name a key without a passphrase, or the public key of a key in ssh-agent");
}

std::string signer_of(const std::filesystem::path& file, const std::filesystem::path& signature,
                      const std::filesystem::path& allowed) {
  const auto name = signature.filename().string();
  const auto good = keygen({"check-novalidate", "-n", name_space, "-s", signature}, file);
  if (good.code != 0) throw Refused(name + ": is not a signature of " + file.filename().string() + ": " + said(good));
  // ssh-keygen prints: Good "shakedown" signature with ED25519 key SHA256:...
  const std::string line = said(good), with = " with ";
  const auto key = line.substr(std::min(line.size(), line.find(with) + with.size()));
  const auto refuse = [&](const CommandOutput& why) {
    throw Refused(name + ": is by " + key + ", which " + allowed.filename().string() + " does not allow: " + said(why));
  };
  const auto found = keygen({"find-principals", "-s", signature, "-f", allowed}, "/dev/null");
  if (found.code != 0) refuse(found);
  const auto principal = found.text.substr(0, found.text.find_first_of("\r\n"));
  const auto checked = keygen({"verify", "-n", name_space, "-I", principal, "-s", signature, "-f", allowed}, file);
  if (checked.code != 0) refuse(checked);
  return one_line(principal) + with + key;
}

}  // namespace shakedown
