// shakedown: what to do after a run.
//
//   build/report/shakedown report --verdict=build/results/verdict.json
//   build/report/shakedown report --results=build/results
//   build/report/shakedown nodes --results=build/results --nodes=nodes
//   build/report/shakedown regress --results=build/results --baseline=ci/baselines/h200-sxm/4ranks
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "report/arguments.hpp"
#include "report/culprits.hpp"
#include "report/terminal.hpp"
#include "report/verdict_json.hpp"

namespace shakedown {
namespace {

constexpr int usage = 2;

std::string help() {
  return "usage: shakedown VERB [flags]\n\n"
         "verbs:\n"
         "  report    print the table of a stored --verdict, or judge --results; exit code is the verdict's\n"
         "  nodes     what to do with each node: ISOLATE, RESET or MONITOR, as JSON, and host files with --nodes=DIR;\n"
         "            exit 0 if all are good, 1 if some are bad, 3 if that is undecided\n"
         "  regress   compare --results with --baseline; exit 1 if anything is worse or missing\n\n"
         "flags:\n" +
         arguments_help() +
         "\nexit codes: 0 pass, 1 fail, 2 usage or unreadable input, 3 inconclusive or no reference\n";
}

// A stored verdict is shown as it is; results are judged, and then --verdict is where the verdict goes.
Verdict verdict_of(const Arguments& arguments) {
  if (arguments.results.empty() && arguments.verdict) return read_verdict(*arguments.verdict);
  Verdict verdict = judge(arguments);
  if (arguments.verdict) replace_file(*arguments.verdict, verdict_json(verdict));
  return verdict;
}

int report(const Arguments& arguments) {
  const Verdict verdict = verdict_of(arguments);
  if (arguments.explain) {
    std::fputs(explanation(arguments).c_str(), stdout);
    std::puts(verdict_line(verdict).c_str());
  } else {
    std::fputs(terminal_text(verdict, {arguments.color}).c_str(), stdout);
  }
  return verdict.exit_code;
}

// Each file is replaced whole; the JSON comes last, so that who sees it new sees the host files new.
int nodes(const Arguments& arguments) {
  const NodeList list = decide_nodes(verdict_of(arguments));
  const std::string json = nodes_json(list);
  if (arguments.nodes) {
    std::error_code error;
    std::filesystem::create_directories(*arguments.nodes, error);
    replace_file(*arguments.nodes / "good_nodes", host_file(list, NodeState::good));
    replace_file(*arguments.nodes / "bad_nodes", host_file(list, NodeState::bad));
    replace_file(*arguments.nodes / "nodes.json", json);
  } else {
    std::fputs(json.c_str(), stdout);
  }
  const auto bad = [](const NodeDecision& node) { return node.state == NodeState::bad; };
  if (!list.undecided_because.empty()) return 3;
  return std::any_of(list.nodes.begin(), list.nodes.end(), bad) ? 1 : 0;
}

int regress(const Arguments& arguments) {
  if (arguments.results.empty() || arguments.baseline.empty()) {
    throw InputError("regress needs --results and --baseline; see --help");
  }
  const auto regression = judge_regression(read_results(arguments.results), read_results(arguments.baseline),
                                           arguments.tolerance, arguments.judge.allow_faults);
  std::fputs(terminal_text(regression, arguments.tolerance, {arguments.color}).c_str(), stdout);
  return regression.exit_code;
}

int run(const std::vector<std::string>& words) {
  if (words.empty()) throw InputError("a verb is missing; see --help");
  const std::string& verb = words.front();
  const bool is_flag = verb.rfind("--", 0) == 0;
  if (!is_flag && verb != "report" && verb != "nodes" && verb != "regress") throw InputError("unknown verb \"" + verb + "\"; see --help");
  const Arguments arguments =
      parse_arguments({words.begin() + (is_flag ? 0 : 1), words.end()}, SHAKEDOWN_SOURCE_DIR "/thresholds");
  if (arguments.help) {
    std::fputs(help().c_str(), stdout);
    return 0;
  }
  if (arguments.version) {
    std::puts("shakedown " SHAKEDOWN_VERSION);
    return 0;
  }
  if (is_flag) throw InputError("a verb is missing before \"" + verb + "\"; see --help");
  if (verb == "nodes") return nodes(arguments);
  return verb == "report" ? report(arguments) : regress(arguments);
}

// A report ends with a verdict, like acceptance_test, whatever was wrong.
int refuse(const std::vector<std::string>& words, const std::string& why) {
  std::fflush(stdout);
  std::fprintf(stderr, "shakedown: %s\n", why.c_str());
  if (!words.empty() && words.front() == "report") std::puts(verdict_line(Verdict{}).c_str());
  return usage;
}

}  // namespace
}  // namespace shakedown

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    return shakedown::run(words);
  } catch (const std::exception& error) {
    return shakedown::refuse(words, error.what());
  }
}
