#include "report/html/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.hpp"
#include "report/escape.hpp"
#include "report/fleet.hpp"
#include "report/html/page_text.hpp"
#include "report/words.hpp"

namespace shakedown {
namespace {

using Cells = std::vector<std::string>;

std::string text(const std::string& words) { return html_escaped(printable(words)); }

/// Returns the head of the static page with its style, but without its script.
std::string page(const std::string& tone, const std::string& headline, const std::string& body) {
  std::string head(page_text.substr(0, page_text.find("<noscript>")));
  const std::string_view place = "{{title}}";
  head.replace(head.find(place), place.size(), text(headline));
  return head + "<header class=\"" + tone + "\"><h1>" + text(headline) + "</h1></header>\n" + body +
         "</main></body></html>\n";
}

std::string row(const char* cell, const Cells& cells) {
  std::string out = "<tr>";
  for (const auto& words : cells) out += fmt::format("<{0}>{1}</{0}>", cell, text(words));
  return out + "</tr>\n";
}

std::string table(const std::string& title, const Cells& heads, const std::vector<Cells>& rows) {
  std::string out = "<section><h2>" + text(title) + "</h2><div class=\"wide\"><table><thead>" + row("th", heads) +
                    "</thead><tbody>\n";
  for (const auto& cells : rows) out += row("td", cells);
  return out + "</tbody></table></div></section>\n";
}

constexpr double width = 760, height = 120, edge = 20;

/// Returns the points of a course over its runs, scaled to the drawing.
std::string points_of(const Course& course) {
  const auto [low, high] = std::ranges::minmax(course.values, {}, &CourseValue::value);
  const double range = std::max(high.value - low.value, 1e-12);
  const double step = (width - 2 * edge) / static_cast<double>(std::max<std::size_t>(course.values.size() - 1, 1));
  std::string points;
  for (std::size_t i = 0; i < course.values.size(); ++i) {
    points += fmt::format("{:.1f},{:.1f} ", edge + static_cast<double>(i) * step,
                          height - edge - (course.values[i].value - low.value) / range * (height - 2 * edge));
  }
  return points;
}

std::string drawing(const Course& course) {
  const double step = (width - 2 * edge) / static_cast<double>(std::max<std::size_t>(course.values.size() - 1, 1));
  std::string marks;
  for (const ChangePoint& point : course.changes) {
    marks += fmt::format("<line class=\"mark\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"0\" y2=\"{1:.0f}\"/>",
                         edge + (static_cast<double>(point.at) - 0.5) * step, height);
  }
  std::string words;
  for (const ChangePoint& point : course.changes) {
    const CourseValue& value = course.values[point.at];
    words += fmt::format(
        "<p>{}</p>", text(fmt::format("{} since {} in {}: {} to {}, {}{}", trend_text(point.change), value.run->time,
                                      value.run->node, value_text(point.change.before, course.metric),
                                      value_text(point.change.after, course.metric), change_text(point.change),
                                      point.software.empty() ? "" : "; also new: " + joined(point.software))));
  }
  return fmt::format(
      "<section><h3>{}</h3><svg viewBox=\"0 0 {:.0f} {:.0f}\"><polyline class=\"main\" "
      "points=\"{}\"/>{}</svg>{}</section>\n",
      text(course.unit + " " + course.key.text() + " " + course.metric), width, height, points_of(course), marks,
      words);
}

}  // namespace

std::string html_text(const Fleet& fleet) {
  std::vector<Cells> nodes, left_out;
  for (const FleetNode& node : fleet.nodes) {
    const std::string action(name(node.action));
    nodes.push_back({node.host, std::string(name(node.state)), std::string(name(node.verdict)), node.started,
                     std::to_string(node.ranks), serials_text(node, true), serials_text(node, false),
                     recorded_text(node), drift_text(node), node.reasons.empty() ? "" : node.reasons.front(),
                     action + (action.empty() || node.next.empty() ? "" : ": ") + node.next});
  }
  for (const UnusedRun& left : fleet.left_out) left_out.push_back({left.path, left.why});
  std::string body = table(plural(fleet.nodes.size(), "node"),
                           {"node", "state", "own verdict", "run of", "GPUs", "serial numbers", "GPUs at fault",
                            "in the ledger", "against own runs", "finding", "what to do"},
                           nodes);
  if (!left_out.empty()) body += table("left out", {"run", "reason"}, left_out);
  const bool is_good = fleet.exit_code == 0 && fleet.count(NodeState::good) == fleet.nodes.size();
  return page(fleet.count(NodeState::bad) > 0 ? "bad" : is_good ? "good" : "doubt", headline_text(fleet), body);
}

std::string html_text(const History& history) {
  constexpr std::size_t max_drawings = 200;
  std::vector<Cells> nodes;
  for (const NodeRecord& node : history.nodes) {
    nodes.push_back(
        {node.node, std::string(name(node.state)), node.since,
         node.last_run == nullptr ? "none" : std::string(name(node.last_run->verdict)) + " " + node.last_run->time,
         node.reason});
  }
  std::string body = table("nodes", {"node", "state", "since", "last run", "reason"}, nodes);
  std::size_t drawn = 0;
  for (const Course& course : history.courses) {
    if (!course.changes.empty() && ++drawn <= max_drawings) body += drawing(course);
  }
  const bool is_bad = exit_code(history) == 1;
  const std::string what = history.selected.empty() ? "ledger" : history.selected;
  return page(is_bad                                                  ? "bad"
              : exit_code(history) == 0 && history.unreadable.empty() ? "good"
                                                                      : "doubt",
              fmt::format("{}: {}, {} of {} changed", what, plural(history.nodes.size(), "node"), drawn,
                          plural(history.courses.size(), "figure")),
              body);
}

}  // namespace shakedown
