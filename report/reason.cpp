#include "report/reason.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "base/text.hpp"
#include "thresholds/judge/headline.hpp"

namespace shakedown {
namespace {

constexpr int descriptor = 3;

}  // namespace

std::string error_line(const std::string& why) { return one_line("error: " + why); }

ReasonChannel::ReasonChannel() {
  // If descriptor 3 is open for reading only, it has another purpose, such as the job server of GNU make.
  const int flags = ::fcntl(descriptor, F_GETFL);
  open_ = flags != -1 && (flags & O_ACCMODE) != O_RDONLY;
  if (open_) ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

void say_no_verdict(const Failure& failure, const char* program, const ReasonChannel* channel, std::FILE* verdict_to) {
  const bool refused = failure.code == exit_usage;
  const auto line = refused ? error_line(failure.text) : one_line(std::string(program) + ": " + failure.text);
  std::fprintf(stderr, "%s\n", line.c_str());
  Verdict none;
  none.notes.push_back(failure.text);
  if (channel != nullptr) channel->give(refused ? line : text(headline_of(none)));
  if (!refused && verdict_to != nullptr) std::fprintf(verdict_to, "%s\n", verdict_line(none).c_str());
}

void ReasonChannel::give(const std::string& line) const {
  if (!open_) return;
  const std::string text = line + "\n";
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  [[maybe_unused]] const auto written = ::write(descriptor, text.data(), text.size());
  std::signal(SIGPIPE, before);
}

}  // namespace shakedown
