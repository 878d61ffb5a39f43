#include "base/launcher_secret.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"

namespace shakedown {
namespace {

/// Reads the secret from a file. Errors: InputError, which never contains a part of the secret.
std::string secret_in(const std::string& file) {
  constexpr std::size_t max_bytes = 4096;
  const auto refuse = [&file](const std::string& why) {
    throw InputError("SHAKEDOWN_SECRET_FILE=" + one_line(file) + ": " + why);
  };
  const TimedCall call("read", file);
  const Descriptor descriptor(open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat facts {};
  if (!descriptor.is_open() || fstat(descriptor.get(), &facts) != 0)
    refuse("cannot be opened; name a file of this user");
  if (!S_ISREG(facts.st_mode) || facts.st_uid != geteuid() || (facts.st_mode & 077) != 0) {
    refuse("is not a file that only this user may read; run 'chown' and 'chmod 600' on it");
  }
  std::string text(max_bytes, '\0');
  const auto count = read(descriptor.get(), text.data(), text.size());
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

}  // namespace

std::optional<std::string> launcher_secret(const Environment& environment) {
  constexpr std::size_t min_characters = 16;
  auto secret = environment("SHAKEDOWN_SECRET").value_or("");
  const auto file = environment("SHAKEDOWN_SECRET_FILE").value_or("");
  if (secret.empty() && file.empty()) return std::nullopt;
  if (secret.empty()) secret = secret_in(file);
  if (secret.size() >= min_characters) return secret;
  throw InputError("the secret of SHAKEDOWN_SECRET or SHAKEDOWN_SECRET_FILE has " + plural(secret.size(), "character") +
                   ": at least 16 are needed; make one with 'openssl rand -hex 32'");
}

}  // namespace shakedown
