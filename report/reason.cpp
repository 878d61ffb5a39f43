#include "report/reason.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <vector>

#include "base/text.hpp"
#include "report/words.hpp"

namespace shakedown {
namespace {

constexpr int descriptor = 3;

// Returns the scope of a pass, such as "gemm, hbm judged by h200-sxm on 4 ranks".
std::string judged_text(const Verdict& verdict) {
  std::vector<std::string> families;
  for (const Finding& finding : verdict.findings) {
    const std::string family = family_of(finding.key);
    const bool counted = finding.status == Status::pass && finding.counts() && family != "machine";
    if (counted && std::find(families.begin(), families.end(), family) == families.end()) families.push_back(family);
  }
  return (families.empty() ? "nothing but the machine" : joined(families)) + " judged by " + verdict.profile + " on " +
         plural(verdict.ranks, "rank") + (verdict.hosts > 1 ? " of " + plural(verdict.hosts, "host") : "");
}

}  // namespace

std::string reason_line(const Verdict& verdict) {
  std::string line =
      std::string(name(verdict.state)) + " " + std::to_string(verdict.passed) + "/" + std::to_string(verdict.total);
  const Finding* worst = nullptr;
  std::size_t bad = 0;
  for (const Status status :
       {Status::fail, Status::invalid, Status::missing, Status::no_reference, Status::inconclusive}) {
    for (const Finding& finding : verdict.findings) {
      if (finding.status != status || !finding.counts()) continue;
      if (worst == nullptr) worst = &finding;
      ++bad;
    }
  }
  if (worst != nullptr) {
    line += ": " + joined_words(worst->key, worst->metric);
    if (worst->status != Status::fail) line += " " + std::string(name(worst->status));
    if (worst->value) line += " " + value_text(*worst);
    if (worst->limit) line += ", limit " + limit_text(*worst);
    if (!worst->detail.empty()) line += ", " + worst->detail;
    if (worst->worst) line += ", " + text(*worst->worst);
    if (bad > 1) line += " (and " + std::to_string(bad - 1) + " more)";
  } else if (is_good(verdict.state)) {
    line += ": " + judged_text(verdict) + (verdict.is_partial() ? ", " + asked_text(verdict) : "");
  } else if (!verdict.notes.empty()) {
    line += ": " + verdict.notes.front();
  }
  return one_line(line);
}

std::string error_line(const std::string& why) { return one_line("error: " + why); }

ReasonChannel::ReasonChannel() {
  // A descriptor that is open for reading only has another purpose, such as the job server of GNU make.
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
  if (channel != nullptr) channel->give(refused ? line : reason_line(none));
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
