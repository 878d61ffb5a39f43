// Maps statuses to failures, errors and skipped tests of JUnit, in the format of Apache Ant that Jenkins, GitLab and
// GitHub's actions read.
#include "report/junit.hpp"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "base/text.hpp"
#include "report/escape.hpp"
#include "report/terminal.hpp"
#include "report/words.hpp"
#include "thresholds/judge/headline.hpp"

namespace shakedown {
namespace {

struct Suite {
  std::string cases, notes;  // notes are separate, because some schemas allow no text in a passed test
  int tests = 0, failures = 0, errors = 0, skipped = 0;
};

std::string said(const char* element, std::string_view type, const std::string& message, const std::string& text) {
  return fmt::format("<{0} type=\"{1}\" message=\"{2}\">{3}</{0}>", element, type, html_escaped(one_line(message)),
                     html_escaped(text));
}

void add(Suite& suite, const std::string& family, const std::string& name, const std::string& body) {
  ++suite.tests;
  suite.cases += fmt::format("    <testcase classname=\"shakedown.{}\" name=\"{}\" time=\"0\">{}</testcase>\n",
                             html_escaped(family), html_escaped(name), body);
}

std::string body(Suite& suite, const Finding& finding) {
  if (finding.status == Status::waived) {
    ++suite.skipped;
    return fmt::format("<skipped message=\"{}\"/>", html_escaped(one_line(finding.detail)));
  }
  if (finding.good()) return "";
  if (!finding.counts()) return suite.notes += finding_text(finding) + "\n", "";
  const bool open = finding.status == Status::inconclusive || finding.status == Status::no_reference;
  ++(open ? suite.errors : suite.failures);
  return said(open ? "error" : "failure", name(finding.code), summary_text(finding), finding_text(finding));
}

std::string body(Suite& suite, const Change& change) {
  const std::string text = trend_text(change);
  const std::string message = joined_words(change_text(change), text);
  switch (change.trend) {
    case Trend::better:
    case Trend::same:
    case Trend::added: return "";
    case Trend::noisy: ++suite.skipped; return fmt::format("<skipped message=\"{}\"/>", html_escaped(one_line(text)));
    case Trend::inconclusive: ++suite.errors; return said("error", name(change.trend), message, message);
    case Trend::worse:
    case Trend::missing: break;
  }
  ++suite.failures;
  return said("failure", name(change.trend), message, message);
}

std::string counts(const Suite& suite) {
  return fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"0\"", suite.tests,
                     suite.failures, suite.errors, suite.skipped);
}

// Writes exactly the attributes and elements that the schemas of Jenkins and of ReFrame require. The schemas of JUnit
// reports allow no time zone, and an unknown time becomes the earliest possible time.
std::string document(const std::vector<std::pair<std::string, Suite>>& suites, const std::string& started,
                     const std::vector<Node>& nodes) {
  const bool is_known = started.size() == 20 && started.back() == 'Z';
  const std::string time = is_known ? started.substr(0, 19) : "1970-01-01T00:00:00";
  const std::string host = nodes.empty() ? "localhost"
                           : nodes.size() == 1
                               ? nodes.front().host
                               : nodes.front().host + " and " + std::to_string(nodes.size() - 1) + " more";
  std::string out;
  for (std::size_t id = 0; id < suites.size(); ++id) {
    const auto& [family, suite] = suites[id];
    out += fmt::format(
        "  <testsuite name=\"{}\" package=\"shakedown\" id=\"{}\" hostname=\"{}\" timestamp=\"{}\" {}>\n"
        "    <properties/>\n{}    <system-out>{}</system-out>\n    <system-err/>\n  </testsuite>\n",
        html_escaped(family), id, html_escaped(one_line(host)), html_escaped(time), counts(suite), suite.cases,
        html_escaped(suite.notes));
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n" + out + "</testsuites>\n";
}

// The file also has test cases for findings that the verdict does not count, so the text gives both numbers.
std::string tests_text(const Verdict& verdict) {
  const auto uncounted = verdict.findings.size() - verdict.total;
  return verdict_line(verdict) + "\ntests of this file: " + plural(verdict.total, "finding") +
         " that affect the verdict, " + std::to_string(uncounted) + " that only warn or inform, and the verdict";
}

}  // namespace

std::string junit_xml(const Verdict& verdict) {
  std::vector<std::pair<std::string, Suite>> suites{{"verdict", {}}};
  Suite& whole = suites.front().second;
  std::string judged;
  const std::string all = tests_text(verdict);
  whole.notes = all + "\n";
  if (verdict.exit_code != 0) {
    const bool failed = verdict.state == State::fail;
    ++(failed ? whole.failures : whole.errors);
    const Headline headline = headline_of(verdict);
    judged = said(failed ? "failure" : "error", lower(name(verdict.state)), text(headline), text_and_next(headline));
  }
  add(whole, "verdict", "verdict", judged);
  std::map<std::string, std::size_t> index;
  // a warning and a failure of the same metric have the same name, so the second one gets a number
  std::map<std::string, int> times;
  for (const Finding& finding : verdict.findings) {
    const std::string family = family_of(finding.key);
    const auto [found, fresh] = index.emplace(family, suites.size());
    if (fresh) suites.emplace_back(family, Suite{});
    Suite& suite = suites[found->second].second;
    std::string name = joined_words(finding.key, finding.metric);
    if (const int n = ++times[name]; n > 1) name += " " + std::to_string(n);
    add(suite, family, name, body(suite, finding));
  }
  return document(suites, verdict.started, verdict.nodes);
}

std::string junit_xml(const Regression& regression) {
  std::vector<std::pair<std::string, Suite>> suites{{"regression", {}}};
  Suite& suite = suites.front().second;
  const auto line = regression_line(regression);
  std::string judged;
  if (regression.exit_code != 0) {
    const bool failed = regression.exit_code == 1;
    ++(failed ? suite.failures : suite.errors);
    judged = said(failed ? "failure" : "error", "regression", line, line);
  }
  add(suite, "regression", "regression", judged);
  for (const Change& change : regression.changes) {
    add(suite, family_of(change.key), joined_words(change.key, change.metric), body(suite, change));
  }
  return document(suites, "", {});
}

}  // namespace shakedown
