// Decides what the page of a comparison shows: what changed first, each benchmark with the course of its launches.
#include <fmt/format.h>

#include "report/escape.hpp"
#include "report/html/page.hpp"
#include "report/html/sections.hpp"
#include "report/html/svg.hpp"
#include "report/words.hpp"

namespace shakedown {
namespace {

std::string course(const Change& change) {
  std::vector<svg::Step> steps;
  for (const LaunchValue& launch : change.launches) {
    steps.push_back({launch.value, launch.is_new, launch.started + ": " + value_text(launch.value, change.metric)});
  }
  return svg::course(joined_words(change.key, change.metric) + ", launch by launch", steps);
}

std::string table(const std::vector<const Change*>& changes) {
  if (changes.empty()) return "";
  std::string rows;
  for (const Change* change : changes) {
    rows += "<tr><th scope=\"row\">" + html_escaped(joined_words(change->key, change->metric)) + "</th>" +
            cell(value_text(change->before, change->metric), "baseline") +
            cell(value_text(change->after, change->metric), "now") + cell(change_text(*change), "change") +
            cell(count_text(*change), "launches") + cell(trend_text(*change), "status") + "<td>" + course(*change) +
            "</td></tr>\n";
  }
  return "<div class=\"wide\"><table class=\"stack\">" +
         heads({"benchmark", "baseline", "now", "change", "launches", "status", "course"}) + "<tbody>" + rows +
         "</tbody></table></div>";
}

}  // namespace

std::string html_text(const Regression& regression) {
  const char* const tone = regression.exit_code == 0 ? "good" : regression.exit_code == 1 ? "bad" : "doubt";
  const char* const state = regression.exit_code == 0   ? "NOTHING IS WORSE"
                            : regression.exit_code == 1 ? "WORSE THAN THE BASELINE"
                                                        : "INCONCLUSIVE";
  std::vector<const Change*> failed = worst_changes(regression), open, noisy, quiet;
  for (const Change& change : regression.changes) {
    if (change.trend == Trend::worse || change.trend == Trend::missing) continue;
    auto& list = change.trend == Trend::inconclusive ? open : change.trend == Trend::noisy ? noisy : quiet;
    list.push_back(&change);
  }
  std::string notes;
  for (const std::string& note : regression.notes) notes += "<li>" + html_escaped(note) + "</li>";
  const std::string line = regression_line(regression);
  return html_page(line, "<header class=\"" + std::string(tone) + "\"><p class=\"state\">" + state + "</p><h1>" +
                             html_escaped(line) + "</h1>" + (notes.empty() ? "" : "<ul>" + notes + "</ul>") +
                             "</header>\n" + section("worse", "Worse or missing", "", table(failed)) +
                             section("inconclusive", "Inconclusive", "", table(open)) +
                             section("same", "The same, better or new", "", table(quiet)) +
                             section("noisy", "Not judged", "Launches differ too much to show a loss of 10 %.",
                                     folded(std::to_string(noisy.size()) + " benchmarks", table(noisy))));
}

}  // namespace shakedown
