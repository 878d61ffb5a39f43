// shakedown: from a machine to a verdict, and what to do after it.
//
//   build/bin/shakedown accept
//   build/bin/shakedown report --results=build/results
//   build/bin/shakedown report --results=build/results --markdown=summary.md
//   build/bin/shakedown nodes --results=build/results --nodes=nodes
//   build/bin/shakedown regress --results=build/results --baseline=ci/baselines/h200-sxm/4ranks
//   build/bin/shakedown baseline create --results=good1,good2 --out=ci/baselines --floors=h200-sxm.yaml
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/exit_code.hpp"
#include "base/files.hpp"
#include "base/keeper.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"
#include "launch/accept.hpp"
#include "launch/choice.hpp"
#include "launch/job.hpp"
#include "launch/nearest_word.hpp"
#include "launch/options.hpp"
#include "launch/soak.hpp"
#include "launch/supervisor.hpp"
#include "launch/tarball.hpp"
#include "report/arguments.hpp"
#include "report/baseline.hpp"
#include "report/culprits.hpp"
#include "report/judge_apart.hpp"
#include "report/markdown.hpp"
#include "report/node_commands.hpp"
#include "report/outputs.hpp"
#include "report/reason.hpp"
#include "report/regress.hpp"
#include "report/terminal.hpp"
#include "report/verdict_json.hpp"
#include "thresholds/judge/headline.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {
namespace {

std::string help() {
  return "usage: shakedown VERB [flags]\n\n"
         "verbs:\n"
         "  accept    measure all ranks of this machine, or of the hosts that a scheduler gave, judge, and print the\n"
         "            table; exit code is the verdict's\n"
         "  measure   the same without judging; prints the folder of the results\n"
         "  discover  say who this host is, in one line of JSON\n"
         "  inventory [summary|gpu|nvlink|ib|cpu|software|all] [--json]: what this host is made of, in two seconds\n"
         "  launch    PROGRAM [ARGS]: run a program on the ranks that would be measured\n"
         "  report    print the table of a stored --verdict, or judge --results and print the figures of pairs as "
         "matrices\n"
         "            too; exit code is the verdict's\n"
         "  nodes     what to do with each node: ISOLATE, RESET or MONITOR, as JSON, and host files with --nodes=DIR;\n"
         "            exit 0 if all are good, 1 if some are bad, 3 if that is undecided\n"
         "  archive   put a run's --results, logs and hashes into one tar without secrets, --out=FILE (default\n"
         "            shakedown-RUN.tar here), for who repairs the machine; prints its name\n"
         "  regress   compare --results with --baseline, or with earlier accepted runs in --store; exit 1 if anything "
         "is\n"
         "            worse or missing, 3 if inconclusive\n"
         "  baseline create   put --results of good machines together under --out\n"
         "  baseline merge    put several --baseline together under --out\n"
         "  baseline show     print a --baseline\n\n"
         "flags of accept and measure, beside those that judge:\n" +
         front_door_help() + "\nflags that judge:\n" + arguments_help() +
         "\nexit codes: 0 pass, 1 fail, 2 usage or unreadable input, 3 inconclusive, incomplete or no "
         "reference\n";
}

// A stored verdict is shown as it is, and --verdict names it; results are judged, and then it is where the verdict
// goes.
bool is_stored(const Arguments& arguments) {
  return arguments.results.empty() && arguments.outputs.contains("--verdict");
}

// Without results a stored verdict, which has no figures of pairs.
Judged judged(const Arguments& arguments) {
  return judge_apart(arguments, [&]() -> Judged {
    if (is_stored(arguments)) return {nullptr, {}, read_stored_verdict(arguments.outputs.at("--verdict"))};
    return judge(arguments);
  });
}

OutputFiles outputs_of(const Arguments& arguments) {
  OutputFiles files = arguments.outputs;
  if (is_stored(arguments)) files.erase("--verdict");
  return files;
}

int report(const Arguments& arguments, const ReasonChannel& channel) {
  if (arguments.results.size() == 1 && is_watch(arguments.results.front())) {
    return report_watch(arguments.results.front(), arguments, channel);
  }
  const Judged all = judged(arguments);
  const auto& measured = all.measured;
  const Verdict& verdict = all.verdict;
  const int code = write_all_outputs(outputs_of(arguments), all, "shakedown", exit_code(verdict, arguments));
  if (arguments.explain && is_stored(arguments)) throw InputError("--explain needs --results; see --help");
  if (arguments.explain && measured) {
    std::fputs(explain(*measured, all.profiles, verdict, *arguments.explain).c_str(), stdout);
    std::puts(verdict_line(verdict).c_str());
  } else {
    const TerminalStyle style = style_of(arguments);
    if (measured && style.all) std::fputs(matrices_text(measured->files).c_str(), stdout);
    std::fputs(terminal_text(verdict, style).c_str(), stdout);
  }
  if (arguments.judge.families.all()) channel.give(text(headline_of(verdict)));
  return code;
}

// Each file is replaced whole; the JSON comes last, so that who sees it new sees the host files new.
void write_nodes(const std::filesystem::path& folder, const NodeList& list) {
  const TimedCall call("create", folder);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  replace_file(folder / "good_nodes", host_file(list, NodeState::good));
  replace_file(folder / "bad_nodes", host_file(list, NodeState::bad));
  replace_file(folder / "nodes.json", nodes_json(list));
}

int nodes(const Arguments& arguments) {
  if (arguments.scontrol && arguments.kubectl)
    throw InputError("--scontrol and --kubectl: give one of them; see --help");
  const Judged all = judged(arguments);
  write_outputs(outputs_of(arguments), all);
  const NodeList list = decide_nodes(all.verdict);
  if (arguments.nodes) write_nodes(*arguments.nodes, list);
  if (arguments.scontrol) std::fputs(scontrol_commands(list).c_str(), stdout);
  if (arguments.kubectl) std::fputs(kubectl_commands(list).c_str(), stdout);
  if (!arguments.nodes && !arguments.scontrol && !arguments.kubectl) std::fputs(nodes_json(list).c_str(), stdout);
  const auto bad = [](const NodeDecision& node) { return node.state == NodeState::bad; };
  if (!list.undecided_because.empty()) return 3;
  return std::any_of(list.nodes.begin(), list.nodes.end(), bad) ? 1 : 0;
}

// Old host files must not outlive input that could not be judged: no node is proven good by it.
void replace_nodes(const std::vector<std::string>& words, const std::string& why) {
  const std::string start = "--nodes=";
  for (const std::string& word : words) {
    if (word.rfind(start, 0) != 0 || word == start) continue;
    try {
      write_nodes(word.substr(start.size()), {State::incomplete, {}, {why}});
    } catch (const CannotWrite& error) {
      std::fprintf(stderr, "shakedown: %s\n", error.what());
    }
  }
}

int archive(const Arguments& arguments) {
  if (arguments.results.size() != 1) throw InputError("archive needs --results=DIR, the folder of one run; see --help");
  const TimedCall call("stat", arguments.results.front());
  const auto folder = std::filesystem::weakly_canonical(arguments.results.front());
  const auto out = arguments.out.value_or("shakedown-" + folder.filename().string() + ".tar");
  write_tarball(folder, out);
  std::puts(out.c_str());
  return 0;
}

const std::vector<std::string> verbs{"accept", "measure", "discover", "inventory", "launch",
                                     "report", "nodes",   "archive",  "regress",   "baseline"};

bool is_any_of(const std::string& word, std::initializer_list<const char*> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

void require_verb(const std::string& verb) {
  if (verb == "roll") throw InputError("roll is now called discover");
  if (verb.rfind("--", 0) == 0 || std::find(verbs.begin(), verbs.end(), verb) != verbs.end()) return;
  throw InputError("unknown verb \"" + verb + "\"" + did_you_mean(verb, verbs) + "; see --help");
}

/// The action of `baseline`, which is the first word after it; empty for other verbs.
std::string action_of(const std::string& verb, const std::vector<std::string>& rest) {
  if (verb != "baseline" || rest.empty() || rest.front().rfind("--", 0) == 0) return "";
  const std::string& action = rest.front();
  if (is_any_of(action, {"create", "merge", "show"})) return action;
  throw InputError("unknown action \"" + action + "\"" + did_you_mean(action, {"create", "merge", "show"}) +
                   "; write baseline create, merge or show");
}

/// The verbs that judge or show what was measured before.
int judge_verb(const std::string& verb, const std::vector<std::string>& rest, const ReasonChannel& channel) {
  const auto action = action_of(verb, rest);
  const std::vector<std::string> flags(rest.begin() + (action.empty() ? 0 : 1), rest.end());
  const Arguments arguments = parse_judging(flags);
  if (arguments.version) {
    std::puts("shakedown " SHAKEDOWN_VERSION);
    return 0;
  }
  const bool shows_stored = (verb == "report" || verb == "nodes") && is_stored(arguments);
  refuse_ignored(shows_stored ? "stored" : action.empty() ? verb : verb + " " + action, flags);
  if (verb == "nodes") return nodes(arguments);
  if (verb == "archive") return archive(arguments);
  if (verb == "baseline") return baseline(action, arguments);
  return verb == "report" ? report(arguments, channel) : regress(arguments);
}

int run(const std::vector<std::string>& words, const ReasonChannel& channel) {
  if (words.empty()) throw InputError("a verb is missing; see --help");
  const std::string& verb = words.front();
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (verb == "launch") return launch(rest);
  if (verb == "inventory") return inventory(rest);
  if (verb == "supervisor") return supervise(rest);
  const auto asks_for_help = [](const std::string& word) { return word == "--help" || word == "-h"; };
  if (verb == "help" || std::any_of(words.begin(), words.end(), asks_for_help)) {
    std::fputs(help().c_str(), stdout);
    return 0;
  }
  if (is_any_of(verb, {"version", "-V", "--version"})) {
    std::puts("shakedown " SHAKEDOWN_VERSION);
    return 0;
  }
  if (verb == "accept") return accept(rest, channel);
  if (verb == "measure") return measure(rest);
  if (verb == "discover") return discover(rest);
  if (verb == "ctest") return ctest_step(rest);
  require_verb(verb);
  if (verb.rfind("--", 0) == 0) throw InputError("a verb is missing before \"" + verb + "\"; see --help");
  return judge_verb(verb, rest, channel);
}

bool has_verb(const std::vector<std::string>& words, std::initializer_list<const char*> verbs) {
  return !words.empty() && is_any_of(words.front(), verbs);
}

bool names_results(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [](const auto& word) { return word.rfind("--results", 0) == 0; });
}

// No old report stays where there is no verdict. The verdict that was to be shown is input, and stays.
void replace_reports(const std::vector<std::string>& words, const Judged& nothing, const std::string& why) {
  if (has_verb(words, {"nodes"})) replace_nodes(words, why);
  if (has_verb(words, {"regress"})) {
    Regression none;
    none.exit_code = 2;
    none.notes.push_back(why);
    return replace_outputs(words, none, "shakedown");
  }
  if (!has_verb(words, {"report", "accept", "nodes"})) return;
  const bool shown = has_verb(words, {"report", "nodes"}) && !names_results(words);
  replace_outputs(words, nothing, "shakedown", shown ? "--verdict" : "");
}

void say_no_verdict(const Failure& failure, const std::vector<std::string>& words, const ReasonChannel& channel) {
  // Standard output of `nodes` is JSON or commands.
  const bool judges = has_verb(words, {"report", "accept"});
  std::FILE* const verdict_to = judges ? stdout : has_verb(words, {"nodes"}) ? stderr : nullptr;
  say_no_verdict(failure, "shakedown", judges ? &channel : nullptr, verdict_to);
}

void replace_reports(const std::vector<std::string>& words, const std::string& why) {
  Judged nothing;
  nothing.verdict.notes.push_back(why);
  replace_reports(words, nothing, why);
}

int end_after(const Failure& failure, const std::vector<std::string>& words, const ReasonChannel& channel) {
  std::fflush(stdout);
  replace_reports(words, failure.text);
  say_no_verdict(failure, words, channel);
  return failure.code;
}

/// "--limit=30" of accept and measure: the keeper's, which asks before any flag is checked. A wrong one is refused
/// later.
std::optional<Seconds> limit_in(const std::vector<std::string>& words) {
  constexpr std::string_view flag = "--limit=";
  for (const auto& word : words) {
    const auto seconds = word.rfind(flag, 0) == 0 ? std::strtod(word.c_str() + flag.size(), nullptr) : 0;
    if (seconds > 0) return Seconds(seconds);
  }
  return std::nullopt;
}

/// Says why the work did not answer. Standard output may be a pipe that is full, and old reports may be where the work
/// hangs.
int answer_for(const std::vector<std::string>& words, const ReasonChannel& channel, const std::string& why) {
  const Failure failure{exit_incomplete, why};
  try_shortly([&] { say_no_verdict(failure, words, channel); });
  if (!try_shortly([&] { replace_reports(words, why); })) {
    try_shortly([&] { replace_reports(without_results(words), why); });
  }
  return failure.code;
}

int run_and_report(const std::vector<std::string>& words, const ReasonChannel& channel) {
  try {
    return after_output(run(words, channel), "shakedown");
  } catch (const std::exception& error) {
    return after_output(end_after(failure_of(error), words, channel), "shakedown");
  }
}

}  // namespace
}  // namespace shakedown

int main(int argc, char** argv) {
  using namespace shakedown;
  const std::string_view verb(argc > 1 ? argv[1] : "");
  end_incomplete_on_terminate(verb == "accept" || verb == "report");
  const std::vector<std::string> words(argv + 1, argv + argc);
  signal(SIGCHLD, SIG_DFL);  // ignored, as some callers leave it, no child's exit code would be known
  const ReasonChannel channel;
  const auto work = [&] { return run_and_report(words, channel); };
  // The front door keeps time over its supervisor, and ctest over its steps, which know it as their parent.
  if (verb == "supervisor" || verb == "ctest") return work();
  const bool accepts = verb == "accept";
  if (accepts) block_signals();  // it ends with a verdict
  return keep({accepts || verb == "measure" ? limit_in(words) : std::nullopt, accepts,
               [&](const std::string& why) { return answer_for(words, channel, why); }},
              work);
}
