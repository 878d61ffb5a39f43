// Signatures with keys of SSH, made and checked by ssh-keygen (PROTOCOL.sshsig of OpenSSH).
#pragma once

#include <filesystem>
#include <string>

namespace shakedown {

/// Signs a file for the namespace "shakedown", and writes the signature next to it (file.sig). The key may be the
/// public key of one that ssh-agent has. Errors: InputError if ssh-keygen cannot use the key.
void sign(const std::filesystem::path& file, const std::filesystem::path& key);

/// Returns who signed a file: "alice@example.com with ED25519 key SHA256:...". `allowed` is a file of allowed signers
/// (ssh-keygen(1)). Errors: Refused with the reason of ssh-keygen if the signature is not of this file, not for
/// this namespace, or not of a key that is allowed now; CannotRead if ssh-keygen does not answer.
std::string signer_of(const std::filesystem::path& file, const std::filesystem::path& signature,
                      const std::filesystem::path& allowed);

}  // namespace shakedown
