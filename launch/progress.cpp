#include "launch/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/console.hpp"
#include "base/key.hpp"
#include "base/text.hpp"
#include "report/words.hpp"

namespace shakedown {
namespace {

/// Returns the relative distance of a figure from its limit; nullopt if the figure has no limit.
std::optional<double> distance(const Finding& finding) {
  const auto compared = finding.compared();
  if (finding.judgement != Judgement::rule || !compared || compared->limit.value <= 0) return {};
  const LimitKind kind = compared->limit.kind;
  if (kind != LimitKind::min && kind != LimitKind::max) return {};
  return -compared->limit.shortfall(compared->value);
}

/// Returns the limit of a finding, or its detail if it has no limit.
std::string limit_or_detail(const Finding& finding) { return finding.limit ? limit_text(finding) : finding.detail; }

/// Returns the key of a finding. The key of a pre-flight finding has many facts, so the name of the fact is added.
std::string subject(const Finding& finding) {
  return family_of(finding.key) == "preflight" ? joined_words(finding.key, finding.metric) : finding.key;
}

/// Returns the figure with the most important words first, because a narrow window cuts off the rest.
std::string figure(const Finding& finding) {
  return one_line(fmt::format("{} ({})  {}", value_text(finding), limit_or_detail(finding), subject(finding)));
}

/// Returns the line cut to `width` columns. The line must be ASCII.
std::string cut(std::string line, std::size_t width) {
  if (line.size() <= width) return line;
  line.resize(width > 3 ? width - 3 : width);
  return width > 3 ? line + "..." : line;
}

}  // namespace

std::string short_text(const Finding& finding) {
  const auto where = finding.worst ? "  " + worst_text(finding) : "";
  return one_line(fmt::format("{}: {} {} ({}){}", name(finding.status), subject(finding), value_text(finding),
                              limit_or_detail(finding), where));
}

bool makes_fail(const Finding& finding, const std::string& family) {
  const bool fails = finding.status == Status::fail || finding.status == Status::invalid;
  return fails && finding.counts() && family_of(finding.key) == family;
}

Progress::Progress(const std::vector<std::string>& families) {
  for (const auto& family : families) rows_.emplace_back().family = family;
}

Progress::Row* Progress::row_of(std::string_view family) {
  const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.family == family; });
  return found == rows_.end() ? nullptr : &*found;
}

void Progress::heard(const Event& event, double now) {
  const bool is_row = event.kind == Event::Kind::row;
  Row* const row = is_row || event.kind == Event::Kind::plan ? row_of(family_of(event.key)) : nullptr;
  if (row == nullptr || row->ended) return;
  row->left = event.seconds;
  row->left_at = now;
  if (!is_row) return;
  if (!row->began) row->began = now;
  row->done = event.row;
  row->total = event.rows;
  row->doing = event.key;
}

void Progress::arrived(const std::string& family, const Verdict& verdict, double now) {
  Row* const row = row_of(family);
  if (row == nullptr) return;
  // A family that sends no row events is assumed to have begun when the previous one ended.
  if (!row->began) row->began = last_ended_;
  // A family arrives again if some of its rows were measured again at the end.
  if (!row->ended) row->ended = last_ended_ = now;
  row->failing.clear();
  const Finding* nearest = nullptr;
  for (const Finding& finding : verdict.findings) {
    if (family_of(finding.key) != family) continue;
    if (makes_fail(finding, family)) row->failing.push_back(figure(finding));
    const auto here = distance(finding);
    if (here && (nearest == nullptr || *here < *distance(*nearest))) nearest = &finding;
  }
  if (nearest != nullptr) row->nearest = figure(*nearest);
}

std::size_t Progress::arrived_count() const {
  return static_cast<std::size_t>(
      std::count_if(rows_.begin(), rows_.end(), [](const Row& row) { return row.ended.has_value(); }));
}

std::optional<double> Progress::left(const Row& row, double now) {
  if (row.ended || !row.left) return std::nullopt;
  return row.began ? std::max(0.0, *row.left - (now - row.left_at)) : *row.left;
}

std::string Progress::what(const Row& row, double now) const {
  const auto left = Progress::left(row, now);
  if (!row.began) return left ? fmt::format("about {:.0f} s", *left) : "";
  if (!row.failing.empty()) {
    const auto more = row.failing.size() - 1;
    return row.failing.front() + (more > 0 ? fmt::format(" and {} more", more) : "");
  }
  if (row.ended) return row.nearest;
  const auto about = left ? fmt::format(", about {:.0f} s left", *left) : "";
  return fmt::format("{}/{}{}  {}", row.done, row.total, about, row.doing);
}

std::string Progress::text(double now, std::size_t width, bool color) const {
  std::size_t longest = 0;
  for (const Row& row : rows_) longest = std::max(longest, row.family.size());
  std::string text;
  for (const Row& row : rows_) {
    const bool fails = !row.failing.empty();
    const auto* const state = fails ? "FAIL" : row.ended ? "ok" : row.began ? "..." : "";
    const auto seconds = row.began ? fmt::format("{:.0f} s", row.ended.value_or(now) - *row.began) : "";
    const auto line =
        cut(fmt::format("{:<4}  {:<{}}  {:>5}  {}", state, row.family, longest, seconds, what(row, now)), width);
    const auto* const tone = !color      ? ""
                             : fails     ? "\033[31m"
                             : row.ended ? "\033[32m"
                             : row.began ? "\033[1m"
                                         : "\033[2m";
    // Colours only the status, so that figures are readable on any background.
    const auto colored = std::min<std::size_t>(line.size(), row.began ? 4 : line.size());
    text += color ? tone + line.substr(0, colored) + "\033[0m" + line.substr(colored) : line;
    text += "\n";
  }
  double all_left = 0;
  bool known = true;
  for (const Row& row : rows_) {
    const auto left = Progress::left(row, now);
    known = known && (row.ended || left);
    all_left += left.value_or(0);
  }
  const auto about = known && arrived_count() < rows_.size() ? fmt::format(", about {:.0f} s left", all_left) : "";
  return text + cut(fmt::format("{} of {} families, {:.0f} s{}", arrived_count(), rows_.size(), now, about), width);
}

std::string Progress::line_of(const std::string& family) const {
  const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.family == family; });
  if (found == rows_.end() || !found->ended) return "";
  const auto detail = what(*found, *found->ended);
  return fmt::format("[{}/{}] {}: {}, {:.0f} s{}", arrived_count(), rows_.size(), family,
                     found->failing.empty() ? "ok" : "FAIL", *found->ended - *found->began,
                     detail.empty() ? "" : (found->failing.empty() ? "; closest to its limit: " : "; ") + detail);
}

Screen::Screen(const std::vector<std::string>& families)
    : progress_(families), in_place_(is_screen(STDERR_FILENO)), color_(shows_color(STDERR_FILENO)) {}

Screen::~Screen() {
  if (drawn_at_ == Clock::time_point()) return;  // nothing has been drawn yet
  clear();
  tick();
  std::fputc('\n', stderr);
}

void Screen::heard(const Event& event) { progress_.heard(event, now()); }

void Screen::arrived(const std::string& family, const Verdict& verdict) {
  progress_.arrived(family, verdict, now());
  if (!in_place_) std::fprintf(stderr, "%s\n", progress_.line_of(family).c_str());
}

void Screen::tick() {
  using namespace std::chrono_literals;
  if (!in_place_ || (drawn_lines_ > 0 && Clock::now() - drawn_at_ < 250ms)) return;
  // Draws with one write, so that output of other processes cannot split it. A line that fills the window would wrap on
  // some terminals.
  const auto text = progress_.text(now(), columns_of(STDERR_FILENO).value_or(80) - 1, color_);
  const auto up = drawn_lines_ > 1 ? fmt::format("\r\033[{}A\033[J", drawn_lines_ - 1) : std::string("\r\033[J");
  std::fprintf(stderr, "%s%s", up.c_str(), text.c_str());
  drawn_lines_ = static_cast<int>(std::count(text.begin(), text.end(), '\n')) + 1;
  drawn_at_ = Clock::now();
}

void Screen::warn_of_no_events(const std::string& why) {
  if (std::exchange(misses_events_, true)) return;
  clear();
  std::fprintf(
      stderr,
      "shakedown: no events of the ranks arrive%s: families are shown when they end, and messages of ranks are in "
      "the log\n",
      why.empty() ? "" : (" (" + why + ")").c_str());
}

void Screen::clear() {
  if (drawn_lines_ == 0) return;
  std::fprintf(stderr, drawn_lines_ > 1 ? "\r\033[%dA\033[J" : "\r\033[J", drawn_lines_ - 1);
  drawn_lines_ = 0;
}

}  // namespace shakedown
