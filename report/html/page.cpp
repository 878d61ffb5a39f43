#include "report/html/page.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/archive.hpp"
#include "report/escape.hpp"
#include "report/html/data.hpp"
#include "report/html/page_text.hpp"
#include "report/regression_json.hpp"
#include "report/words.hpp"
#include "thresholds/judge/headline.hpp"

namespace shakedown {
namespace {

using nlohmann::json;

// Returns the document without empty members, with texts made printable and numbers rounded to the digits that people
// read.
json slim(const json& value) {
  if (value.is_string()) return printable(value.get<std::string>());
  if (value.is_number_float()) {
    const double number = value;
    if (!std::isfinite(number)) return nullptr;
    const double shown = std::abs(number) >= 1e5 ? std::round(number) : std::stod(number_text(number));
    return shown == std::round(shown) && std::abs(shown) < 1e15 ? json(static_cast<long long>(shown)) : json(shown);
  }
  if (!value.is_structured()) return value;
  json out = value.is_array() ? json::array() : json::object();
  for (const auto& [name, item] : value.items()) {
    json part = slim(item);
    if (value.is_array()) {
      out.push_back(std::move(part));
    } else if (!part.is_null() && part != "" && !(part.is_structured() && part.empty())) {
      out[printable(name)] = std::move(part);
    }
  }
  return out;
}

// Escapes JSON for a script element: a string in it must not contain "</script>", so "<" is replaced.
std::string script_text(const json& data) {
  std::string out;
  for (const char c : text_of_document(slim(data), -1)) out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return out;
}

// Inserts the title, the headline for browsers without scripts, and the data into the static page.
std::string page(const std::string& title, const std::string& headline, const json& data) {
  std::string out;
  std::string_view rest = page_text;
  for (const auto& [place, text] : {std::pair<std::string_view, std::string>{"{{title}}", html_escaped(title)},
                                    {"{{headline}}", html_escaped(headline)},
                                    {"{{data}}", script_text(data)}}) {
    const auto at = rest.find(place);
    out += std::string(rest.substr(0, at)) + text;
    rest.remove_prefix(at + place.size());
  }
  return out + std::string(rest);
}

}  // namespace

std::string html_text(const Judged& judged) {
  const Verdict& v = judged.verdict;
  const Headline headline = headline_of(v);
  // The title names the machine and the day, so that several open tabs can be told apart.
  std::vector<std::string> of;
  if (v.nodes.size() == 1) of.push_back(v.nodes.front().host);
  if (v.nodes.size() > 1) of.push_back(plural(v.nodes.size(), "host"));
  if (v.started.size() >= 10) of.push_back(v.started.substr(0, 10));
  const std::string title = text(headline) + (of.empty() ? "" : " - " + joined(of));
  return page(one_line(title), text_and_next(headline), page_data(judged));
}

std::string html_text(const Regression& regression) {
  json data = document_of_text(regression_json(regression));
  std::size_t i = 0;
  for (const Change& change : regression.changes) {
    json& shown = data["changes"][i++];
    shown["words"] = {joined_words(change.key, change.metric),
                      value_text(change.before, change.metric),
                      value_text(change.after, change.metric),
                      change_text(change),
                      count_text(change),
                      trend_text(change)};
  }
  const std::string line = regression_line(regression);
  return page(line, line, {{"regression", data}});
}

}  // namespace shakedown
