// Decides which flags there are and what they mean. Tested by tests/acceptance_cli_test.cpp.
#include "report/arguments.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <map>
#include <sstream>

#include "thresholds/crosscheck.hpp"
#include "thresholds/evidence.hpp"

namespace shakedown {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

template <class Number>
Number number(const std::string& flag, const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw InputError(flag + ": \"" + text + "\" is not a number; see --help");
  }
  return value;
}

int count(const std::string& flag, const std::string& text) {
  const int value = number<int>(flag, text);
  if (value < 1) throw InputError(flag + ": " + text + " is below 1; see --help");
  return value;
}

std::vector<std::filesystem::path> paths(const std::string& flag, const std::string& text) {
  std::vector<std::filesystem::path> result;
  for (const std::string& part : split(text, ',')) {
    if (part.empty()) throw InputError(flag + ": an empty path in \"" + text + "\"; separate paths by one comma");
    result.emplace_back(part);
  }
  return result;
}

void parse_expect(const std::string& text, JudgeOptions& options) {
  for (const std::string& part : split(text, ',')) {
    const auto equals = part.find('=');
    const std::string name = part.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (name == "ranks") {
      options.expected.ranks = count("--expect=ranks", value);
    } else if (name == "hosts") {
      options.expected.hosts = count("--expect=hosts", value);
    } else if (name == "backend" && (value == "host" || value == "cuda")) {
      options.expected_backend = value;
    } else {
      throw InputError("--expect: \"" + part + "\" is not understood; write ranks=N,hosts=M or backend=cuda");
    }
  }
}

using Handler = std::function<void(const std::string& value)>;

std::map<std::string, Handler> flags_with_value(Arguments& a) {
  return {
      {"--results", [&a](const std::string& v) { a.results = paths("--results", v); }},
      {"--thresholds", [&a](const std::string& v) { a.thresholds = v; }},
      {"--family", [&a](const std::string& v) { a.judge.family = v; }},
      {"--baseline", [&a](const std::string& v) { a.baseline = paths("--baseline", v); }},
      {"--tolerance", [&a](const std::string& v) { a.tolerance = number<double>("--tolerance", v); }},
      {"--verdict", [&a](const std::string& v) { a.verdict = v; }},
      {"--nodes", [&a](const std::string& v) { a.nodes = v; }},
      {"--scaling", [&a](const std::string& v) { a.scaling = paths("--scaling", v); }},
      {"--roster", [&a](const std::string& v) { a.judge.roster = read_roster(v); }},
      {"--expect", [&a](const std::string& v) { parse_expect(v, a.judge); }},
      {"--explain", [&a](const std::string& v) { a.explain = v; }},
  };
}

std::map<std::string, bool*> flags_without_value(Arguments& a) {
  return {{"--mixed-runs", &a.judge.mixed_runs},
          {"--allow-faults", &a.judge.allow_faults},
          {"--color", &a.color},
          {"--help", &a.help},
          {"--version", &a.version}};
}

}  // namespace

Arguments parse_arguments(const std::vector<std::string>& words, const std::filesystem::path& thresholds) {
  Arguments arguments;
  const char* named = std::getenv("SHAKEDOWN_THRESHOLDS");
  arguments.thresholds = named != nullptr && *named != '\0' ? std::filesystem::path(named) : thresholds;
  const auto with_value = flags_with_value(arguments);
  const auto switches = flags_without_value(arguments);
  for (const std::string& word : words) {
    const auto equals = word.find('=');
    const std::string flag = word.substr(0, equals);
    if (const auto found = switches.find(word); found != switches.end()) {
      *found->second = true;
    } else if (const auto handler = with_value.find(flag); handler != with_value.end()) {
      const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
      if (value.empty()) throw InputError(flag + " needs a value: " + flag + "=...; see --help");
      handler->second(value);
    } else {
      throw InputError("unknown flag \"" + word + "\"; see --help");
    }
  }
  return arguments;
}

std::string arguments_help() {
  return R"(  --results=F[,F...]      result files, or folders of them (*.json but verdict.json)
  --thresholds=F          one profile, or a folder of them (default: SHAKEDOWN_THRESHOLDS, else the source tree's)
  --family=NAME           judge this family only
  --expect=ranks=N,hosts=M,backend=cuda
                          how many ranks and hosts there should be, and on what they should measure
  --roster=FILE           the hosts that should report: one "host", "host 8" or "host slots=8" per line
  --baseline=F[,F...]     results to compare with: a drop beyond the tolerance is a failure
  --tolerance=X           relative, for --baseline (default 0.05)
  --verdict=F             write verdict.json there (shakedown report without --results: read it)
  --scaling=DIR[,DIR...]  the same results with other numbers of ranks: what each rank loses when more of them work
  --nodes=DIR             for the verb nodes: write good_nodes, bad_nodes (host files) and nodes.json there
  --explain=KEY           how the judgement of this key came about
  --mixed-runs            permit files of different runs
  --allow-faults          permit results measured with an injected fault (to test the tests)
  --color                 colour the table
  --help, --version
)";
}

Verdict judge(const Arguments& arguments) {
  if (arguments.results.empty()) throw InputError("--results is missing; see --help");
  const auto results = read_results(arguments.results);
  Verdict verdict = judge(results, load_profiles(arguments.thresholds), arguments.judge);
  if (!arguments.baseline.empty()) {
    const auto regression =
        judge_regression(results, read_results(arguments.baseline), arguments.tolerance, arguments.judge.allow_faults);
    add_findings(verdict, findings_of(regression, arguments.tolerance, verdict.ranks));
    verdict.spoken.push_back({Judgement::baseline, std::to_string(regression.compared) + " benchmarks compared, " +
                                                       (regression.exit_code == 0 ? "none" : "some") +
                                                       " worse or missing"});
  }
  if (!arguments.scaling.empty()) {
    std::vector<std::vector<Results>> sets{results};
    for (const auto& folder : arguments.scaling) sets.push_back(read_results(std::vector{folder}));
    for (const auto& set : sets) refuse_faults(set, arguments.judge.allow_faults);
    auto findings = judge_scaling(sets);
    const auto lost = std::count_if(findings.begin(), findings.end(), [](const Finding& f) { return !f.good(); });
    verdict.spoken.push_back({Judgement::crosscheck, std::to_string(findings.size()) + " benchmarks scaled, " +
                                                         std::to_string(lost) + " lost too much"});
    add_findings(verdict, std::move(findings));
  }
  return verdict;
}

std::string explanation(const Arguments& arguments) {
  if (arguments.results.empty()) throw InputError("--explain needs --results; see --help");
  return explain(read_results(arguments.results), load_profiles(arguments.thresholds), arguments.judge,
                 *arguments.explain);
}

}  // namespace shakedown
