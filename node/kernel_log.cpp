#include "node/kernel_log.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <charconv>

#include <array>
#include <cerrno>
#include <regex>

#include "base/timed_call.hpp"

namespace shakedown {

namespace {

/// Reads all available data without blocking. /dev/kmsg returns one record per call and EPIPE for overwritten records;
/// at its end it would block until the next record.
std::optional<std::string> read_now(const std::filesystem::path& file) {
  const TimedCall call("read", file);
  const int descriptor = open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  std::string text;
  std::array<char, 16384> block{};
  constexpr std::size_t most = std::size_t{64} << 20;
  ssize_t size = 0;
  while (text.size() < most && ((size = read(descriptor, block.data(), block.size())) > 0 ||
                                (size < 0 && (errno == EPIPE || errno == EINTR)))) {
    if (size > 0) text.append(block.data(), static_cast<std::size_t>(size));
  }
  const bool failed = size < 0 && errno != EAGAIN;
  close(descriptor);
  return failed ? std::nullopt : std::optional(text);
}

}  // namespace

std::optional<std::vector<Xid>> read_xids(const std::filesystem::path& root) {
  std::optional<std::string> log;
  std::string name;
  for (const auto* file : {"dev/kmsg", "var/log/kern.log", "var/log/messages", "var/log/syslog"}) {
    log = read_now(root / file);
    name = file;
    if (log) break;
  }
  if (!log) return std::nullopt;
  static const std::regex form(R"(NVRM: Xid \(PCI:([0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F]+)\): ([0-9]+))");
  std::vector<Xid> found;
  for (std::sregex_iterator at(log->begin(), log->end(), form), end; at != end; ++at) {
    std::string address = (*at)[1];
    for (char& c : address) c = static_cast<char>(std::tolower(c));
    const std::string digits = (*at)[2];
    int number = 0;
    // Any user can write such a line to syslog, so the number may be invalid.
    if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec != std::errc()) continue;
    found.push_back({address + ".0", number, name == "dev/kmsg" ? "" : "/" + name});
  }
  return found;
}

}  // namespace shakedown
