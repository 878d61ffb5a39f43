#include "launch/top.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>

#include "base/archive.hpp"
#include "base/console.hpp"
#include "base/environment.hpp"
#include "base/exit_code.hpp"
#include "base/files.hpp"
#include "base/flags.hpp"
#include "base/host_activity.hpp"
#include "base/host_list.hpp"
#include "base/host_name.hpp"
#include "base/socket.hpp"
#include "base/time_limits.hpp"
#include "launch/host_stream.hpp"
#include "launch/job.hpp"
#include "launch/live_screen.hpp"
#include "report/arguments.hpp"
#include "report/live_view.hpp"

namespace shakedown {
namespace {

using Clock = std::chrono::steady_clock;
using Streams = std::vector<std::unique_ptr<HostStream>>;

struct TopOptions {
  std::vector<std::string> hosts;  // empty: this host
  ReadingPlan plan;
  bool json = false;
};

TopOptions parse_top_options(const std::vector<std::string>& words) {
  const auto given = parse_flags(all_flags(), "top", words);
  TopOptions options;
  std::string hosts;
  double interval = 1;
  given("--hosts", hosts)("--interval", interval)("--once", options.plan.once)("--json", options.json);
  options.plan.interval = Seconds(interval);
  if (!hosts.empty()) options.hosts = expand_hosts(hosts, "--hosts: ");
  for (const auto& host : options.hosts) {
    if (!is_host_name(host)) throw InputError("--hosts: \"" + host + "\" is not a host; write node[1-4],node7");
  }
  if (!options.json && !is_screen(STDOUT_FILENO)) options.plan.once = true;
  return options;
}

Streams start_streams(const TopOptions& options) {
  const auto here = host_name(process_environment());
  Streams streams;
  if (options.hosts.empty()) streams.push_back(HostStream::of_this_host(here, options.plan));
  allow_descriptors(2 * options.hosts.size());
  for (const auto& host : options.hosts) {
    streams.push_back(same_host(host, here) ? HostStream::of_this_host(host, options.plan)
                                            : HostStream::over_ssh(host, options.plan));
  }
  return streams;
}

bool is_any_waiting(const Streams& streams) {
  return std::any_of(streams.begin(), streams.end(), [](const auto& stream) { return stream->is_waiting(); });
}

Activity latest_of(const Streams& streams) {
  Activity activity;
  for (const auto& stream : streams) activity.hosts.push_back(stream->latest());
  return activity;
}

/// Waits until `until` for data of the streams, a signal or a key, and takes the data. `keys` is the descriptor of the
/// keys, or -1.
void take_until(const Streams& streams, const Signals& signals, int keys, Clock::time_point until) {
  std::vector<pollfd> files{{signals.descriptor(), POLLIN, 0}, {keys, POLLIN, 0}};
  for (const auto& stream : streams) stream->add_to(files);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  const auto wait_ms = std::clamp<std::int64_t>(left.count(), 0, 1000);
  poll(files.data(), files.size(), static_cast<int>(wait_ms));
  for (const auto& stream : streams) stream->take();
}

/// Prints a document in one line. False if the reader of the output is gone.
bool print_json(const Activity& activity) {
  std::puts(json_text(activity, -1).c_str());
  return std::fflush(stdout) == 0;
}

/// Calls `draw` after each interval until it returns false, a signal arrives, or the user ends the screen, if there is
/// one.
void follow(const Streams& streams, Signals& signals, const ReadingPlan& plan, LiveScreen* screen,
            const std::function<bool()>& draw) {
  const auto interval = std::chrono::duration_cast<Clock::duration>(plan.interval);
  const auto for_first_reading = std::min<Clock::duration>(interval, std::chrono::milliseconds(200));
  for (auto next = Clock::now() + for_first_reading;;) {
    if (Clock::now() >= next) {
      if (!draw()) return;
      next = std::max(next + interval, Clock::now());
    }
    take_until(streams, signals, screen == nullptr ? -1 : screen->keys(), next);
    if (signals.taken() || (screen != nullptr && screen->is_ended())) return;
  }
}

int show_once(const Streams& streams, Signals& signals, bool json) {
  while (is_any_waiting(streams)) {
    take_until(streams, signals, -1, Clock::now() + std::chrono::milliseconds(100));
    if (signals.taken()) return exit_incomplete;
  }
  const auto activity = latest_of(streams);
  if (json) {
    print_json(activity);
  } else {
    const TerminalStyle style{shows_color(STDOUT_FILENO), columns_of(STDOUT_FILENO).value_or(120)};
    std::fputs(live_text(activity, style).c_str(), stdout);
  }
  const bool is_complete =
      std::none_of(activity.hosts.begin(), activity.hosts.end(), [](const auto& host) { return host.problem; });
  return is_complete ? 0 : exit_incomplete;
}

}  // namespace

int top(const std::vector<std::string>& words) {
  const auto options = parse_top_options(words);
  Signals signals;
  const auto streams = start_streams(options);
  if (options.plan.once) return show_once(streams, signals, options.json);
  if (options.json) {
    const auto print = [&] { return is_any_waiting(streams) || print_json(latest_of(streams)); };
    follow(streams, signals, options.plan, nullptr, print);
    return 0;
  }
  LiveScreen screen;
  const auto draw = [&] {
    const auto width = std::max<std::size_t>(40, columns_of(STDOUT_FILENO).value_or(80));
    screen.draw(live_text(latest_of(streams), {shows_color(STDOUT_FILENO), width - 1}));
    return true;
  };
  follow(streams, signals, options.plan, &screen, draw);
  return 0;
}

}  // namespace shakedown
