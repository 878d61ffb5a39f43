#include "report/health_checker.hpp"

#include "base/archive.hpp"

#include "report/words.hpp"
#include "thresholds/judge/headline.hpp"

namespace shakedown {
namespace {

using nlohmann::ordered_json;

const char* status_of(State state) {
  if (state == State::pass || state == State::fit) return "PASS";
  return state == State::fail ? "FAIL" : "ERROR";
}

const char* status_of(const Finding& finding) {
  if (finding.good() || !finding.counts()) return "PASS";
  return finding.status == Status::inconclusive || finding.status == Status::no_reference ? "ERROR" : "FAIL";
}

}  // namespace

std::string health_checker_json(const Verdict& verdict) {
  const Headline headline = headline_of(verdict);
  const ordered_json whole{{"status", status_of(verdict.state)},
                           {"error", is_good(verdict.state) ? "" : text(headline)}};
  ordered_json tests{{{"name", "verdict"}, {"checks", {{{"name", "verdict"}, {"state", whole}}}}}};
  for (const Finding& finding : verdict.findings) {
    const std::string family = family_of(finding.key);
    if (tests.empty() || tests.back().at("name") != family) {
      tests.push_back({{"name", family}, {"checks", ordered_json::array()}});
    }
    const ordered_json state{{"status", status_of(finding)}, {"error", finding.good() ? "" : summary_text(finding)}};
    tests.back().at("checks").push_back({{"name", joined_words(finding.key, finding.metric)}, {"state", state}});
  }
  const ordered_json document{{"status", status_of(verdict.state)}, {"tests", std::move(tests)}};
  return text_of_document(document, -1) + "\n";
}

}  // namespace shakedown
