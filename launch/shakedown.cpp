// shakedown: from a machine to a verdict, and what to do after it.
//
//   build/bin/shakedown accept
//   build/bin/shakedown report --results=build/results
//   build/bin/shakedown report --results=build/results --markdown=summary.md
//   build/bin/shakedown nodes --results=build/results --nodes=nodes
//   build/bin/shakedown regress --results=build/results --baseline=ci/baselines/h200-sxm/4ranks
//   build/bin/shakedown baseline create --results=good1,good2 --out=ci/baselines --floors=h200-sxm.yaml
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/environment.hpp"
#include "base/event.hpp"
#include "base/exit_code.hpp"
#include "base/files.hpp"
#include "base/keeper.hpp"
#include "launch/accept.hpp"
#include "launch/agreement.hpp"
#include "launch/job.hpp"
#include "launch/local_ranks.hpp"
#include "launch/options.hpp"
#include "launch/report_verbs.hpp"
#include "launch/supervisor.hpp"
#include "launch/verbs.hpp"
#include "launch/words.hpp"
#include "report/arguments.hpp"
#include "report/fleet.hpp"
#include "report/judge_apart.hpp"
#include "report/outputs.hpp"
#include "report/reason.hpp"
#include "report/regress.hpp"

namespace shakedown {
namespace {

bool is_any_of(const std::string& word, std::initializer_list<const char*> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Sends an event for a script that starts ranks (ci/with_cuda), because the script itself cannot authenticate.
int send_event(const Words& words) {
  const auto event = words.size() == 1 ? event_in(words.front()) : std::nullopt;
  if (!event) throw InputError("event: write one line of JSON, as in base/event.hpp");
  EventSender(std::getenv("SHAKEDOWN_EVENTS")).say(*event);
  return 0;
}

/// Warns of SHAKEDOWN_* variables that have no effect. Ranks other than the first and the verb discover do not warn,
/// because the program that started them does.
void warn_of_unknown_variables(const Verb& verb) {
  const auto rank = process_environment()("RANK").value_or("0");
  if (rank != "0" || verb.name == "discover") return;
  for (const auto& warning : warnings_of_unknown_variables()) say(warning);
}

int run(const Words& words, const ReasonChannel& channel) {
  if (words.empty()) throw InputError("a verb is missing; see --help");
  const Words rest(words.begin() + 1, words.end());
  if (words.front() == "supervisor") return supervise(rest);
  if (words.front() == "ctest") return ctest_step(rest);
  if (words.front() == "ranks") return run_ranks_here(rest);
  if (words.front() == "event") return send_event(rest);
  const Verb* const verb = verb_of(words);
  // Words after the name of a user's program belong to that program.
  const auto ours = verb != nullptr && verb->reads == Verb::words ? std::min<std::ptrdiff_t>(std::ssize(words), 2)
                                                                  : std::ssize(words);
  const auto asks = [&](std::initializer_list<const char*> flags) {
    return std::any_of(words.begin(), words.begin() + ours, [&](const auto& word) { return is_any_of(word, flags); });
  };
  if (words.front() == "help") return show_help(rest);
  if (asks({"--help", "-h"}))
    return show_help(verb == nullptr ? words : Words(words.begin(), words.begin() + verb->size()));
  if (words.front() == "version" || asks({"--version", "-V"})) {
    std::puts("shakedown " SHAKEDOWN_VERSION);
    return 0;
  }
  if (verb == nullptr) refuse_verb(words);
  warn_of_unknown_variables(*verb);
  Call call{{words.begin() + verb->size(), words.end()}, {}, channel};
  if (verb->reads == Verb::arguments) {
    Words operands, flags;
    for (const auto& word : call.words) {
      (word.starts_with("--") || std::ssize(operands) == verb->operands ? flags : operands).push_back(word);
    }
    call.arguments = parse_arguments(verb->taker(), flags, shipped_profiles());
    call.arguments.operands.assign(operands.begin(), operands.end());
  }
  return verb->run(call);
}

bool has_verb(const std::vector<std::string>& words, std::initializer_list<const char*> verbs) {
  return !words.empty() && is_any_of(words.front(), verbs);
}

bool names_results(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [](const auto& word) { return word.rfind("--results", 0) == 0; });
}

// Removes old reports if there is no verdict. Keeps the stored verdict, because it is an input.
void replace_reports(const std::vector<std::string>& words, const Judged& nothing, const std::string& why) {
  if (has_verb(words, {"nodes", "fleet"})) replace_nodes(words, why);
  if (has_verb(words, {"fleet"})) {
    Fleet none;
    none.left_out.push_back({"shakedown fleet", why});
    return replace_outputs(words, none, "shakedown");
  }
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
  // Standard output of `nodes` has JSON or commands, so it gets no verdict line.
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

/// Returns the limit of accept and measure in seconds: that of --limit, or that of --gate and the time to end ranks
/// that hang. The keeper needs it before flags are checked, so an invalid value is ignored here and refused later.
std::optional<Seconds> limit_in(const std::vector<std::string>& words) {
  constexpr double to_end_ranks = 8;
  for (const auto& [flag, more] : {std::pair<std::string_view, double>{"--limit=", 0}, {"--gate=", to_end_ranks}}) {
    for (const auto& word : words) {
      const auto seconds = word.starts_with(flag) ? std::strtod(word.c_str() + flag.size(), nullptr) : 0;
      if (seconds > 0) return Seconds(seconds + more);
    }
  }
  return std::nullopt;
}

/// Reports why the child process that does the work gave no answer. Each step has a time limit, because standard output
/// may be a full pipe, and the folder of old reports may not respond.
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
  Words words(argv + 1, argv + argc);
  if (const Verb* const row = verb_of(words); row != nullptr && row->reads != Verb::words) {
    words = with_equals(all_flags(), row->taker(), words);
  }
  // Restores the default action of SIGCHLD: if the caller ignored it, exit codes of child processes would be lost.
  signal(SIGCHLD, SIG_DFL);
  const ReasonChannel channel;
  const auto work = [&] { return run_and_report(words, channel); };
  // The verbs supervisor, ctest and ranks have no keeper, because their parent processes limit their time. top has none
  // because it is one: its child processes make the calls that may hang.
  if (verb == "supervisor" || verb == "ctest" || verb == "ranks" || verb == "top") return work();
  const bool accepts = verb == "accept";
  if (accepts) block_signals();  // accept handles these signals, because it ends with a verdict
  return keep({accepts || verb == "measure" ? limit_in(words) : std::nullopt, accepts,
               [&](const std::string& why) { return answer_for(words, channel, why); }},
              work);
}
