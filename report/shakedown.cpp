// shakedown: what to do after a run.
//
//   build/report/shakedown report --verdict=build/results/verdict.json
//   build/report/shakedown report --results=build/results
//   build/report/shakedown regress --results=build/results --baseline=ci/baselines/h200-sxm/4ranks
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "report/arguments.hpp"
#include "report/terminal.hpp"
#include "report/verdict_json.hpp"
#include "thresholds/matrix.hpp"

namespace shakedown {
namespace {

constexpr int usage = 2;

std::string help() {
  return "usage: shakedown VERB [flags]\n\n"
         "verbs:\n"
         "  report    print the table of a stored --verdict, or judge --results and print the figures of pairs as "
         "matrices\n"
         "            too; exit code is the verdict's\n"
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

// A stored verdict has no figures of pairs.
std::vector<PairMatrix> matrices_of(const Arguments& arguments) {
  std::vector<PairMatrix> all;
  if (arguments.results.empty()) return all;
  for (const Results& file : read_results(arguments.results)) {
    for (auto& matrix : pair_matrices(file.context, file.rows)) all.push_back(std::move(matrix));
  }
  return all;
}

int report(const Arguments& arguments) {
  const Verdict verdict = verdict_of(arguments);
  if (arguments.explain) {
    std::fputs(explanation(arguments).c_str(), stdout);
    std::puts(verdict_line(verdict).c_str());
  } else {
    for (const auto& matrix : matrices_of(arguments)) std::printf("%s\n", text(matrix).c_str());
    std::fputs(terminal_text(verdict, {arguments.color}).c_str(), stdout);
  }
  return verdict.exit_code;
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
  if (!is_flag && verb != "report" && verb != "regress") throw InputError("unknown verb \"" + verb + "\"; see --help");
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
