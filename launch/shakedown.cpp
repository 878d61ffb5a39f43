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

#include "base/environment.hpp"
#include "base/event.hpp"
#include "base/exit_code.hpp"
#include "base/files.hpp"
#include "base/keeper.hpp"
#include "base/nearest_word.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"
#include "base/utc.hpp"
#include "certify/certificate.hpp"
#include "certify/tarball.hpp"
#include "launch/accept.hpp"
#include "launch/agreement.hpp"
#include "launch/choice.hpp"
#include "launch/demo.hpp"
#include "launch/job.hpp"
#include "launch/local_ranks.hpp"
#include "launch/options.hpp"
#include "launch/soak.hpp"
#include "launch/supervisor.hpp"
#include "report/arguments.hpp"
#include "report/baseline.hpp"
#include "report/claim.hpp"
#include "report/compare.hpp"
#include "report/costs.hpp"
#include "report/culprits.hpp"
#include "report/fleet.hpp"
#include "report/judge_apart.hpp"
#include "report/ledger.hpp"
#include "report/markdown.hpp"
#include "report/node_commands.hpp"
#include "report/outputs.hpp"
#include "report/reason.hpp"
#include "report/regress.hpp"
#include "report/rehearse.hpp"
#include "report/terminal.hpp"
#include "report/verdict_json.hpp"
#include "thresholds/judge/headline.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {
namespace {

// Judges the results. If there are none, returns the stored verdict, which has no matrices of pairs.
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
    if (measured && !arguments.prices.empty())
      std::fputs(costs_text(measured->benchmarks, arguments.prices.front(), style.table()).c_str(), stdout);
    std::fputs(terminal_text(verdict, style).c_str(), stdout);
  }
  if (arguments.judge.families.all()) channel.give(text(headline_of(verdict)));
  return code;
}

// Each file is replaced atomically. The JSON file is last, so that a program that sees a new JSON file also sees new
// host files.
void write_nodes(const std::filesystem::path& folder, const NodeList& list) {
  const TimedCall call("create", folder);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  replace_file(folder / "good_nodes", host_file(list, NodeState::good));
  replace_file(folder / "bad_nodes", host_file(list, NodeState::bad));
  replace_file(folder / "nodes.json", nodes_json(list));
}

// Writes the host files, and prints commands for the scheduler.
void act_on(const NodeList& list, const Arguments& arguments) {
  if (arguments.nodes) write_nodes(*arguments.nodes, list);
  if (arguments.scontrol) std::fputs(scontrol_commands(list).c_str(), stdout);
  if (arguments.kubectl) std::fputs(kubectl_commands(list).c_str(), stdout);
}

void check_commands(const Arguments& arguments) {
  if (arguments.scontrol && arguments.kubectl)
    throw InputError("--scontrol and --kubectl cannot be combined; see --help");
}

int nodes(const Arguments& arguments) {
  check_commands(arguments);
  const Judged all = judged(arguments);
  if (all.verdict.backend == Backend::virtual_gpu) {
    throw InputError("nodes: --backend=virtual measured no node; measure with --backend=cuda");
  }
  write_outputs(outputs_of(arguments), all);
  const NodeList list = decide_nodes(all.verdict);
  act_on(list, arguments);
  if (!arguments.nodes && !arguments.scontrol && !arguments.kubectl) std::fputs(nodes_json(list).c_str(), stdout);
  const auto bad = [](const NodeDecision& node) { return node.state == NodeState::bad; };
  if (std::any_of(list.nodes.begin(), list.nodes.end(), bad)) return 1;
  return list.undecided_because.empty() ? 0 : 3;
}

// If commands are requested, standard output has only commands.
int fleet(const Arguments& arguments) {
  check_commands(arguments);
  const Fleet all = judge_fleet(arguments);
  const double now = seconds_of(utc_now()).value_or(0);
  std::FILE* const to = arguments.scontrol || arguments.kubectl ? stderr : stdout;
  // Before the files, so that a file that cannot be written does not cost the verdict.
  std::fputs(fleet_text(all, style_of(arguments), now).c_str(), to);
  write_outputs(arguments.outputs, all);
  act_on(all.list(), arguments);
  return all.exit_code;
}

// Removes old host files if the input could not be judged, because then no node is proven good.
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
  const auto& named = arguments.results.front();
  if (!is_folder(named)) {
    throw InputError(named.string() + (path_exists(named) ? ": is a file; archive packs the folder of a run"
                                                          : ": no such folder; name that of a run"));
  }
  const TimedCall call("stat", named);
  const auto folder = std::filesystem::weakly_canonical(named);
  const auto files = result_files(folder);
  std::vector<Results> first;  // empty if the results cannot be read; the archive includes them anyway
  if (!files.empty()) input_error_of([&] { first.push_back(read_results(files.front())); });
  refuse_virtual(first, "archive");
  const auto out = arguments.out.value_or("shakedown-" + folder.filename().string() + ".tar");
  write_tarball(folder, out);
  std::puts(out.c_str());
  return 0;
}

using Words = std::vector<std::string>;

struct Call {
  Words words;  // the words after the verb
  Arguments arguments;
  const ReasonChannel& channel;
};

struct Verb {
  std::string name;   // such as "baseline create"
  std::string usage;  // usage text after the name of the verb
  std::string help;
  enum { words, flags, arguments } reads;  // parsed by the verb itself, by the flag table, or by Arguments
  int (*run)(const Call&);
  std::ptrdiff_t operands = 0;  // number of words before and between the flags that are not flags

  std::string taker() const {
    std::string taker = name;
    std::replace(taker.begin(), taker.end(), ' ', '_');
    return taker;
  }
  std::ptrdiff_t size() const { return 1 + std::count(name.begin(), name.end(), ' '); }  // number of words in the name
};

const std::vector<Verb>& verbs() {
  static const std::string stored = "[--results=F | --verdict=F] [flags]";
  static const std::vector<Verb> rows{
      {"accept", "[flags]", "measure this machine, or all hosts of the job, and judge", Verb::flags,
       [](const Call& call) { return accept(call.words, call.channel); }},
      {"measure", "[flags]", "measure without judging; prints the folder of the results", Verb::flags,
       [](const Call& call) { return measure(call.words); }},
      {"report", stored, "judge stored results, or show a stored verdict", Verb::arguments,
       [](const Call& call) { return report(call.arguments, call.channel); }},
      {"nodes", stored, "print ISOLATE, RESET or MONITOR for each node as JSON; exit 1 if one is bad", Verb::arguments,
       [](const Call& call) { return nodes(call.arguments); }},
      {"fleet", "--results=DIR[,DIR...] [flags]",
       "judge the newest run of each node, and compare the GPUs of all nodes with each other", Verb::arguments,
       [](const Call& call) { return fleet(call.arguments); }},
      {"regress", "--results=F [--baseline=F | --store=DIR] [flags]",
       "compare with a baseline or with earlier runs; exit 1 if anything is worse", Verb::arguments,
       [](const Call& call) { return regress(call.arguments); }},
      {"archive", "--results=DIR [--out=FILE]", "pack a run with its logs, without secrets", Verb::arguments,
       [](const Call& call) { return archive(call.arguments); }},
      {"certify", "--results=DIR --key=FILE [--site=F] [--out=FILE]", "sign a run with its rules and its verdict",
       Verb::arguments, [](const Call& call) { return certify(call.arguments, SHAKEDOWN_VERSION); }},
      {"verify", "FILE --signers=FILE [--site=F]",
       "check a certificate, and judge its results again; exit 1 if it is refused", Verb::arguments,
       [](const Call& call) { return verify(call.arguments, SHAKEDOWN_VERSION); }, 1},
      {"baseline create", "--results=F,F --out=DIR [flags]", "combine results of good machines", Verb::arguments,
       [](const Call& call) { return baseline("create", call.arguments); }},
      {"baseline merge", "--baseline=F,F --out=DIR [flags]", "combine several baselines", Verb::arguments,
       [](const Call& call) { return baseline("merge", call.arguments); }},
      {"baseline show", "--baseline=F [flags]", "print a baseline", Verb::arguments,
       [](const Call& call) { return baseline("show", call.arguments); }},
      {"compare", "A B [flags]", "print two runs, or archives of runs, side by side", Verb::arguments,
       [](const Call& call) { return compare(call.arguments); }, 2},
      {"history", "[NODE|GPU|METRIC] --ledger=DIR [flags]",
       "print the state of each node, or the history of one node, GPU (serial number) or metric", Verb::arguments,
       [](const Call& call) { return history(call.arguments); }, 1},
      {"retest", "NODE --ledger=DIR",
       "print Slurm commands that repeat what failed on a node, or that return the node to service", Verb::arguments,
       [](const Call& call) { return retest(call.arguments); }, 1},
      {"ledger add", "--event=E --node=N [--reason=TEXT] | --results=F",
       "add to the ledger: what was done to a node, or a stored run", Verb::arguments,
       [](const Call& call) { return add_to_ledger(call.arguments); }},
      {"claim", "--results=DIR [--ledger=DIR] [--site=F] [--price=N]",
       "print a claim about a failed run: GPUs, figures, hours and money", Verb::arguments,
       [](const Call& call) { return claim(call.arguments); }},
      {"rehearse", "--hosts=N | --site=F [flags]",
       "simulate a cluster of this size with faults: how surely an acceptance finds each", Verb::arguments,
       [](const Call& call) { return rehearse(call.arguments, shipped_profiles() / "rehearsal/noise"); }},
      {"demo", "[--fault=slow-hbm] [flags]", "show a verdict, its page and its commands without hardware",
       Verb::arguments, [](const Call& call) { return demo(call.arguments); }},
      {"inventory", "[summary|gpu|nvlink|ib|cpu|software|settings|all] [--json]",
       "print the hardware and software of this host", Verb::words,
       [](const Call& call) { return inventory(call.words); }},
      {"discover", "", "print the identity of this host as one line of JSON", Verb::words,
       [](const Call& call) { return discover(call.words); }},
      {"launch", "PROGRAM [ARGS]", "run a program on all ranks", Verb::words,
       [](const Call& call) { return launch(call.words); }},
  };
  return rows;
}

std::string overview() {
  std::string text = "usage: shakedown VERB [flags]\n\nverbs:\n";
  for (const Verb& verb : verbs())
    text += "  " + verb.name + std::string(17 - verb.name.size(), ' ') + verb.help + "\n";
  return text +
         "\nshakedown VERB --help, or help VERB, lists the flags of a verb; --version prints the version.\n"
         "exit codes: 0 pass, 1 fail, 2 usage or unreadable input, 3 inconclusive, incomplete or no reference\n";
}

std::string help(const Verb& verb) {
  return "usage: shakedown " + verb.name + " " + verb.usage + "\n\n" + verb.help + "\n" +
         flags_help(all_flags(), verb.taker());
}

bool is_any_of(const std::string& word, std::initializer_list<const char*> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Returns the verb with which the words begin; nullptr if they begin with none.
const Verb* verb_of(const Words& words) {
  for (const Verb& verb : verbs()) {
    if (std::ssize(words) >= verb.size() &&
        verb.name == joined(Words(words.begin(), words.begin() + verb.size()), " ")) {
      return &verb;
    }
  }
  return nullptr;
}

[[noreturn]] void refuse_verb(const Words& words) {
  const std::string& verb = words.front();
  if (verb == "roll") throw InputError("roll is now called discover");
  if (verb.rfind("--", 0) == 0)
    throw InputError("a verb is missing before \"" + verb + "\"" + did_you_mean(verb, {"--help", "--version"}) +
                     "; see --help");
  if (verb == "ledger") throw InputError("ledger: write ledger add; see ledger --help");
  Words known{"baseline", "ledger", "help", "version"}, actions;
  for (const Verb& row : verbs())
    (row.size() == 1 ? known : actions).push_back(row.name.substr(row.name.find(' ') + 1));
  if (verb != "baseline") {
    throw InputError("unknown verb \"" + verb + "\"" + did_you_mean(verb, known) + "; see --help");
  }
  const std::string action = words.size() > 1 ? words[1] : "";
  if (action.empty()) throw InputError("baseline: an action is missing; write baseline create, merge or show");
  throw InputError("unknown action \"" + action + "\"" + did_you_mean(action, actions) +
                   "; write baseline create, merge or show");
}

/// Prints the help of all verbs that begin with these words, or that of the program if there are none.
int show_help(Words words) {
  std::erase_if(words, [](const auto& word) { return word.starts_with('-') || word == "help"; });
  const Verb* const asked = verb_of(words);
  std::string text = words.empty() ? overview() : asked != nullptr ? help(*asked) : "";
  for (const Verb& verb : verbs()) {
    if (words.size() == 1 && verb.name.starts_with(words.front() + " "))
      text += (text.empty() ? "" : "\n") + help(verb);
  }
  if (text.empty()) refuse_verb(words);
  std::fputs(text.c_str(), stdout);
  return 0;
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
  // The verbs supervisor, ctest and ranks have no keeper, because their parent processes limit their time.
  if (verb == "supervisor" || verb == "ctest" || verb == "ranks") return work();
  const bool accepts = verb == "accept";
  if (accepts) block_signals();  // accept handles these signals, because it ends with a verdict
  return keep({accepts || verb == "measure" ? limit_in(words) : std::nullopt, accepts,
               [&](const std::string& why) { return answer_for(words, channel, why); }},
              work);
}
